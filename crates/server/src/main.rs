//! The `larderd` binary: reads the options and returns the exit status.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use larder_options::{Invocation, OptionError};
use larder_protocol::WIRE_VERSION;

fn main() -> ExitCode {
    match larder_options::from_process(WIRE_VERSION, &larder_server::memory_bound) {
        Ok(Invocation::Print(text)) => {
            // The write fails only if the reader has closed the pipe.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Ok(Invocation::Run { options, warnings }) => {
            match larder_server::run(*options, &warnings) {
                Ok(()) => ExitCode::SUCCESS,
                // The log contains the failure.
                Err(failure) => ExitCode::from(failure.exit_code),
            }
        }
        Ok(Invocation::Check { options, warnings }) => {
            ExitCode::from(larder_server::check(options.map(|options| *options), &warnings))
        }
        // Without valid options the form of the log is unknown. A person reads this at a terminal.
        Err(error) => {
            eprintln!("larderd: {error}");
            ExitCode::from(OptionError::EXIT_CODE)
        }
    }
}
