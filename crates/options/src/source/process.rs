//! The only file that reads the process's arguments, environment and files.

use std::{env, ffi::OsString, fs, path::PathBuf};

use crate::error::OptionError;
use crate::source::invocation::{Invocation, Sources};
use crate::typed::memory::MemoryBound;

/// Reads the options of this process. `version` is that of the memcached whose behaviour Larder
/// follows. `memory_bound` is called if `-m` is a percentage.
///
/// # Errors
/// Names the first option that cannot be accepted.
pub fn from_process(
    version: &str,
    memory_bound: &dyn Fn() -> Result<MemoryBound, String>,
) -> Result<Invocation, OptionError> {
    let command_line = env::args_os().skip(1).map(unicode).collect::<Result<Vec<_>, _>>()?;
    let environment = env::vars_os()
        .filter(|(name, _)| name.to_string_lossy().starts_with("LARDER_"))
        .map(|(name, value)| Ok((unicode(name)?, unicode(value)?)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut invocation = Invocation::read(&Sources {
        command_line: &command_line,
        environment: &environment,
        read_file: &|path| fs::read_to_string(path),
        memory_bound,
        version,
    })?;
    if let Invocation::Run { options, .. } | Invocation::Check { options: Ok(options), .. } =
        &mut invocation
        && options.sasl
    {
        options.sasl_file = env::var_os("MEMCACHED_SASL_PWDB").map(PathBuf::from);
    }
    Ok(invocation)
}

fn unicode(word: OsString) -> Result<String, OptionError> {
    word.into_string().map_err(|word| {
        OptionError::new(format!("{word:?} is not valid UTF-8, as options must be"))
    })
}
