//! Keys: the limits of memcached's protocol.

/// Longest key, in bytes (memcached's protocol, section "Keys").
pub const KEY_BYTES_MAX: usize = 250;

/// The reason why bytes cannot be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The key is empty; it must have at least one byte.
    Empty,
    /// The key has this many bytes; at most [`KEY_BYTES_MAX`] are allowed.
    TooLong(usize),
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => write!(f, "the key is empty, expected 1 to {KEY_BYTES_MAX} bytes"),
            Self::TooLong(found) => {
                write!(f, "the key has {found} bytes, expected 1 to {KEY_BYTES_MAX}")
            }
        }
    }
}

impl std::error::Error for KeyError {}

/// Checks the length of a key. A key may contain any byte: the parser of each protocol rejects the
/// bytes that the protocol cannot transmit, such as spaces and newlines in the text protocol.
///
/// # Errors
/// [`KeyError`] if the key is empty or longer than [`KEY_BYTES_MAX`].
pub fn check_key(key: &[u8]) -> Result<(), KeyError> {
    match key.len() {
        0 => Err(KeyError::Empty),
        1..=KEY_BYTES_MAX => Ok(()),
        found => Err(KeyError::TooLong(found)),
    }
}
