//! The only file that reads the process's arguments, environment and files.

use std::{env, ffi::OsString, fs};

use crate::error::{EXIT_FAILURE, OptionError};
use crate::source::invocation::{Invocation, Sources};

/// Reads the options of this process. `version` is that of the memcached whose behaviour Larder
/// follows.
///
/// # Errors
/// Names the first option that cannot be accepted.
pub fn from_process(version: &str) -> Result<Invocation, OptionError> {
    let command_line = env::args_os().skip(1).map(unicode).collect::<Result<Vec<_>, _>>()?;
    let environment = env::vars_os()
        .filter(|(name, _)| name.to_string_lossy().starts_with("LARDER_"))
        .map(|(name, value)| Ok((unicode(name)?, unicode(value)?)))
        .collect::<Result<Vec<_>, _>>()?;
    Invocation::read(&Sources {
        command_line: &command_line,
        environment: &environment,
        read_file: &|path| fs::read_to_string(path),
        version,
    })
}

fn unicode(word: OsString) -> Result<String, OptionError> {
    word.into_string().map_err(|word| {
        OptionError::new(EXIT_FAILURE, format!("{word:?} is not valid UTF-8, as options must be"))
    })
}
