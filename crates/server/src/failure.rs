//! The error of a server that failed to start.

use std::fmt;
use std::{process, thread};

/// The error message for the operator, with the exit status of the process.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    /// The exit status: 1, or one of the values of sysexits.h. docs/options.md lists them.
    pub exit_code: u8,
}

impl Failure {
    pub(crate) fn new(exit_code: u8, message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), exit_code }
    }
}

/// The cache cannot be opened, or the disk lacks changes when the server stops.
pub(crate) const EXIT_FAILURE: u8 = 1;
/// EX_USAGE: an option is wrong, or an input file that an option names.
pub(crate) const EXIT_USAGE: u8 = 64;
/// EX_NOUSER: the user of `-u` does not exist.
pub(crate) const EXIT_NO_USER: u8 = 67;
/// EX_OSERR: the system refused a request.
pub(crate) const EXIT_OS: u8 = 71;

/// Aborts the process if a thread that executes commands panics. The thread may have left a part of
/// the index locked, and clients whose keys are in this part would wait forever. After the abort
/// the service manager starts a new process.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}
