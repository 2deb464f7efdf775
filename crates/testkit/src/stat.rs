//! The statistics of a server under test.

use crate::Stream;
use anyhow::{Context, Result};

/// Returns a number from `stats`, or from `stats` with the name of a section.
pub fn stat(stream: &mut Stream, section: &str, name: &str) -> Result<u64> {
    let request = format!("stats {section}").trim_end().to_owned() + "\r\n";
    let answer = String::from_utf8(stream.ask(request.as_bytes(), b"END\r\n")?)?;
    let head = format!("STAT {name} ");
    let value = answer.lines().find_map(|line| line.strip_prefix(&head));
    Ok(value.with_context(|| format!("no {name} in {answer}"))?.parse()?)
}
