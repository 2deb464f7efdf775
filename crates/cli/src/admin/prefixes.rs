//! `larder prefixes`.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hyper::StatusCode;
use larder_loadgen::argument::whole;
use larder_protocol::base64;
use serde_json::Value;

use super::address::AdminArguments;
use super::client::{Ask, Client};
use super::json::{number, rows};
use crate::outcome::Outcome;
use crate::transfer::escaped;
use crate::units;

/// Show items, gets and hits by key prefix
///
/// Needs larderd's admin listener, and the role read.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Show at most this many prefixes
    #[arg(long, value_name = "PREFIXES", default_value_t = 20)]
    #[arg(value_parser = whole::<u32>(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    admin: AdminArguments,
}

const AFTER_HELP: &str = "\
The prefix with the most bytes comes first. A prefix is the part of a key before the first colon, or
before the character of larderd's --prefix-delimiter. (none) are the keys without one, (other) are
all prefixes that are not shown. Items and bytes come from a census, which is exact if it counted
the whole cache. Gets and hits are estimates from samples, counted since the sampling began or since
the last stats reset; the column after the gets is their likely maximum error. Bytes of a prefix
outside 0x21 to 0x7e are escaped, for example as \\x20.

The first request starts the census; the tool waits for it for up to two minutes.

Examples:
  larder prefixes
  larder prefixes --limit 5 --server 127.0.0.1:11212

Exit code: 0 done; 2 the server refused (-X forbids it) or could not be reached.";

/// Runs `larder prefixes`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let client = arguments.admin.client()?;
    let report = wait_for_census(&client, arguments.limit)?;
    let mut output = std::io::stdout().lock();
    let census = &report["census"];
    let share = number(census, "share")? * 100.0;
    let age = units::duration(number(census, "age_secs")?);
    let counted = units::duration(number(&report, "counted_secs")?);
    writeln!(output, "census of {share:.0} % of the items {age} ago; gets of the last {counted}")?;
    writeln!(output)?;
    let (gets, error) = ("gets", "±");
    writeln!(
        output,
        "{:>12} {:>10} {gets:>10} {error:>8} {:>6}  prefix",
        "bytes", "items", "hits"
    )?;
    for row in rows(&report, "rows")? {
        show(&mut output, row, &shown_prefix(row)?)?;
    }
    show(&mut output, &report["none"], "(none)")?;
    show(&mut output, &report["other"], "(other)")?;
    Ok(Outcome::Done)
}

/// Requests the report until it has a census.
fn wait_for_census(client: &Client, limit: u32) -> Result<Value> {
    let (began, ask) = (Instant::now(), Ask::get(format!("/api/v1/prefixes?limit={limit}")));
    loop {
        let answer = client.ask(&ask)?;
        if answer.status == StatusCode::NOT_FOUND {
            bail!("{} has no statistics by prefix: this larderd is older", client.address());
        }
        let report = client.document(&ask, &answer)?;
        if !report["census"].is_null() {
            return Ok(report);
        }
        if began.elapsed() >= CENSUS_MAX {
            bail!(
                "{} has not finished its census in two minutes: try again later",
                client.address()
            );
        }
        std::thread::sleep(PAUSE);
    }
}

fn show(output: &mut impl Write, row: &Value, prefix: &str) -> Result<()> {
    let bytes = units::bytes(number(row, "bytes")?);
    let items = units::count(number(row, "items")?);
    let (gets, hits) = (number(row, "gets")?, number(row, "hits")?);
    let ratio = match gets > 0.0 {
        true => format!("{:.1} %", hits * 100.0 / gets),
        false => "-".to_owned(),
    };
    let (gets, error) = (units::count(gets), units::count(number(row, "gets_error")?));
    writeln!(output, "{bytes:>12} {items:>10} {gets:>10} {error:>8} {ratio:>6}  {prefix}")?;
    Ok(())
}

/// Returns a prefix with bytes outside 0x21 to 0x7e escaped. A prefix may be empty.
fn shown_prefix(row: &Value) -> Result<String> {
    if let Some(prefix) = row["prefix"].as_str() {
        return Ok(escaped(prefix.as_bytes()));
    }
    let Some(encoded) = row["prefix_base64"].as_str() else {
        bail!("the server sent a row without a prefix");
    };
    // Decoding never makes the text longer.
    let mut prefix = vec![0; encoded.len()];
    match base64::decode(encoded.as_bytes(), &mut prefix) {
        Some(prefix) => Ok(escaped(prefix)),
        None => bail!("the server sent a prefix that is not valid base64"),
    }
}

/// How long the tool waits for the first census, and the pause between two requests.
const CENSUS_MAX: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(200);
