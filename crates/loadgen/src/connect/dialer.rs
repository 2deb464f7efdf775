//! Opens connections to one server, with TLS and a login where they are asked for.

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

/// The options of a subcommand that talks to one server by the text protocol.
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
    /// Those of [`AccessArguments::dialer`].
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
        let tls = self.tls.open(address)?;
        let login = Login::new(&self.login, Mechanism::Text)?;
        Ok(Dialer::new(address.clone(), tls, login))
    }

    /// Returns an error if an option of the login is given.
    ///
    /// # Errors
    /// The message names the option, and the reason of the caller.
    pub fn refuse_login(&self, because: &str) -> Result<()> {
        match self.login.first_given() {
            Some(option) => bail!("{option} has no effect: {because}"),
            None => Ok(()),
        }
    }

    /// Returns an error if one of the options is given.
    ///
    /// # Errors
    /// The message names the option, and the reason of the caller.
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
    /// The server does not accept the connection, TLS cannot be agreed on, or the login is refused.
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
            // A server without TLS may wait for the end of a line instead of refusing the bytes.
            let is_explained = error.kind() == std::io::ErrorKind::InvalidData;
            match is_explained || !matches!(has_tls(), Some(Spoken::Text | Spoken::Binary)) {
                true => anyhow!("no TLS with {address}: {error}"),
                false => anyhow!("no TLS with {address}: {}", refusal::NO_TLS),
            }
        })
    }

    /// Returns the error of a failed login, with its reason if the conversation has ended.
    fn explained(&self, error: anyhow::Error) -> anyhow::Error {
        let has_ended = error.downcast_ref::<std::io::Error>().is_some();
        match has_ended.then(|| self.diagnosis()).flatten() {
            Some(reason) => anyhow!(reason),
            None => error,
        }
    }

    /// Asks the server, on further connections, why it does not answer in the text protocol.
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
