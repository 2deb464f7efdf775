//! The options of all subcommands that use the admin listener.

use std::env::{self, VarError};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use hyper::header::HeaderValue;
use larder_loadgen::address::Address;
use larder_loadgen::argument::Quoted;
use larder_loadgen::connect::tls::TlsArguments;

use super::client::Client;

/// Options that reach the admin listener: its address, a token, TLS.
#[derive(Debug, clap::Args)]
pub(crate) struct AdminArguments {
    /// The admin listener of larderd: host:port, [IPv6]:port, or the path of a Unix socket.
    /// Without it: LARDER_ADMIN, or /run/larder/admin.sock
    #[arg(short, long, value_name = "ADDR", value_parser = Address::with_port)]
    server: Option<Address>,
    #[command(flatten)]
    listener: ListenerArguments,
    #[command(flatten)]
    tls: TlsArguments,
}

/// The token for the admin listener, and the old option for its address. The subcommand itself
/// defines the option `--server`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListenerArguments {
    /// The old form of --server
    #[arg(long, value_name = "ADDR", value_parser = Address::with_port)]
    #[arg(hide = true, conflicts_with = "server")]
    admin: Option<Address>,
    /// A file with a token of the admin listener. Without it: LARDER_TOKEN, or no token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl AdminArguments {
    /// Returns a client for the listener. Does not connect.
    ///
    /// # Errors
    /// Same as [`ListenerArguments::client`].
    pub(crate) fn client(&self) -> Result<Client> {
        self.listener.client(self.server.clone(), &self.tls)
    }
}

impl ListenerArguments {
    /// Returns an error if one of the options is given.
    ///
    /// # Errors
    /// The message names the option and the caller's reason for it.
    pub(crate) fn refuse(&self, because_of_admin: &str, because_of_token: &str) -> Result<()> {
        if self.admin.is_some() {
            bail!("--admin {because_of_admin}");
        }
        if self.token_file.is_some() {
            bail!("--token-file {because_of_token}");
        }
        Ok(())
    }

    /// Returns a client for the listener at the address of `--server`. Does not connect.
    ///
    /// # Errors
    /// No address is known, the token or a certificate cannot be read, or the options of TLS do not
    /// fit the address.
    pub(crate) fn client(&self, server: Option<Address>, tls: &TlsArguments) -> Result<Client> {
        let address = match server.or_else(|| self.admin.clone()) {
            Some(address) => address,
            None => default_address()?,
        };
        if let (Address::Unix(_), Some(option)) = (&address, tls.first_given()) {
            bail!(
                "{option} has no effect: {address} is a Unix socket, where the admin listener has \
                 no TLS"
            );
        }
        let tls = tls.open(&address)?;
        Client::new(address, tls, self.token()?)
    }

    /// Returns the value of the header that carries the token.
    fn token(&self) -> Result<Option<HeaderValue>> {
        let (token, source) = match &self.token_file {
            Some(path) => (read_token(path)?, path.display().to_string()),
            None => match env::var(TOKEN) {
                Ok(token) => (token, TOKEN.to_owned()),
                Err(VarError::NotPresent) => return Ok(None),
                Err(VarError::NotUnicode(_)) => bail!("{TOKEN} is not a token: expected UTF-8"),
            },
        };
        header(&token).map(Some).with_context(|| format!("{source} does not contain a token"))
    }
}

/// Returns the address of the listener if no option names it.
fn default_address() -> Result<Address> {
    match env::var(ADDRESS) {
        Ok(text) => Address::with_port(&text)
            .map_err(|error| anyhow!("{ADDRESS} is {}: {error}", Quoted::text(&text))),
        Err(VarError::NotUnicode(path)) => Ok(Address::Unix(path.into())),
        // The socket may be in a folder that this user cannot enter. Then the attempt to connect
        // explains the problem.
        Err(VarError::NotPresent) => match Path::new(SOCKET).try_exists() {
            Ok(false) => bail!(
                "no admin listener is given, and {SOCKET} does not exist: name one with --server \
                 ADDR or {ADDRESS} (larderd opens it with --admin-listen)"
            ),
            Ok(true) | Err(_) => Ok(Address::Unix(SOCKET.into())),
        },
    }
}

fn read_token(path: &Path) -> Result<String> {
    let cannot = || format!("cannot read the token in {}", path.display());
    let mut token = String::new();
    let file = File::open(path).with_context(cannot)?;
    file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut token).with_context(cannot)?;
    Ok(token)
}

/// Returns the header for a token. The error message does not show the token.
fn header(token: &str) -> Result<HeaderValue> {
    let token = token.trim_ascii();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!("expected only the token, one word of at least 32 visible ASCII characters");
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The socket of the Debian package and the container.
const SOCKET: &str = "/run/larder/admin.sock";

/// The environment variable with the address of the listener.
const ADDRESS: &str = "LARDER_ADMIN";

/// The environment variable with the token.
const TOKEN: &str = "LARDER_TOKEN";

/// Larger than any token, which is one line. Limits what is read from a file such as `/dev/zero`.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_and_no_message_shows_it() {
        let value = header("  0123456789-0123456789-0123456789\n").unwrap();
        assert_eq!(value.as_bytes(), b"Bearer 0123456789-0123456789-0123456789");
        assert!(!format!("{value:?}").contains("0123"), "{value:?}");
        for bad in ["", " \n", "read secret-secret", "secret\r\nX: y", "secret\u{fc}"] {
            let error = format!("{:#}", header(bad).unwrap_err());
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
