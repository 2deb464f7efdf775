//! The protocols of a listener.

/// Protocol of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Detected by the first byte of a connection.
    Auto,
    /// The text protocol.
    Ascii,
    /// The binary protocol.
    Binary,
}
