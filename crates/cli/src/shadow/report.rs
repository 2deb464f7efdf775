//! The report at the end: lines of `name=value`, or JSON.

use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Map, Value, json};

use super::compare::shown;
use super::live::LiveCounts;
use super::tally::{Difference, Explained, Tally, Uncompared};

/// The counts of a run, as a report shows them.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    /// The counts of the comparer.
    pub(crate) tally: &'a Tally,
    /// The counts of the forwarder, if there was one.
    pub(crate) live: Option<&'a LiveCounts>,
    /// Further facts about the source of the requests.
    pub(crate) more: Vec<(&'static str, Value)>,
}

impl Report<'_> {
    /// Prints the report.
    ///
    /// # Errors
    /// The output is closed.
    pub(crate) fn print(&self, as_json: bool) -> io::Result<()> {
        let report = self.json();
        let mut out = io::stdout().lock();
        if as_json {
            return writeln!(out, "{report:#}");
        }
        print_lines(&mut out, "", &report)?;
        for sample in &self.tally.samples {
            writeln!(
                out,
                "# {}: {} {}: live: {}; candidate: {}",
                sample.kind.word(),
                sample.command,
                sample.key,
                sample.live,
                sample.candidate
            )?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let tally = self.tally;
        let mut report = json!({
            "seconds": tally.elapsed().as_millis() as f64 / 1000.0,
            "connections": tally.connections,
            "connections_not_compared": tally.unknown_connections,
            "requests": tally.requests,
            "compared": tally.compared_count(),
            "identical": tally.identical,
            "differences": counts(Difference::ALL.iter().map(|kind| kind.word()), &tally.differences),
            "explained": counts(Explained::ALL.iter().map(|kind| kind.word()), &tally.explained),
            "not_compared": counts(Uncompared::ALL.iter().map(|kind| kind.word()), &tally.uncompared),
            "live": { "hits": tally.hits[0], "misses": tally.misses[0] },
            "candidate": {
                "hits": tally.hits[1],
                "misses": tally.misses[1],
                "lost_items": tally.lost_at_candidate,
                "connects": tally.candidate_connects,
                "failures": tally.candidate_failures,
            },
            "gaps": tally.gaps,
            "queued_bytes_max": tally.queued_bytes_max,
        });
        for (name, value) in &self.more {
            report[name] = value.clone();
        }
        if let Some(live) = self.live {
            report["live"]["connections_refused"] = json!(live.refused_by_live.load(Relaxed));
            report["live"]["connections_cut"] = json!(live.cut.load(Relaxed));
        }
        report["samples"] = tally.samples.iter().map(shown).collect();
        report
    }
}

/// Returns the total and the counts by name.
fn counts<'a>(names: impl Iterator<Item = &'a str>, counts: &[u64]) -> Value {
    let mut object = Map::new();
    object.insert("total".to_owned(), json!(counts.iter().sum::<u64>()));
    object.extend(names.zip(counts).map(|(name, count)| (name.to_owned(), json!(count))));
    Value::Object(object)
}

/// Prints the numbers of an object, each with its path as its name.
fn print_lines(out: &mut impl Write, prefix: &str, object: &Value) -> io::Result<()> {
    for (name, value) in object.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => print_lines(out, &format!("{prefix}{name}."), value)?,
            Value::Array(_) => {}
            value => writeln!(out, "{prefix}{name}={value}")?,
        }
    }
    Ok(())
}
