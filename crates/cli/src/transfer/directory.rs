//! The items of the directory of a disk tier.

use std::io::Write;

use anyhow::{Context, Result};
use larder::{TierInspection, TierItem};
use larder_dump::{Entry, Writer};

use super::fetch::{Counts, as_message, now_unix_secs};
use super::progress::{Pace, Progress};
use super::salvage::DirectoryProgress;

/// Writes the items of a directory whose keys begin with `prefix`. No process may use the
/// directory.
///
/// # Errors
/// The log is damaged, the disk fails, or the output cannot be written.
pub(super) fn export<W: Write>(
    directory: &TierInspection,
    prefix: &[u8],
    mut pace: Pace,
    writer: &mut Writer<W>,
    progress: &mut Progress,
) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut outcome = Ok(());
    let shown = DirectoryProgress::new(progress);
    let read = directory.read(
        now_unix_secs(),
        |done, total| shown.note_part(done, total),
        |item| {
            if !item.key.starts_with(prefix) {
                return true;
            }
            pace.wait(1);
            if item.stale {
                counts.stale += 1;
                return true;
            }
            outcome = write(item, writer);
            counts.bytes += (item.key.len() + item.value.len()) as u64;
            shown.note_item(item.key.len() + item.value.len());
            outcome.is_ok()
        },
    );
    outcome?;
    read?;
    Ok(counts)
}

/// Writes an item.
pub(super) fn write<W: Write>(item: &TierItem<'_>, writer: &mut Writer<W>) -> Result<()> {
    let entry = Entry {
        key: item.key,
        flags: item.flags,
        deadline_unix_secs: item.deadline_unix_secs,
        value_bytes: u32::try_from(item.value.len()).context("a value of more than 4 GiB")?,
    };
    writer.item(&entry, item.value).map_err(as_message)
}
