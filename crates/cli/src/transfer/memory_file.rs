//! The items of a cache in a file.

use std::io::Write;

use anyhow::{Context, Result};
use larder::Inspection;
use larder_dump::{Entry, Writer};

use super::fetch::{Counts, as_message};
use super::progress::{Pace, Progress};

/// Writes the items of a cache in a file whose keys begin with `prefix`. Maps the file read-only,
/// so that nothing changes and the processes that use it are not affected.
///
/// # Errors
/// The file does not contain a cache that this build can read, or the output cannot be written.
pub(super) fn export<W: Write>(
    inspection: &Inspection,
    prefix: &[u8],
    mut pace: Pace,
    writer: &mut Writer<W>,
    progress: &mut Progress,
) -> Result<Counts> {
    let mut counts = Counts::default();
    let (mut value, mut listed) = (Vec::new(), 0);
    let mut outcome = Ok(());
    inspection.dump(|dumped| {
        listed += 1;
        progress.show(listed, writer.items(), counts.bytes);
        if !dumped.key.starts_with(prefix) {
            return true;
        }
        pace.wait(1);
        value.clear();
        let Some(meta) = inspection.look_up(&dumped.key, &mut value) else {
            counts.gone += 1;
            return true;
        };
        if meta.stale || meta.token_sent {
            counts.stale += 1;
            return true;
        }
        outcome = write(inspection, &dumped.key, &meta, &value, writer);
        counts.bytes += (dumped.key.len() + value.len()) as u64;
        outcome.is_ok()
    });
    outcome.map(|()| counts)
}

fn write<W: Write>(
    inspection: &Inspection,
    key: &[u8],
    meta: &larder::Meta,
    value: &[u8],
    writer: &mut Writer<W>,
) -> Result<()> {
    let deadline = inspection.deadline_unix_secs(meta.deadline);
    let entry = Entry {
        key,
        flags: meta.flags,
        deadline_unix_secs: deadline.map(|secs| u64::try_from(secs).unwrap_or(0)),
        value_bytes: u32::try_from(value.len()).context("a value of more than 4 GiB")?,
    };
    writer.item(&entry, value).map_err(as_message)
}
