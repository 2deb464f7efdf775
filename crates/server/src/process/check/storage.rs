//! The memory of a cache, and the places where its items are kept.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use larder_options::{LocalReaders, Options, TierMode};
use rustix::fs::statvfs;

use super::findings::Findings;
use super::permissions;
use crate::failure::{EXIT_FAILURE, Failure};
use crate::observe::readers;
use crate::server::disk_tier::Observer;
use crate::server::error::ServerError;
use crate::server::{memory_file, open};

/// Checks the memory, the memory file and the directory of the disk tier.
pub(super) fn check(options: &Options, findings: &mut Findings) {
    let mib = options.memory_bytes >> 20;
    findings.uses("memory", format_args!("{mib} MiB{}", memory_words(options)));
    // A file keeps its items, and memory for readers is allocated as a whole.
    let mut anonymous = options.clone();
    anonymous.memory_file = None;
    anonymous.local_readers = LocalReaders::Off;
    anonymous.huge_pages = false;
    let opened = open::prepare(&anonymous, None, Observer::default());
    if let Some(path) = &options.memory_file {
        check_file(path, options, findings);
    }
    if let Some(path) = &options.restore.dump {
        findings.uses("dump", path.display());
        findings.take(check_dump(options));
    }
    if let Some(tier) = &options.disk_tier {
        let mode = if tier.mode == TierMode::Store { "store" } else { "cache" };
        let (path, size) = (&tier.path, tier.bytes >> 20);
        findings.uses("disk", format_args!("{} ({mode}, {size} MiB)", path.display()));
        if !path.exists() {
            check_new_directory(path, tier.bytes, findings);
        }
    }
    let rehearsed = opened.and_then(|cache| match &options.disk_tier {
        // The rehearsal would create a directory that is missing.
        Some(tier) if tier.path.exists() => cache.rehearse(),
        _ => Ok(()),
    });
    let rehearsed = rehearsed.and_then(|()| readers::check(options).map_err(ServerError::from));
    findings.take(rehearsed.map_err(|error| Failure::new(error.exit_code(), error)));
}

fn memory_words(options: &Options) -> String {
    let words = [
        (options.lock_memory, "locked"),
        (options.huge_pages, "huge pages"),
        (!options.evict, "no eviction"),
    ];
    words.into_iter().filter(|(is_on, _)| *is_on).map(|(_, word)| format!(", {word}")).collect()
}

/// Checks that the stop can write the file of `--dump`.
///
/// # Errors
/// Fails if it is not a regular file, or if its directory does not exist or is not writable.
pub(crate) fn check_dump(options: &Options) -> Result<(), Failure> {
    let Some(path) = &options.restore.dump else { return Ok(()) };
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let usable = match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(io::Error::other("it is not a regular file")),
        Ok(_) | Err(_) => permissions::check_writable(directory.unwrap_or(Path::new("."))),
    };
    usable.map_err(|error| {
        let message = format_args!(
            "option --dump: cannot use {}: {error}; name a file in a directory to which the user of \
             larderd may write",
            path.display()
        );
        Failure::new(EXIT_FAILURE, message)
    })
}

fn check_file(path: &Path, options: &Options, findings: &mut Findings) {
    findings.uses("file", path.display());
    if let Err(error) = memory_file::check_place(path) {
        findings.problem(Failure::new(EXIT_FAILURE, error));
        return;
    }
    let directory = path.parent().unwrap_or(Path::new("/"));
    let found = fs::metadata(path);
    let usable = match &found {
        Ok(found) if !found.is_file() => Err(io::Error::other("it is not a regular file")),
        Ok(_) => permissions::check_writable(path),
        Err(_) => permissions::check_writable(directory),
    };
    if let Err(error) = usable {
        findings.problem(Failure::new(
            EXIT_FAILURE,
            format_args!(
                "option -e: cannot use {}: {error}; name a file that the user of larderd may \
                 write",
                path.display()
            ),
        ));
        return;
    }
    // The blocks that the file already has are used again.
    let held_bytes = found.map_or(0, |found| found.blocks() * BLOCK_BYTES);
    let needed_bytes = options.memory_bytes.saturating_sub(held_bytes);
    if free_bytes(directory).is_some_and(|free| free < needed_bytes) {
        // A start reserves the space.
        findings.problem(Failure::new(
            EXIT_FAILURE,
            format_args!(
                "option -e: there is no space for the {} bytes of {}; request less, or free some \
                 space",
                options.memory_bytes,
                path.display()
            ),
        ));
    }
}

/// Checks that a directory can be created.
fn check_new_directory(path: &Path, bytes: u64, findings: &mut Findings) {
    let parent = path.parent().unwrap_or(Path::new("/"));
    match permissions::check_writable(parent) {
        Ok(()) => {
            findings.note(format_args!("{} does not exist and is created", path.display()));
            note_space(parent, bytes, findings);
        }
        Err(error) => findings.problem(Failure::new(
            EXIT_FAILURE,
            format_args!(
                "option --tier-path: cannot create {}: {error}; create {} for the user of \
                 larderd, or name another directory",
                path.display(),
                parent.display()
            ),
        )),
    }
}

/// Notes that the log of a new directory may not fit. A start does not reserve its space.
fn note_space(directory: &Path, log_bytes: u64, findings: &mut Findings) {
    let Some(free_bytes) = free_bytes(directory).filter(|free| *free < log_bytes) else { return };
    let (free, log) = (free_bytes >> 20, log_bytes.div_ceil(1 << 20));
    findings.note(format_args!(
        "option --tier-size: {} has {free} MiB free, and the log may grow to {log} MiB; free some \
         space, or give a smaller size",
        directory.display()
    ));
}

/// Returns the space that the process may still use in the file system of a directory.
fn free_bytes(directory: &Path) -> Option<u64> {
    let of = statvfs(directory).ok()?;
    Some(of.f_bavail.saturating_mul(of.f_frsize))
}

/// The unit of the number of blocks that the system reports.
const BLOCK_BYTES: u64 = 512;
