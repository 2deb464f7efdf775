//! `larder stats`.

use std::io::Write;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use larder_loadgen::argument::Quoted;
use larder_protocol::admin::Detail;
use larder_protocol::text::client::{Reply, request};
use larder_protocol::{Admin, Command, StatsSection};

use crate::connection::{Connection, refused, unexpected};
use crate::outcome::Outcome;
use crate::time_limit::TimeLimit;
use larder_loadgen::connect::dialer::ServerArguments;

/// Print the statistics of a server
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    #[command(flatten)]
    limit: TimeLimit,
    /// Print the lines as the server sends them, with STAT, instead of a table
    #[arg(long)]
    raw: bool,
    /// The section of the statistics
    #[arg(value_enum, default_value_t = Section::General)]
    section: Section,
    /// With detail: on, off or dump; with cachedump: a size class and the maximum number of keys, 0
    /// for all
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

const AFTER_HELP: &str = "\
Examples:
  larder stats
  larder stats settings
  larder stats conns
  larder stats --raw | grep get_
  larder stats detail on; sleep 60; larder stats detail dump

Exit code: 0 done; 2 bad usage, or the server could not be reached or refused (-X forbids detail,
hotkeys, prefixes and cachedump).";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Section {
    /// Counters, and the process
    General,
    /// Options in effect
    Settings,
    /// Items by size class
    Items,
    /// Memory
    Slabs,
    /// Number of items of each size
    Sizes,
    /// Connections
    Conns,
    /// Commands by key prefix: detail on, detail off, detail dump
    Detail,
    /// Keys of a size class: cachedump CLASS COUNT
    Cachedump,
    /// Statistics that memcached does not have (larderd only)
    Larder,
    /// The most frequently used keys (larderd only)
    Hotkeys,
    /// Latest slow requests (--log-slower-than)
    Slow,
    /// Items, reads and hits by key prefix (larderd only)
    Prefixes,
    /// The most recent removal by prefix (larderd only)
    #[value(name = "delete_prefix")]
    DeletePrefix,
    /// Origins of a near cache, their states and counters
    Origins,
    /// Users of --users, their rights and refusals
    Users,
    /// Resets the counters, and prints nothing
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
    let command = arguments.command()?;
    arguments.limit.begin();
    let address = arguments.server.address();
    let mut connection = Connection::open(&arguments.server.dialer()?)?;
    let lines =
        ask_lines(&mut connection, &command).with_context(|| format!("stats at {address}"))?;
    let mut output = std::io::stdout().lock();
    let pairs: Vec<_> = lines.iter().map(|line| pair(line)).collect();
    let name_width = pairs.iter().flatten().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (line, pair) in lines.iter().zip(&pairs) {
        match pair {
            Some((name, value)) if !arguments.raw => {
                writeln!(output, "{name:name_width$}  {value}")?;
            }
            _ => writeln!(output, "{line}")?,
        }
    }
    Ok(Outcome::Done)
}

/// Returns the name and the value of a line `STAT name value`; `None` for lines of another form.
fn pair(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("STAT ")?;
    Some(rest.split_once(' ').unwrap_or((rest, "")))
}

/// Requests statistics, and returns the lines of the response without the last one.
fn ask_lines(connection: &mut Connection, command: &Command<'_>) -> Result<Vec<String>> {
    let mut asked = Vec::new();
    request::command(&mut asked, command, false)?;
    connection.send(&asked)?;
    let (mut lines, mut bytes) = (Vec::new(), 0);
    loop {
        let line = connection.line()?;
        match line {
            b"END" | b"RESET" => return Ok(lines),
            b"OK" if matches!(command, Command::Admin(_)) => return Ok(lines),
            _ if ERRORS.iter().any(|word| line.starts_with(word)) => return Err(refused(line)),
            _ if ROWS.iter().any(|word| line.starts_with(word)) => {
                let line = line.escape_ascii().to_string();
                bytes += line.len();
                lines.push(line);
            }
            _ => return Err(connection.foreign()),
        }
        check_length(bytes)?;
    }
}

/// Fails if the response is longer than the statistics of any server.
fn check_length(bytes: usize) -> Result<()> {
    if bytes > BYTES_MAX {
        bail!(
            "the server sends more than {} MiB of statistics: check that it is the address of a \
             memcached",
            BYTES_MAX >> 20
        );
    }
    Ok(())
}

/// The longest response, in bytes. `stats detail dump` has a line for each prefix.
const BYTES_MAX: usize = 64 << 20;

const ERRORS: [&[u8]; 3] = [b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR"];
const ROWS: [&[u8]; 3] = [b"STAT ", b"PREFIX ", b"ITEM "];

impl Arguments {
    fn command(&self) -> Result<Command<'static>> {
        let words: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let section = match self.section {
            Section::Detail => return detail(&words),
            Section::Cachedump => return cache_dump(&words),
            Section::General => StatsSection::General,
            Section::Settings => StatsSection::Settings,
            Section::Items => StatsSection::Items,
            Section::Slabs => StatsSection::Slabs,
            Section::Sizes => StatsSection::Sizes,
            Section::Conns => StatsSection::Connections,
            Section::Larder => StatsSection::Larder,
            Section::Hotkeys => StatsSection::HotKeys,
            Section::Slow => StatsSection::Slow,
            Section::Prefixes => StatsSection::Prefixes,
            Section::DeletePrefix => StatsSection::DeletePrefix,
            Section::Origins => StatsSection::Origins,
            Section::Users => StatsSection::Users,
            Section::Reset => StatsSection::Reset,
        };
        if let [word, ..] = words[..] {
            let name = self.section.to_possible_value();
            let name = name.map_or_else(String::new, |value| value.get_name().to_owned());
            bail!("stats {name} takes no argument, found {}", Quoted::text(word));
        }
        Ok(Command::Stats(section))
    }
}

fn detail(words: &[&str]) -> Result<Command<'static>> {
    let detail = match words {
        ["on"] => Detail::Count(true),
        ["off"] => Detail::Count(false),
        ["dump"] => Detail::Dump,
        _ => bail!("stats detail needs one argument, on, off or dump: larder stats detail dump"),
    };
    Ok(Command::Admin(Admin::Detail(Some(detail))))
}

fn cache_dump(words: &[&str]) -> Result<Command<'static>> {
    let numbers: Option<Vec<u32>> = words.iter().map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[class, items_max]) => {
            Ok(Command::Stats(StatsSection::CacheDump { class, items_max }))
        }
        _ => bail!(
            "stats cachedump needs two numbers, a size class and the maximum number of keys: \
             larder stats cachedump 1 100 (larder stats items lists the classes)"
        ),
    }
}

/// Returns the statistics of a section, or no statistics if the section is a command.
pub(crate) fn ask(connection: &mut Connection, section: StatsSection) -> Result<Vec<Line>> {
    let mut asked = Vec::new();
    request::command(&mut asked, &Command::Stats(section), false)?;
    connection.send(&asked)?;
    let (mut lines, mut bytes) = (Vec::new(), 0);
    loop {
        match connection.reply()? {
            Reply::Stat { name, value } => {
                let (name, value) = (name.escape_ascii(), value.escape_ascii());
                let line = Line { name: name.to_string(), value: value.to_string() };
                bytes += line.name.len() + line.value.len();
                lines.push(line);
            }
            Reply::End | Reply::Reset => return Ok(lines),
            other => return Err(unexpected(other)),
        }
        check_length(bytes)?;
    }
}
