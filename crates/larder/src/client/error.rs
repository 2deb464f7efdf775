//! The reason why a request of a client failed.

use std::io;
use std::path::PathBuf;

use larder_item::KeyError;

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server accepts connections at the socket.
    #[error("cannot connect to {}: {source}; start `larderd -s {}`, or name another socket", path.display(), path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The connection broke, or no reply arrived in time. The server may have performed the change.
    #[error("the server does not answer: {0}; it may have been stopped, or be overloaded")]
    Io(#[from] io::Error),
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key with spaces or control characters is too long for the socket's protocol.
    #[error("a key with spaces or control characters may have {max} bytes, found {found}")]
    LongKey {
        /// Its length, in bytes.
        found: usize,
        /// The longest accepted length, in bytes.
        max: usize,
    },
    /// The server refused the request.
    #[error("the server answered: {0}")]
    Server(String),
    /// The reply does not match the request.
    #[error(
        "the reply is not in memcached's protocol: {0:?}; check that the socket is a memcached server's"
    )]
    Protocol(String),
}
