//! What is wrong with an option.

/// One option could not be accepted; nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OptionError {
    /// One line that names the option, its value and what is allowed.
    pub message: String,
    /// The exit status memcached ends with in this case: 1, or one of sysexits.h.
    pub exit_code: u8,
}

impl OptionError {
    pub(crate) fn new(exit_code: u8, message: impl Into<String>) -> Self {
        Self { message: message.into(), exit_code }
    }
}

/// Most mistakes.
pub(crate) const EXIT_FAILURE: u8 = 1;
/// EX_USAGE: values that contradict each other, features that are not there.
pub(crate) const EXIT_USAGE: u8 = 64;
/// EX_OSERR: an address that cannot be listened on.
pub(crate) const EXIT_OS: u8 = 71;
