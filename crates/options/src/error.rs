//! Errors of options.

/// An option that cannot be accepted. The caller must not start the server or open the cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OptionError {
    /// One line that names the option, its value and the allowed values.
    pub message: String,
}

impl OptionError {
    /// The exit status of larderd for such an error: EX_USAGE of sysexits.h. memcached has no fixed
    /// status: it exits with 64, 1 or 71, depending on the option.
    pub const EXIT_CODE: u8 = 64;

    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
