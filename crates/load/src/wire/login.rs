//! The login, the first request on a connection to a server that requires authentication.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use larder_protocol::binary::client::{Manner, request as binary};
use larder_protocol::text::client::request as text;
use larder_protocol::{Command, Store};

use crate::options::{Dialect, LoadArguments};
use crate::wire::dialect::{ParsedReply, Reply};

/// A user name, and the login request in the load's protocol.
pub(crate) struct Login {
    name: String,
    request: Vec<u8>,
    dialect: Dialect,
}

impl Login {
    /// Returns the login of the options; `None` without `--user`.
    ///
    /// # Errors
    /// The password file cannot be read, or its password cannot be sent.
    pub(crate) fn new(arguments: &LoadArguments) -> Result<Option<Self>> {
        let (Some(name), Some(path)) = (&arguments.user, &arguments.password_file) else {
            return Ok(None);
        };
        let password = read_password(path)?;
        // The meta protocol uses the login of the text protocol.
        let dialect = match arguments.dialect {
            Dialect::Text | Dialect::Meta => Dialect::Text,
            Dialect::Binary => Dialect::Binary,
        };
        let mut request = Vec::new();
        if dialect == Dialect::Binary {
            let credentials = format!("\0{name}\0{password}").into_bytes();
            let (mechanism, credentials) = (&b"PLAIN"[..], &credentials[..]);
            let command = Command::Authenticate { mechanism, credentials, is_step: false };
            binary::command(&mut request, &command, Manner::default())?;
        } else {
            let words = format!("{name} {password}").into_bytes();
            let value_bytes = words.len();
            // A server without authentication stores this as an item. The negative exptime expires
            // it at once, so that no client reads the password.
            let head = Store { key: b"login", exptime: -1, value_bytes, ..Store::PLAIN };
            text::store(&mut request, &head, &words, false)?;
        }
        Ok(Some(Self { name: name.clone(), request, dialect }))
    }

    /// Sends the login and waits for the answer.
    ///
    /// # Errors
    /// The server refuses the login, or its answer is not of the protocol.
    pub(crate) fn log_in(&self, stream: &mut (impl Read + Write)) -> Result<()> {
        stream.write_all(&self.request).and_then(|()| stream.flush()).context("logging in")?;
        let (mut answer, mut piece) = (Vec::new(), [0; 512]);
        loop {
            let received = stream.read(&mut piece).context("logging in")?;
            ensure!(received > 0, "the server closed the connection during the login");
            answer.extend_from_slice(&piece[..received]);
            match self.dialect.read_reply(&answer) {
                ParsedReply::Reply { reply: Reply::Stored, .. }
                    if self.dialect == Dialect::Text =>
                {
                    return Ok(());
                }
                ParsedReply::Reply { reply: Reply::Other, .. }
                    if self.dialect == Dialect::Binary =>
                {
                    return Ok(());
                }
                ParsedReply::Reply { reply: Reply::Error(words), .. } => {
                    bail!(
                        "the server refuses the login of {:?}: {}",
                        self.name,
                        words.escape_ascii()
                    )
                }
                ParsedReply::NeedMore { .. } if answer.len() < ANSWER_BYTES_MAX => {}
                _ => bail!("the server's answer to a login is not of memcached's protocol"),
            }
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The request contains the password.
        f.debug_struct("Login").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns the only line of a file.
fn read_password(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the password in {}", path.display()))?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    let is_sound = !password.is_empty() && !password.contains(|byte: char| byte.is_control());
    ensure!(is_sound, "{}: expected one line with the password", path.display());
    Ok(password.to_owned())
}

const ANSWER_BYTES_MAX: usize = 4 * 1024;
