//! The rows of the `stats` commands, by name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use larder::Wait;
use larder_protocol::{Frame, StatsSection};
use larder_stats::ClassCounter;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use crate::server::Server;
use crate::stats::GatherStep;
use crate::stats::{self, Answer};

/// The rows of a command by name, or the rows of a size class by name without its prefix.
pub(super) type NamedRows = HashMap<String, String>;

/// The rows of all commands from which the metrics are computed.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// `stats`, and the last lines of `stats slabs`.
    pub(super) general: NamedRows,
    /// `stats settings`.
    pub(super) settings: NamedRows,
    /// `stats larder`.
    pub(super) larder: NamedRows,
    /// `stats items` and `stats slabs`, by size class.
    pub(super) items: BTreeMap<u8, NamedRows>,
    pub(super) slabs: BTreeMap<u8, NamedRows>,
    /// Stores refused because memory was full, by size class, including classes without items.
    pub(super) out_of_memory: BTreeMap<u8, u64>,
}

impl Rows {
    /// Requests all rows.
    pub(super) async fn gather(server: &Arc<Server>) -> Self {
        let mut rows = Self::default();
        for (class, _) in server.statistics.classes.numbered() {
            let counts = server.statistics.class_tally.read(class);
            rows.out_of_memory.insert(class, counts[ClassCounter::OutOfMemory as usize]);
        }
        for (name, value) in answer(server, StatsSection::Items).await {
            if let Some((class, name)) = name.strip_prefix("items:").and_then(of_class) {
                rows.items.entry(class).or_default().insert(name, value);
            }
        }
        for (name, value) in answer(server, StatsSection::Slabs).await {
            match of_class(&name) {
                Some((class, name)) => rows.slabs.entry(class).or_default().insert(name, value),
                None => rows.general.insert(name, value),
            };
        }
        rows.settings.extend(answer(server, StatsSection::Settings).await);
        rows.larder.extend(answer(server, StatsSection::Larder).await);
        rows.general.extend(answer(server, StatsSection::General).await);
        rows
    }
}

/// Splits `class:name`.
fn of_class(name: &str) -> Option<(u8, String)> {
    let (class, name) = name.split_once(':')?;
    Some((class.parse().ok()?, name.to_owned()))
}

/// Returns the rows of a command. Rows that need a census (a walk that counts the stored items) are
/// gathered slice by slice, as in a client's connection.
pub(in crate::admin) async fn answer(
    server: &Arc<Server>,
    section: StatsSection,
) -> Vec<(String, String)> {
    let frame = Frame::default();
    let mut text = Vec::new();
    if let Answer::Gather(mut gathering) =
        stats::answer(server, section, Wait::Block, &frame, &mut text)
    {
        let deadline = Instant::now() + CENSUS_TIME_MAX;
        loop {
            let before = text.len();
            if gathering.step(&frame, Wait::Block, &mut text) == GatherStep::All {
                break;
            }
            if Instant::now() > deadline {
                gathering.finish(&frame, &mut text);
                break;
            }
            yield_now().await;
            if text.len() == before {
                // In the meantime a worker may take the next slice for one of its clients.
                sleep(SLICE_PAUSE).await;
            }
        }
    }
    parse(&text)
}

/// Splits lines of the form `STAT name value`.
fn parse(text: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(text);
    let rows = text.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    rows.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The maximum time that a scrape waits for the census. A large cache takes some milliseconds.
const CENSUS_TIME_MAX: Duration = Duration::from_secs(3);

const SLICE_PAUSE: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_split_into_class_name_and_value() {
        let rows = parse(b"STAT version 1.6.45\r\nSTAT 3:chunk_size 144\r\nEND\r\n");
        assert_eq!(rows[0], ("version".to_owned(), "1.6.45".to_owned()));
        assert_eq!(of_class(&rows[1].0), Some((3, "chunk_size".to_owned())));
        assert_eq!(of_class("active_slabs"), None);
        assert_eq!(rows.len(), 2);
    }
}
