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
                Err(failure) => fail(&failure, failure.exit_code),
            }
        }
        Err(error) => fail(&error, OptionError::EXIT_CODE),
    }
}

fn fail(error: &dyn std::error::Error, exit_code: u8) -> ExitCode {
    eprintln!("larderd: {error}");
    ExitCode::from(exit_code)
}
