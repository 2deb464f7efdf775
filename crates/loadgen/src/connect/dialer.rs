//! Opens connections to one server, with TLS and a login if the options request them.

use anyhow::{Context, Result, anyhow, bail};

use super::diagnosis::{Spoken, spoken};
use super::login::{Login, LoginArguments, Mechanism};
use super::refusal;
use super::stream::Stream;
use super::tls::{Tls, TlsArguments};
use super::{connect, hint};
use crate::address::{Address, ServerArgument};

/// The options of TLS and the login, for subcommands that speak the text protocol.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AccessArguments {
    /// The options of TLS.
    #[command(flatten)]
    pub tls: TlsArguments,
    #[command(flatten)]
    login: LoginArguments,
}

/// The options of a subcommand that talks to one server in the text protocol.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerArguments {
    #[command(flatten)]
    server: ServerArgument,
    #[command(flatten)]
    access: AccessArguments,
}

impl ServerArguments {
    /// Returns the address of the server.
    pub fn address(&self) -> &Address {
        &self.server.server
    }

    /// Returns a dialer for the server. Does not connect.
    ///
    /// # Errors
    /// Same as [`AccessArguments::dialer`].
    pub fn dialer(&self) -> Result<Dialer> {
        self.access.dialer(self.address())
    }
}

impl AccessArguments {
    /// Returns a dialer for this server. Does not connect.
    ///
    /// # Errors
    /// The options contradict each other, or a file cannot be used.
    pub fn dialer(&self, address: &Address) -> Result<Dialer> {
        let login = Login::new(&self.login, Mechanism::Text)?;
        self.dialer_with(address, login)
    }

    /// Returns a dialer for each of these servers, with the same login. Does not connect. Reads the
    /// file of the password once, so that it may be a pipe.
    ///
    /// # Errors
    /// Same as [`Self::dialer`].
    pub fn dialers(&self, addresses: &[Address]) -> Result<Vec<Dialer>> {
        let login = Login::new(&self.login, Mechanism::Text)?;
        addresses.iter().map(|address| self.dialer_with(address, login.clone())).collect()
    }

    fn dialer_with(&self, address: &Address, login: Option<Login>) -> Result<Dialer> {
        Ok(Dialer::new(address.clone(), self.tls.open(address)?, login))
    }

    /// Returns an error if an option of the login is given.
    ///
    /// # Errors
    /// The message names the option and the caller's reason.
    pub fn refuse_login(&self, because: &str) -> Result<()> {
        match self.login.first_given() {
            Some(option) => bail!("{option} has no effect: {because}"),
            None => Ok(()),
        }
    }

    /// Returns an error if one of the options is given.
    ///
    /// # Errors
    /// The message names the option and the caller's reason.
    pub fn refuse(&self, because: &str) -> Result<()> {
        match self.tls.first_given() {
            Some(option) => bail!("{option} has no effect: {because}"),
            None => self.refuse_login(because),
        }
    }
}

/// Opens connections to a server.
#[derive(Clone, Debug)]
pub struct Dialer {
    address: Address,
    tls: Option<Tls>,
    login: Option<Login>,
}

impl Dialer {
    /// Creates a dialer. Does not connect.
    pub(crate) fn new(address: Address, tls: Option<Tls>, login: Option<Login>) -> Self {
        Self { address, tls, login }
    }

    /// Returns the address of the server.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// True if the connections have TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Connects, trying each of the host's addresses in turn, and waits for the TLS handshake and
    /// the login.
    ///
    /// # Errors
    /// The server does not accept the connection, the TLS handshake fails, or the login is refused.
    /// The message names a remedy.
    pub fn open(&self) -> Result<Stream> {
        let mut stream = self.open_without_login()?;
        if let Some(login) = &self.login {
            let logged_in = login.log_in(&mut stream);
            let logging_in = || format!("logging in at {}", self.address);
            logged_in.map_err(|error| self.explained(error)).with_context(logging_in)?;
        }
        Ok(stream)
    }

    fn open_without_login(&self) -> Result<Stream> {
        let address = &self.address;
        let socket = connect(address).map_err(|error| {
            anyhow!("cannot connect to {address}: {error:#}; {}", hint(address, &error))
        })?;
        let Some(tls) = &self.tls else { return Ok(Stream::plain(socket)) };
        Stream::with_tls(socket, tls).map_err(|error| {
            let has_tls = || spoken(|| Ok(Stream::plain(connect(address)?)));
            // A server without TLS may wait for a line end instead of refusing the bytes.
            let is_explained = error.kind() == std::io::ErrorKind::InvalidData;
            match is_explained || !matches!(has_tls(), Some(Spoken::Text | Spoken::Binary)) {
                true => anyhow!("no TLS with {address}: {error}"),
                false => anyhow!("no TLS with {address}: {}", refusal::NO_TLS),
            }
        })
    }

    /// Returns the error of a failed login. If the connection ended, finds out the reason.
    fn explained(&self, error: anyhow::Error) -> anyhow::Error {
        let has_ended = error.downcast_ref::<std::io::Error>().is_some();
        match has_ended.then(|| self.diagnosis()).flatten() {
            Some(reason) => anyhow!(reason),
            None => error,
        }
    }

