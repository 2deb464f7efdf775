//! Errors of options.

/// An option that cannot be accepted; nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OptionError {
    /// One line that names the option, its value and the allowed values.
    pub message: String,
    /// memcached's exit status for this error: 1, or one of sysexits.h.
    pub exit_code: u8,
}

impl OptionError {
    pub(crate) fn new(exit_code: u8, message: impl Into<String>) -> Self {
        Self { message: message.into(), exit_code }
    }
}

/// Most errors.
pub(crate) const EXIT_FAILURE: u8 = 1;
/// EX_USAGE: contradictory values, missing features.
pub(crate) const EXIT_USAGE: u8 = 64;
/// EX_OSERR: an address to listen on is invalid.
pub(crate) const EXIT_OS: u8 = 71;
