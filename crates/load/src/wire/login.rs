//! The first that is said on a connection where the server lets in only whom it knows.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use larder_protocol::binary::client::{Manner, request as binary};
use larder_protocol::text::client::request as text;
use larder_protocol::{Command, Store};

use crate::options::{Dialect, LoadArguments};
use crate::wire::dialect::{Reading, Reply};

/// A name with its password, as it is told in the load's protocol.
pub(crate) struct Login {
    name: String,
    request: Vec<u8>,
    dialect: Dialect,
}

impl Login {
    /// What the options say; `None` without `--user`.
    ///
    /// # Errors
    /// The file of the password cannot be read, or has no password that can be sent.
    pub(crate) fn new(arguments: &LoadArguments) -> Result<Option<Self>> {
        let (Some(name), Some(path)) = (&arguments.user, &arguments.password_file) else {
            return Ok(None);
        };
        let password = read_password(path)?;
        // The text protocol's is for the meta protocol too.
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
            // A server that asks for no login stores it: nobody shall find it there.
            let head = Store { key: b"login", exptime: -1, value_bytes, ..Store::PLAIN };
            text::store(&mut request, &head, &words, false)?;
        }
        Ok(Some(Self { name: name.clone(), request, dialect }))
    }

    /// Says who it is, and waits for the answer.
    ///
    /// # Errors
    /// The server says no, or nothing that can be understood.
    pub(crate) fn log_in(&self, stream: &mut (impl Read + Write)) -> Result<()> {
        stream.write_all(&self.request).and_then(|()| stream.flush()).context("logging in")?;
        let (mut answer, mut piece) = (Vec::new(), [0; 512]);
        loop {
            let received = stream.read(&mut piece).context("logging in")?;
            ensure!(received > 0, "the server closed the connection at the login");
            answer.extend_from_slice(&piece[..received]);
            match self.dialect.read_reply(&answer) {
                Reading::Reply { reply: Reply::Stored, .. } if self.dialect == Dialect::Text => {
                    return Ok(());
                }
                Reading::Reply { reply: Reply::Other, .. } if self.dialect == Dialect::Binary => {
                    return Ok(());
                }
                Reading::Reply { reply: Reply::Error(words), .. } => {
                    bail!("it does not let {:?} in: {}", self.name, words.escape_ascii())
                }
                Reading::NeedMore { .. } if answer.len() < ANSWER_BYTES_MAX => {}
                _ => bail!("what it answers to a login is not what a memcached answers"),
            }
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The request has the password in it.
        f.debug_struct("Login").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The one line of a file.
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
