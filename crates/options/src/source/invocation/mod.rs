//! The invocation of larderd: reads the options from all sources, and decides whether the server
//! runs or a page is printed.

use std::{io, path::Path};

use crate::error::OptionError;
use crate::given::values::Values;
use crate::show::{config, help};
use crate::source::command_line::{self, CommandLine, Page};
use crate::source::{environment, file};
use crate::table::Id;
use crate::typed::check::{check, settle};
use crate::typed::memory::{self, MemoryBound};
use crate::typed::options::Options;

/// The result of reading the options.
#[derive(Clone, Debug, PartialEq)]
pub enum Invocation {
    /// Runs the server.
    Run {
        /// The options in effect.
        options: Box<Options>,
        /// Lines to print first.
        warnings: Vec<String>,
    },
    /// Prints this text and ends with exit status 0.
    Print(String),
}

/// The sources of options. The command line overrides the environment, which overrides the file,
/// which overrides the defaults.
pub struct Sources<'a> {
    /// The words after the program's name.
    pub command_line: &'a [String],
    /// All environment variables, or those that begin with `LARDER_`.
    pub environment: &'a [(String, String)],
    /// Reads the file that `--config` or `LARDER_CONFIG` names. Not called if neither is given.
    pub read_file: &'a dyn Fn(&Path) -> io::Result<String>,
    /// Returns the memory that the process may use at most, or why it is unknown. Only called if
    /// `-m` is a percentage.
    pub memory_bound: &'a dyn Fn() -> Result<MemoryBound, String>,
    /// The version that `-V` prints: the version of the memcached whose behaviour Larder follows.
    pub version: &'a str,
}

impl Invocation {
    /// Reads the options from all sources.
    ///
    /// # Errors
    /// Names the first option that cannot be accepted.
    pub fn read(sources: &Sources<'_>) -> Result<Self, OptionError> {
        let (given, strays) = match command_line::read(sources.command_line)? {
            CommandLine::Page(page) => return Ok(Self::Print(text(page, sources.version))),
            CommandLine::Values { values, strays } => (values, strays),
        };
        let mut warnings: Vec<_> = strays
            .iter()
            .map(|word| format!("{word:?} is not an option and has no effect"))
            .collect();
        let path = given.text(Id::Config).or_else(|| environment::config(sources.environment));
        let from_file = match path {
            Some(path) => read_file(path, sources)?,
            None => Values::none(),
        };
        let values = Values::defaults()
            .overridden_by(from_file)
            .overridden_by(environment::read(sources.environment, &mut warnings)?)
            .overridden_by(given);
        let values = settle(memory::resolve(values, sources.memory_bound)?);
        warnings.extend(check(&values)?);
        if values.switch(Id::PrintConfig) {
            return Ok(Self::Print(config::text(&values)));
        }
        Ok(Self::Run { options: Box::new(Options::new(values)), warnings })
    }
}

fn read_file(path: &str, sources: &Sources<'_>) -> Result<Values, OptionError> {
    let path = Path::new(path);
    let text = (sources.read_file)(path).map_err(|error| {
        let message = format!(
            "option --config: {} cannot be read: {error}; expected a TOML file with options, as \
             larderd --print-config prints it",
            path.display()
        );
        OptionError::new(message)
    })?;
    file::read(&text, path)
}

fn text(page: Page, version: &str) -> String {
    match page {
        Page::Help => help::help(version),
        Page::License => help::license(version),
        Page::Version => help::version(version),
    }
}

#[cfg(test)]
mod tests;
