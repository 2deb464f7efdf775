//! Keys in lines.

use larder_item::{KEY_BYTES_MAX, KeyError, check_key};

/// The reason why bytes cannot be sent as a key in the text protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsendableKey {
    /// The key is empty or too long.
    Length(KeyError),
    /// The key contains a byte that ends a key or a line.
    Byte {
        /// The byte: a space, a carriage return or a newline.
        found: u8,
        /// Its position.
        position: usize,
    },
}

impl std::fmt::Display for UnsendableKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length(error) => error.fmt(f),
            Self::Byte { found, .. } => {
                let name = match found {
                    b' ' => "a space",
                    b'\r' => "a carriage return",
                    _ => "a newline",
                };
                write!(
                    f,
                    "the key contains {name}, expected {KEY_BYTES_MAX} bytes at most without spaces \
                     and line ends"
                )
            }
        }
    }
}

impl std::error::Error for UnsendableKey {}

/// Checks whether a key can be sent in a line.
///
/// # Errors
/// [`UnsendableKey`]
pub(crate) fn check_sendable(key: &[u8]) -> Result<(), UnsendableKey> {
    check_key(key).map_err(UnsendableKey::Length)?;
    let bad = key.iter().enumerate().find(|(_, byte)| matches!(byte, b' ' | b'\r' | b'\n'));
    match bad {
        Some((position, &found)) => Err(UnsendableKey::Byte { found, position }),
        None => Ok(()),
    }
}

/// Returns the key if it is not too long. It cannot be empty, because it is a word of a line.
#[inline]
pub(crate) fn short(key: &[u8]) -> Option<&[u8]> {
    (key.len() <= KEY_BYTES_MAX).then_some(key)
}