    /// Finds out, on further connections, why the server does not respond in the text protocol.
    /// Returns the reason and the remedy, if they are known.
    pub fn diagnosis(&self) -> Option<String> {
        let is_of_text =
            !matches!(&self.login, Some(login) if login.mechanism() != Mechanism::Text);
        match (spoken(|| self.open_without_login()), &self.tls) {
            (Some(Spoken::Tls), None) => Some(refusal::TLS_ONLY.to_owned()),
            (Some(Spoken::Binary), _) if is_of_text => Some(BINARY_ONLY.to_owned()),
            (None, Some(tls)) if !tls.has_certificate => {
                Some(format!("the server ends connections: {}", refusal::MAY_DEMAND))
            }
            _ => None,
        }
    }
}

const BINARY_ONLY: &str = "the server takes only the binary protocol, as with -S (SASL), and this \
                           command speaks the text protocol: use a server, or an address of it, \
                           that has -Y or no login";

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::fixtures::{load, nobody, serve};

    /// Returns a dialer that logs in as `user` with the password `secret`.
    fn with_login(address: &Address, mechanism: Mechanism) -> Dialer {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "secret\n").unwrap();
        let file = format!("--password-file={}", file.display());
        let login = Login::new(&load(&["--user=user", &file]).login, mechanism).unwrap();
        Dialer::new(address.clone(), None, login)
    }

    /// Starts a server that reads once and responds with these bytes.
    fn answering(answer: &'static [u8]) -> Address {
        serve(move |_, mut stream| {
            let mut request = [0; 512];
            while stream.read(&mut request).is_ok_and(|received| received > 0) {
                stream.write_all(answer).unwrap();
            }
        })
    }

    /// Behaves like a server with only the binary protocol, which closes the connection when it
    /// receives text.
    fn binary_only(mut stream: TcpStream) {
        let mut request = [0; 512];
        let received = stream.read(&mut request).unwrap();
        if received > 0 && request[0] == 0x80 {
            let mut answer = [0; 24];
            (answer[0], answer[1]) = (0x81, request[1]);
            stream.write_all(&answer).unwrap();
        }
    }

    fn open_error(dialer: &Dialer) -> String {
        format!("{:#}", dialer.open().unwrap_err())
    }

    #[test]
    fn a_login_that_is_accepted_opens_the_connection() {
        let address = answering(b"STORED\r\n");
        let dialer = with_login(&address, Mechanism::Text);
        dialer.open().unwrap();
        assert_eq!((dialer.address(), dialer.has_tls()), (&address, false));
    }

    #[test]
    fn a_login_that_is_refused_is_an_error_with_the_remedy() {
        let dialer =
            with_login(&answering(b"CLIENT_ERROR authentication failure\r\n"), Mechanism::Text);
        let words = open_error(&dialer);
        for part in [
            "logging in at 127.0.0.1:",
            "refuses the login of \"user\": CLIENT_ERROR authentication failure",
            "check the name and the password",
        ] {
            assert!(words.contains(part), "{words:?} lacks {part:?}");
        }
        assert!(!words.contains("secret"), "{words}");
    }

    #[test]
    fn nobody_at_the_address_is_an_error_with_the_command_that_starts_one() {
        let address = nobody();
        let words = open_error(&Dialer::new(address.clone(), None, None));
        assert!(words.starts_with(&format!("cannot connect to {address}: ")), "{words}");
        assert!(words.contains("; is larderd running? start it with: larderd -p "), "{words}");
    }

    #[test]
    fn a_server_of_the_binary_protocol_only_is_named() {
        let address = serve(|_, stream| binary_only(stream));
        let diagnosis = Dialer::new(address.clone(), None, None).diagnosis().unwrap();
        assert!(diagnosis.contains("takes only the binary protocol, as with -S"), "{diagnosis}");
        let words = open_error(&with_login(&address, Mechanism::Text));
        assert!(words.contains("takes only the binary protocol, as with -S"), "{words}");
        // A login in the binary protocol fails for another reason.
        assert_eq!(with_login(&address, Mechanism::Sasl).diagnosis(), None);
    }

    #[test]
    fn a_server_that_answers_with_an_alert_speaks_tls() {
        let address = answering(b"\x15\x03\x03\0\x02\x022");
        let diagnosis = Dialer::new(address, None, None).diagnosis();
        assert_eq!(diagnosis.as_deref(), Some(refusal::TLS_ONLY));
    }

    #[test]
    fn a_server_that_answers_as_it_should_or_not_at_all_has_no_diagnosis() {
        for address in [answering(b"VERSION 1\r\n"), answering(b"HTTP/1.1 400\r\n"), nobody()] {
            assert_eq!(Dialer::new(address, None, None).diagnosis(), None);
        }
    }

    #[test]
    fn options_of_no_effect_are_refused_by_name() {
        #[derive(clap::Parser)]
        struct CommandLine {
            #[command(flatten)]
            access: AccessArguments,
        }
        let access = |args: &[&str]| {
            let args = ["tool"].iter().chain(args);
            <CommandLine as clap::Parser>::try_parse_from(args).unwrap().access
        };
        for (args, option) in [
            (&["--tls"][..], "--tls"),
            (&["--tls-ca=f"], "--tls-ca"),
            (&["--user=u"], "--user"),
            (&["--password-file=f"], "--password-file"),
            (&["--user=u", "--tls-key=k"], "--tls-key"),
        ] {
            let refused = access(args).refuse("a file has no server").unwrap_err().to_string();
            assert_eq!(refused, format!("{option} has no effect: a file has no server"));
        }
        access(&[]).refuse("x").unwrap();
        access(&["--tls"]).refuse_login("x").unwrap();
    }
}
