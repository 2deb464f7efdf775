//! The error of a server that did not start.

use std::fmt;
use std::{process, thread};

/// The error message for the operator, and the exit status.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    /// The exit status: 1, or one of sysexits.h. docs/options.md has the rule.
    pub exit_code: u8,
}

impl Failure {
    pub(crate) fn new(exit_code: u8, message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), exit_code }
    }
}

/// The cache cannot be opened, or the disk lacks changes at the stop.
pub(crate) const EXIT_FAILURE: u8 = 1;
/// EX_USAGE: an option is wrong, or a file that it names for reading.
pub(crate) const EXIT_USAGE: u8 = 64;
/// EX_NOUSER: the user of `-u` does not exist.
pub(crate) const EXIT_NO_USER: u8 = 67;
/// EX_OSERR: the system refuses.
pub(crate) const EXIT_OS: u8 = 71;

/// Aborts the process if a thread panics that executes commands: it may have left a group of the
/// cache locked, and its clients would wait forever. The service manager starts a new process.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}
