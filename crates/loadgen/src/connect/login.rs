//! The login, the first request on a connection to a server that requires authentication.

use std::env::{self, VarError};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use larder_protocol::binary::{self, client::Manner, status};
use larder_protocol::{Command, Store, text};

use crate::argument::Quoted;

/// The options of a login.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LoginArguments {
    /// Log in on every connection with this name, in the text protocol (-Y of larderd and
    /// memcached)
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The file with the password of --user, one line. Without it: LARDER_PASSWORD
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl LoginArguments {
    /// True if the options request a login.
    pub(crate) fn is_on(&self) -> bool {
        self.user.is_some()
    }

    /// Returns the name of the first option that is given.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let of_file = self.password_file.as_ref().map(|_| "--password-file");
        self.user.as_ref().map(|_| "--user").or(of_file)
    }

    /// Checks that the options are consistent.
    ///
    /// # Errors
    /// Names the option that is missing, or the name that cannot be sent.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(user) = &self.user else {
            ensure!(self.password_file.is_none(), "--password-file needs --user: give both");
            return Ok(());
        };
        let is_sound = !user.is_empty() && !user.contains(|c: char| c.is_control() || c == ' ');
        ensure!(is_sound, "--user {}: expected a name without spaces", Quoted::text(user));
        Ok(())
    }

    fn password(&self) -> Result<String> {
        if let Some(path) = &self.password_file {
            let text = read_file(path)
                .with_context(|| format!("cannot read the password in {}", path.display()))?;
            return only_line(&text).with_context(|| path.display().to_string());
        }
        match env::var(PASSWORD) {
            Ok(text) => only_line(&text).context(PASSWORD),
            Err(VarError::NotPresent) => {
                bail!("--user needs a password: give --password-file FILE, or set {PASSWORD}")
            }
            Err(VarError::NotUnicode(_)) => bail!("{PASSWORD} is not a password: expected UTF-8"),
        }
    }
}

/// The protocol of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// The text protocol (`-Y`).
    Text,
    /// SASL PLAIN of the binary protocol (`-S`).
    Sasl,
}

/// A user name, and the login request.
#[derive(Clone)]
pub(crate) struct Login {
    name: String,
    request: Vec<u8>,
    mechanism: Mechanism,
}

/// The response to a login.
enum Answer {
    Accepted,
    Refused(String),
    /// The response is not complete yet.
    Incomplete,
    Foreign,
}

impl Login {
    /// Returns the login of the options; `None` without `--user`.
    ///
    /// # Errors
    /// The options contradict each other, or the password cannot be read or sent.
    pub(crate) fn new(arguments: &LoginArguments, mechanism: Mechanism) -> Result<Option<Self>> {
        arguments.check()?;
        let Some(name) = &arguments.user else { return Ok(None) };
        let password = arguments.password()?;
        let mut request = Vec::new();
        if mechanism == Mechanism::Sasl {
            let credentials = format!("\0{name}\0{password}").into_bytes();
            let (mechanism, credentials) = (&b"PLAIN"[..], &credentials[..]);
            let command = Command::Authenticate { mechanism, credentials, is_step: false };
            binary::client::request::command(&mut request, &command, Manner::default())?;
        } else {
            let words = format!("{name} {password}").into_bytes();
            let value_bytes = words.len();
            // A server without authentication stores this as an item. With the negative exptime it
            // expires immediately, so that no client can read the password.
            let head = Store { key: b"login", exptime: -1, value_bytes, ..Store::PLAIN };
            text::client::request::store(&mut request, &head, &words, false)?;
        }
        Ok(Some(Self { name: name.clone(), request, mechanism }))
    }

    pub(crate) fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Sends the login and waits for the response.
    ///
    /// # Errors
    /// The server refuses the login. If the response is missing or invalid, the error is an
    /// [`io::Error`].
    pub(crate) fn log_in(&self, stream: &mut (impl Read + Write)) -> Result<()> {
        stream.write_all(&self.request).and_then(|()| stream.flush())?;
        let (mut answer, mut piece) = (Vec::new(), [0; 512]);
        loop {
            let received = stream.read(&mut piece)?;
            if received == 0 {
                let words = "the server closed the connection during the login";
                return Err(io::Error::new(ErrorKind::ConnectionReset, words).into());
            }
            answer.extend_from_slice(&piece[..received]);
            match self.read(&answer) {
                Answer::Accepted => return Ok(()),
                Answer::Refused(words) => {
                    bail!(
                        "the server refuses the login of {}: {words}; check the name and the password",
                        Quoted::text(&self.name)
                    )
                }
                Answer::Incomplete if answer.len() < ANSWER_BYTES_MAX => {}
                Answer::Incomplete | Answer::Foreign => {
                    let words = "the server's response to a login is not memcached's protocol";
                    return Err(io::Error::new(ErrorKind::InvalidData, words).into());
                }
            }
        }
    }

