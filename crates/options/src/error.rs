//! Errors of options.

/// An option that cannot be accepted; nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OptionError {
    /// One line that names the option, its value and the allowed values.
    pub message: String,
}

impl OptionError {
    /// The exit status of larderd for every such error: EX_USAGE of sysexits.h. memcached exits
    /// with 64 for some of them, with 1 or 71 for others.
    pub const EXIT_CODE: u8 = 64;

    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
