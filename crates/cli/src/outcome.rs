//! Exit codes of the tool.

use std::io;
use std::process::ExitCode;

pub(crate) use larder_loadgen::Outcome;

/// The command could not do its work.
pub(crate) const EXIT_FAILED: u8 = 2;

/// Prints an error and returns the exit code of a subcommand.
pub(crate) fn exit_code(ended: anyhow::Result<Outcome>) -> ExitCode {
    match ended {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Missed) => ExitCode::from(1),
        Err(error) if is_closed_output(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("larder: {error:#}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

/// True if the reader of the output, for example `head`, has closed it. Connection errors are never
/// an [`io::Error`] here, because callers have already turned them into text.
fn is_closed_output(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