    fn read(&self, answer: &[u8]) -> Answer {
        match self.mechanism {
            Mechanism::Text => read_text(answer),
            Mechanism::Sasl => read_binary(answer),
        }
    }
}

fn read_text(answer: &[u8]) -> Answer {
    use text::client::{ParsedReply, Reply, read_reply};
    match read_reply(answer) {
        ParsedReply::Reply { reply: Reply::Stored, .. } => Answer::Accepted,
        ParsedReply::Reply { reply: Reply::Error(line), .. } => {
            Answer::Refused(line.escape_ascii().to_string())
        }
        ParsedReply::NeedMore { .. } => Answer::Incomplete,
        ParsedReply::Reply { .. } | ParsedReply::Bad => Answer::Foreign,
    }
}

fn read_binary(answer: &[u8]) -> Answer {
    use binary::client::{ParsedReply, read_reply};
    match read_reply(answer) {
        ParsedReply::Reply { reply, .. } if reply.status == status::SUCCESS => Answer::Accepted,
        ParsedReply::Reply { reply, .. } => Answer::Refused(reply.value.escape_ascii().to_string()),
        ParsedReply::NeedMore { .. } => Answer::Incomplete,
        ParsedReply::Bad => Answer::Foreign,
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The request contains the password.
        f.debug_struct("Login").field("name", &self.name).finish_non_exhaustive()
    }
}

