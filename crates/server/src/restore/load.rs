//! Loads the dump of `--dump`.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use larder::{Cache, StoreError, StoreMode, StoreRequest, Stored};
use larder_dump::{Piece, ReadEntry, ReadError, Reader};
use larder_item::Deadline;
use larder_options::Restore;

use crate::clock::unix_time;
use crate::log;
use crate::words::CountedNoun;

/// The numbers of a load.
#[derive(Debug, Default)]
struct Counts {
    loaded: u64,
    expired: u64,
    /// Items that do not fit, or whose values are not complete.
    left_out: u64,
}

/// Loads the items of the dump, if there is one, for at most the time of `--restore-secs`. A dump
/// that cannot be read is renamed, so that the server starts with the items before the damage.
/// `note` receives the part of the file that is read, and the whole.
pub(crate) fn load(cache: &Cache, restore: &Restore, note: impl Fn(usize, usize)) {
    let Some(path) = restore.dump.as_deref() else { return };
    let began = Instant::now();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return log::info(format_args!("larderd: no dump {}: the cache is empty", shown(path)));
        }
        Err(error) => return give_up(path, &error),
    };
    let mut counts = Counts::default();
    match load_items(cache, restore, file, note, &mut counts) {
        Ok(true) => {}
        Ok(false) => log::warn(format_args!(
            "larderd: {} was not loaded to its end within {} s (--restore-secs)",
            shown(path),
            restore.load_time.as_secs()
        )),
        Err(error) => give_up(path, &error),
    }
    let Counts { loaded, expired, left_out } = counts;
    log::info(format_args!(
        "larderd: loaded {} from {} in {:.1} s; {expired} had expired, {left_out} left out",
        CountedNoun(loaded, "item"),
        shown(path),
        began.elapsed().as_secs_f64(),
    ));
}

/// Returns false if the time is over before the end.
fn load_items(
    cache: &Cache,
    restore: &Restore,
    file: File,
    note: impl Fn(usize, usize),
    counts: &mut Counts,
) -> Result<bool, ReadError> {
    let until = Instant::now() + restore.load_time;
    let bytes = file.metadata().map_or(0, |found| found.len());
    let mut reader = Reader::new(file)?;
    let mut value = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        // A clock read for each item would take as long as its store.
        if counts.loaded.is_multiple_of(CLOCK_ITEMS) {
            note((reader.offset() >> 10) as usize, (bytes >> 10).max(1) as usize);
            if Instant::now() > until {
                return Ok(false);
            }
        }
        value.clear();
        // The reader checks the length against the limit of the format, and the value grows with
        // the bytes that are read.
        let is_whole = loop {
            match reader.next_piece()? {
                Piece::Bytes(bytes) => value.extend_from_slice(bytes),
                Piece::End => break true,
                Piece::Void => break false,
            }
        };
        let Some(deadline) = deadline(cache, restore, &entry) else {
            counts.expired += 1;
            continue;
        };
        match is_whole && store(cache, &entry, deadline, &value) {
            true => counts.loaded += 1,
            false => counts.left_out += 1,
        }
    }
    Ok(true)
}

fn store(cache: &Cache, entry: &ReadEntry, deadline: Deadline, value: &[u8]) -> bool {
    let request = StoreRequest {
        flags: entry.flags,
        deadline,
        ..StoreRequest::new(entry.key(), StoreMode::Add)
    };
    let stored = match value.len() > cache.upload_bytes_min() {
        true => upload(cache, &request, value),
        false => cache.store(&request, value),
    };
    matches!(stored, Ok(Stored::Stored { .. }))
}

fn upload(cache: &Cache, request: &StoreRequest<'_>, value: &[u8]) -> Result<Stored, StoreError> {
    let mut upload = cache.upload(request.key, value.len())?;
    upload.push(value)?;
    upload.store(request)
}

/// Returns the deadline of an item in the cache; `None` if it has expired.
fn deadline(cache: &Cache, restore: &Restore, entry: &ReadEntry) -> Option<Deadline> {
    let now = unix_time().as_secs();
    let limit = restore.ttl.map(|ttl| now.saturating_add(ttl.as_secs()));
    let deadline = entry.deadline_unix_secs.into_iter().chain(limit).min();
    match deadline {
        None => Some(Deadline::NEVER),
        Some(secs) if secs <= now => None,
        // An exptime below 30 days is a time to live, so a Unix time is not mistaken for one.
        Some(secs) => Some(cache.deadline(i64::try_from(secs).unwrap_or(i64::MAX))),
    }
}

fn give_up(path: &Path, error: &dyn std::fmt::Display) {
    let mut other = path.as_os_str().to_owned();
    other.push(".damaged");
    let other = PathBuf::from(other);
    let kept = match fs::rename(path, &other) {
        Ok(()) => format!("it is kept as {}", shown(&other)),
        Err(error) => format!("it could not be renamed: {error}"),
    };
    log::error(format_args!("larderd: cannot load {}: {error}; {kept}", shown(path)));
}

/// Removes the dump before the first client is served: after a crash it would bring back old
/// items.
///
/// # Errors
/// The file cannot be removed.
pub(crate) fn remove(restore: &Restore) -> io::Result<()> {
    let Some(path) = restore.dump.as_deref() else { return Ok(()) };
    match fs::remove_file(path) {
        Ok(()) => sync_folder(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a change of the names in a file's folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

pub(super) fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}

/// The clock is read once for this many items.
const CLOCK_ITEMS: u64 = 64;
