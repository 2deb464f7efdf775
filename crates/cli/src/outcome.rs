//! How the tool ends.

use std::io;
use std::process::ExitCode;

pub(crate) use larder_load::Outcome;

/// The exit code of a subcommand, after an error has been shown.
pub(crate) fn exit_code(ended: anyhow::Result<Outcome>) -> ExitCode {
    match ended {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Missed) => ExitCode::from(1),
        Err(error) if is_closed_output(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("larder: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Has whoever reads the output, `head` for example, seen enough? Errors of a connection are no
/// [`io::Error`] any more when they get here.
fn is_closed_output(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