fn read_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(PASSWORD_FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the only line of a text. The error message does not show it.
fn only_line(text: &str) -> Result<String> {
    let password = text.strip_suffix('\n').unwrap_or(text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    let is_sound = !password.is_empty() && !password.contains(|byte: char| byte.is_control());
    ensure!(is_sound, "expected one line with the password");
    Ok(password.to_owned())
}

/// The environment variable with the password.
const PASSWORD: &str = "LARDER_PASSWORD";

/// Larger than any password, which is one line. Limits what is read from a file such as
/// `/dev/zero`.
const PASSWORD_FILE_BYTES_MAX: u64 = 4096;

const ANSWER_BYTES_MAX: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A server that responds in pieces and then closes the connection.
    struct Conversation {
        sent: Vec<u8>,
        pieces: VecDeque<Vec<u8>>,
    }

    impl Conversation {
        fn of(pieces: &[&[u8]]) -> Self {
            Self { sent: Vec::new(), pieces: pieces.iter().map(|piece| piece.to_vec()).collect() }
        }
    }

    impl Read for Conversation {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let piece = self.pieces.pop_front().unwrap_or_default();
            buffer[..piece.len()].copy_from_slice(&piece);
            Ok(piece.len())
        }
    }

    impl Write for Conversation {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.sent.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A login as `user` with the password `pass word`.
    fn login(mechanism: Mechanism) -> Login {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "pass word\r\n").unwrap();
        let user = Some("user".to_owned());
        let arguments = LoginArguments { user, password_file: Some(file) };
        Login::new(&arguments, mechanism).unwrap().unwrap()
    }

    /// The header of a response, with the status, and its value.
    fn binary(status: u8, value: &[u8]) -> Vec<u8> {
        let mut head = [0; 24];
        (head[0], head[1], head[7], head[11]) = (0x81, 0x21, status, value.len() as u8);
        [&head, value].concat()
    }

    #[test]
    fn the_request_has_the_name_and_the_password() {
        let text = login(Mechanism::Text);
        let expected = b"set login 0 -1 14\r\nuser pass word\r\n";
        assert_eq!(text.request, expected, "{}", text.request.escape_ascii());
        let sasl = login(Mechanism::Sasl);
        assert_eq!(sasl.request[..2], [0x80, 0x21]);
        assert!(
            sasl.request.ends_with(b"PLAIN\0user\0pass word"),
            "{}",
            sasl.request.escape_ascii()
        );
    }

    #[test]
    fn no_debug_form_has_the_password() {
        for mechanism in [Mechanism::Text, Mechanism::Sasl] {
            let shown = format!("{:?}", login(mechanism));
            assert!(shown.contains("user") && !shown.contains("pass"), "{shown}");
        }
    }

    #[test]
    fn an_accepted_login_returns_also_if_the_answer_comes_in_pieces() {
        let binary = binary(0, b"Authenticated");
        for (mechanism, pieces) in [
            (Mechanism::Text, &[&b"STORED\r\n"[..]][..]),
            (Mechanism::Text, &[b"S", b"TORED\r", b"\n"]),
            (Mechanism::Sasl, &[&binary]),
            (Mechanism::Sasl, &[&binary[..1], &binary[1..24], &binary[24..]]),
        ] {
            let (login, mut server) = (login(mechanism), Conversation::of(pieces));
            login.log_in(&mut server).unwrap();
            assert_eq!(server.sent, login.request);
            assert!(server.pieces.is_empty(), "the whole answer is read: {:?}", server.pieces);
        }
    }

    #[test]
    fn a_refused_login_has_the_words_of_the_server() {
        let binary = binary(0x20, b"Auth failure.");
        for (mechanism, answer, words) in [
            (
                Mechanism::Text,
                &b"CLIENT_ERROR no\x1b\r\n"[..],
                r#"of "user": CLIENT_ERROR no\x1b;"#,
            ),
            (Mechanism::Sasl, &binary, r#"of "user": Auth failure.;"#),
        ] {
            let refused = login(mechanism).log_in(&mut Conversation::of(&[answer])).unwrap_err();
            let said = refused.to_string();
            assert!(
                said.contains(words) && !said.contains("pass word"),
                "{said:?} lacks {words:?}"
            );
            assert!(refused.downcast_ref::<io::Error>().is_none(), "the server has answered");
        }
    }

    /// These are errors of the conversation, after which the caller finds out which protocol the
    /// server speaks.
    #[test]
    fn an_answer_of_another_kind_ends_the_conversation() {
        let endless = [&[b'x'; 512][..]; 20];
        for (mechanism, pieces, kind) in [
            (Mechanism::Text, &[][..], ErrorKind::ConnectionReset),
            (Mechanism::Text, &[&b"STOR"[..]], ErrorKind::ConnectionReset),
            (Mechanism::Text, &[b"DELETED\r\n"], ErrorKind::InvalidData),
            (Mechanism::Text, &[b"220 smtp\r\n"], ErrorKind::InvalidData),
            (Mechanism::Text, &endless, ErrorKind::InvalidData),
            (Mechanism::Sasl, &[b"ERROR\r\n"], ErrorKind::InvalidData),
        ] {
            let ended = login(mechanism).log_in(&mut Conversation::of(pieces)).unwrap_err();
            let ended = ended.downcast_ref::<io::Error>().unwrap();
            assert_eq!(ended.kind(), kind, "{mechanism:?}, {} pieces: {ended}", pieces.len());
        }
    }

    #[test]
    fn a_password_is_one_line_and_no_message_shows_it() {
        for (text, password) in [("p w", "p w"), ("pw\n", "pw"), ("pw\r\n", "pw"), (" pw ", " pw ")]
        {
            assert_eq!(only_line(text).unwrap(), password);
        }
        for bad in ["", "\n", "\r\n", "secret\nsecret\n", "secret\n\n", "se\0cret", "secret\t"] {
            let said = only_line(bad).unwrap_err().to_string();
            assert!(said.contains("expected one line") && !said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn a_file_of_a_password_is_read_up_to_a_limit_and_named_in_errors() {
        let endless = read_file(Path::new("/dev/zero")).unwrap();
        assert_eq!(endless.len() as u64, PASSWORD_FILE_BYTES_MAX);
        let error = |path: &str| {
            let (user, file) = (Some("u".to_owned()), Some(path.into()));
            let arguments = LoginArguments { user, password_file: file };
            format!("{:#}", Login::new(&arguments, Mechanism::Text).unwrap_err())
        };
        let missing = error("/nowhere/password");
        assert!(
            missing.starts_with("cannot read the password in /nowhere/password: "),
            "{missing}"
        );
        assert_eq!(error("/dev/zero"), "/dev/zero: expected one line with the password");
    }

    #[test]
    fn without_a_user_there_is_no_login() {
        assert!(Login::new(&LoginArguments::default(), Mechanism::Text).unwrap().is_none());
    }
}
