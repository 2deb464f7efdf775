//! The invocation of larderd: reads the options from all sources, and decides whether the server
//! runs or a page is printed.

use std::{io, path::Path};

use crate::error::OptionError;
use crate::given::values::Values;
use crate::show::{config, help};
use crate::source::command_line::{self, CommandLine, Page};
use crate::source::{environment, file};
use crate::table::Id;
use crate::typed::check::{check_all, settle};
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
    /// Checks what the server would do, without running it.
    Check {
        /// The options in effect, or all errors in them.
        options: Result<Box<Options>, Vec<OptionError>>,
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
    /// Returns the result of options that cannot be accepted.
    fn failed(
        is_check: bool,
        mut errors: Vec<OptionError>,
        warnings: Vec<String>,
    ) -> Result<Self, OptionError> {
        match is_check {
            true => Ok(Self::Check { options: Err(errors), warnings }),
            false => Err(errors.swap_remove(0)),
        }
    }

    /// Reads the options from all sources.
    ///
    /// # Errors
    /// Names the first option that cannot be accepted. With `--check`, does not fail.
    pub fn read(sources: &Sources<'_>) -> Result<Self, OptionError> {
        let (given, strays, mut errors) = match command_line::read(sources.command_line) {
            CommandLine::Page(page) => return Ok(Self::Print(text(page, sources.version))),
            CommandLine::Values { values, strays, errors } => (values, strays, errors),
        };
        let (is_check, mut strays) = (given.switch(Id::Check), strays.into_iter());
        let operand =
            if is_check && given.given(Id::Config).is_none() { strays.next() } else { None };
        if !is_check && !errors.is_empty() {
            return Err(errors.swap_remove(0));
        }
        let mut warnings: Vec<_> =
            strays.map(|word| format!("{word:?} is not an option and has no effect")).collect();
        let path = operand.as_deref().or(given.text(Id::Config));
        let path = path.or_else(|| environment::config(sources.environment));
        let from_file = path.map(|path| read_file(path, sources, &mut errors));
        let from_environment = environment::read(sources.environment, &mut warnings, &mut errors);
        let values = Values::defaults()
            .overridden_by(from_file.unwrap_or_else(Values::none))
            .overridden_by(from_environment)
            .overridden_by(given);
        let values = match memory::resolve(values, sources.memory_bound) {
            Ok(values) => settle(values),
            Err(error) => {
                errors.push(error);
                return Self::failed(is_check, errors, warnings);
            }
        };
        // With other errors, a contradiction may only be their consequence.
        if errors.is_empty() {
            check_all(&values, &mut warnings, &mut errors);
        }
        if !errors.is_empty() {
            return Self::failed(is_check, errors, warnings);
        }
        if is_check {
            let options = Ok(Box::new(Options::new(values)));
            return Ok(Self::Check { options, warnings });
        }
        if values.switch(Id::PrintConfig) {
            return Ok(Self::Print(config::text(&values)));
        }
        Ok(Self::Run { options: Box::new(Options::new(values)), warnings })
    }
}

/// Reads a file, and collects the errors.
fn read_file(path: &str, sources: &Sources<'_>, errors: &mut Vec<OptionError>) -> Values {
    let path = Path::new(path);
    match (sources.read_file)(path) {
        Ok(text) => file::read(&text, path, errors),
        Err(error) => {
            errors.push(OptionError::new(format!(
                "option --config: {} cannot be read: {error}; expected a TOML file with options, \
                 as larderd --print-config prints it",
                path.display()
            )));
            Values::none()
        }
    }
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
