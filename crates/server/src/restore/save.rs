//! Writes the dump of `--dump`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use larder::{Cache, Cursor, Dumped};
use larder_dump::{Entry, WriteError, Writer};
use larder_item::Deadline;
use larder_options::Restore;

use super::load::{shown, sync_folder};
use crate::clock::unix_time;
use crate::log;
use crate::words::CountedNoun;

/// The numbers of a dump.
#[derive(Debug, Default)]
struct Counts {
    written: u64,
    /// Items that were not visited before the time was over.
    lost: u64,
}

/// Writes all items to the dump, for at most the time of `--dump-secs`. No thread changes items any
/// more. Returns false if items are lost. The log has the reason.
pub(crate) fn save(cache: &Cache, restore: &Restore) -> bool {
    let Some(path) = restore.dump.as_deref() else { return true };
    let began = Instant::now();
    let part = part_of(path);
    match write(cache, restore, path, &part) {
        Ok(Counts { written, lost: 0 }) => {
            log::info(format_args!(
                "larderd: wrote {} to {} in {:.1} s",
                CountedNoun(written, "item"),
                shown(path),
                began.elapsed().as_secs_f64(),
            ));
            true
        }
        Ok(Counts { written, lost }) => {
            log::error(format_args!(
                "larderd: {} was written with {} within {} s; about {lost} more are lost; a higher \
                 --dump-secs gives a slow disk more time",
                shown(path),
                CountedNoun(written, "item"),
                restore.dump_time.as_secs(),
            ));
            false
        }
        Err(error) => {
            // It only takes space.
            let _ = fs::remove_file(&part);
            log::error(format_args!(
                "larderd: cannot write {}: {error}; the next start is empty",
                shown(path)
            ));
            false
        }
    }
}

fn write(cache: &Cache, restore: &Restore, path: &Path, part: &Path) -> Result<Counts, WriteError> {
    let until = Instant::now() + restore.dump_time;
    // Values may be confidential, so that only the owner may read the dump.
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(part)?;
    let mut writer = Writer::new(Output(file), unix_time().as_secs())?;
    let (mut cursor, mut found) = (Cursor::default(), Vec::new());
    let mut is_in_time = true;
    while is_in_time && cache.dump_group("", &mut cursor, &mut found) {
        for dumped in found.drain(..) {
            push(cache, &dumped, &mut writer)?;
        }
        is_in_time = Instant::now() < until;
    }
    let written = writer.items();
    let lost = if is_in_time { 0 } else { cache.len().saturating_sub(written).max(1) };
    let Output(file) = writer.finish()?;
    file.sync_all()?;
    fs::rename(part, path)?;
    sync_folder(path)?;
    Ok(Counts { written, lost })
}

/// Writes an item, unless it is stale or a client is loading it.
fn push(
    cache: &Cache,
    Dumped { key, meta }: &Dumped,
    writer: &mut Writer<Output>,
) -> Result<(), WriteError> {
    if meta.stale || meta.token_sent {
        return Ok(());
    }
    let Some(value) = cache.get(key) else { return Ok(()) };
    let deadline_unix_secs = match meta.deadline {
        Deadline::NEVER => None,
        Deadline(second) => Some(u64::try_from(cache.epoch().unix_of(second)).unwrap_or(0)),
    };
    let Ok(value_bytes) = u32::try_from(value.len()) else { return Ok(()) };
    let entry = Entry { key, flags: meta.flags, deadline_unix_secs, value_bytes };
    writer.item(&entry, &value)
}

/// The writer of the format writes whole blocks, so no further buffer is needed.
#[derive(Debug)]
struct Output(File);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}
