//! The statistics of a server under test.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::Stream;

/// Returns a number from `stats`, or from `stats` with the name of a section.
pub fn stat(stream: &mut Stream, section: &str, name: &str) -> Result<u64> {
    let request = format!("stats {section}").trim_end().to_owned() + "\r\n";
    let answer = String::from_utf8(stream.ask(request.as_bytes(), b"END\r\n")?)?;
    let head = format!("STAT {name} ");
    let value = answer.lines().find_map(|line| line.strip_prefix(&head));
    Ok(value.with_context(|| format!("no {name} in {answer}"))?.parse()?)
}

/// Returns the rows of `stats` with the name of a section.
pub fn stat_rows(stream: &mut Stream, section: &str) -> Result<BTreeMap<String, String>> {
    let answer = stream.ask(format!("stats {section}\r\n").as_bytes(), b"END\r\n")?;
    let answer = String::from_utf8(answer)?;
    let rows = answer.lines().filter(|line| *line != "END").map(|line| {
        let row = line.strip_prefix("STAT ").with_context(|| format!("{line:?} is not a row"))?;
        let (name, value) = row.split_once(' ').unwrap_or((row, ""));
        Ok((name.to_owned(), value.to_owned()))
    });
    rows.collect()
}
