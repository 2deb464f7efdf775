//! What a start of the daemon asks for: all sources of options together.

use std::{io, path::Path};

use crate::error::{EXIT_FAILURE, OptionError};
use crate::source::command_line::{self, CommandLine, Page};
use crate::source::values::Values;
use crate::table::Id;
use crate::typed::check::check;
use crate::typed::options::Options;
use crate::{show::config, show::help, source::environment, source::file};

/// What a start asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Invocation {
    /// To run.
    Run {
        /// With these options.
        options: Box<Options>,
        /// After saying this, a line each.
        warnings: Vec<String>,
    },
    /// To print this text and end with exit status 0.
    Print(String),
}

/// Where options are given. The command line is stronger than the environment, that than the file,
/// that than the defaults.
pub struct Sources<'a> {
    /// The words after the program's name.
    pub command_line: &'a [String],
    /// All environment variables, or those that begin with `LARDER_`.
    pub environment: &'a [(String, String)],
    /// Reads the file that `--config` or `LARDER_CONFIG` names; not called when neither does.
    pub read_file: &'a dyn Fn(&Path) -> io::Result<String>,
    /// The version that `-V` prints: that of the memcached whose behaviour is followed.
    pub version: &'a str,
}

impl Invocation {
    /// Reads the options.
    ///
    /// # Errors
    /// Names the first option that cannot be accepted.
    pub fn read(sources: &Sources<'_>) -> Result<Self, OptionError> {
        let (given, strays) = match command_line::read(sources.command_line)? {
            CommandLine::Page(page) => return Ok(Self::Print(text(page, sources.version))),
            CommandLine::Values { values, strays } => (values, strays),
        };
        let mut warnings: Vec<_> =
            strays.iter().map(|word| format!("{word:?} is no option and has no effect")).collect();
        let path = given.text(Id::Config).or_else(|| environment::config(sources.environment));
        let from_file = match path {
            Some(path) => read_file(path, sources)?,
            None => Values::none(),
        };
        let values = Values::defaults()
            .overridden_by(from_file)
            .overridden_by(environment::read(sources.environment, &mut warnings)?)
            .overridden_by(given);
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
        let message = format!("option --config: {} cannot be read: {error}", path.display());
        OptionError::new(EXIT_FAILURE, message)
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
