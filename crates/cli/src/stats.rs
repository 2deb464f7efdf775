//! `larder stats`.

use std::io::Write;

use anyhow::{Context, Result};
use larder_protocol::text::client::{Reply, request};
use larder_protocol::{Command, StatsSection};

use crate::connection::{Connection, unexpected};
use crate::outcome::Outcome;
use larder_load::connect::dialer::ServerArguments;

/// Print the statistics of a server
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    /// Print the lines as the server sends them, with STAT, instead of a table
    #[arg(long)]
    raw: bool,
    /// The section of the statistics
    #[arg(value_enum, default_value_t = Section::General)]
    section: Section,
}

const AFTER_HELP: &str = "\
Examples:
  larder stats
  larder stats settings
  larder stats --raw | grep get_";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Section {
    /// Counters and process
    General,
    /// Options in force
    Settings,
    /// Items by size class
    Items,
    /// Memory
    Slabs,
    /// Number of items of each size
    Sizes,
    /// Statistics that memcached does not have (larderd only)
    Larder,
    /// Prints nothing: resets the counters
    Reset,
}

/// A statistic: its name and value.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Runs `larder stats`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let address = arguments.server.address();
    let lines = ask(&mut Connection::open(&arguments.server.dialer()?)?, arguments.section.into())
        .with_context(|| format!("stats at {address}"))?;
    let mut output = std::io::stdout().lock();
    let name_width = lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
    for Line { name, value } in &lines {
        match arguments.raw {
            true => writeln!(output, "STAT {name} {value}")?,
            false => writeln!(output, "{name:name_width$}  {value}")?,
        }
    }
    Ok(Outcome::Done)
}

/// Returns the statistics of a section; none for a section that is a command.
pub(crate) fn ask(connection: &mut Connection, section: StatsSection) -> Result<Vec<Line>> {
    let mut asked = Vec::new();
    request::command(&mut asked, &Command::Stats(section), false)?;
    connection.send(&asked)?;
    let mut lines = Vec::new();
    loop {
        match connection.reply()? {
            Reply::Stat { name, value } => {
                let (name, value) = (name.escape_ascii(), value.escape_ascii());
                lines.push(Line { name: name.to_string(), value: value.to_string() });
            }
            Reply::End | Reply::Reset => return Ok(lines),
            other => return Err(unexpected(other)),
        }
    }
}

impl From<Section> for StatsSection {
    fn from(section: Section) -> Self {
        match section {
            Section::General => Self::General,
            Section::Settings => Self::Settings,
            Section::Items => Self::Items,
            Section::Slabs => Self::Slabs,
            Section::Sizes => Self::Sizes,
            Section::Larder => Self::Larder,
            Section::Reset => Self::Reset,
        }
    }
}
