//! The file with the process id.

use std::fs;
use std::path::Path;
use std::process;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::log;
use crate::net::sockets::write_whole;

/// Writes this process's id. One of a process that still runs is overwritten with a warning, unless this process takes
/// its place. Where it cannot be written the server goes on without, as memcached does.
pub(crate) fn write(path: &Path, predecessor: Option<Pid>) {
    let predecessor = predecessor.map(Pid::as_raw_pid);
    if let Some(pid) = running(path).filter(|pid| Some(*pid) != predecessor) {
        log::say(format_args!("larderd: {} is of process {pid}, which is running", path.display()));
    }
    if let Err(error) = write_whole(path, ".tmp", &format!("{}\n", process::id())) {
        log::say(format_args!("larderd: option -P: cannot write to {}: {error}", path.display()));
    }
}

/// Writes this process's id over that of one that was to take its place and did not.
pub(crate) fn take_back(path: &Path, pid: u32) {
    if named(path).and_then(|pid| u32::try_from(pid).ok()) == Some(pid) {
        write(path, None);
    }
}

/// The process that a file names.
fn named(path: &Path) -> Option<i32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The process that a file names, if there is one that runs.
fn running(path: &Path) -> Option<i32> {
    let pid = named(path)?;
    let is_running = match test_kill_process(Pid::from_raw(pid)?) {
        Ok(()) => true,
        Err(error) => error == Errno::PERM,
    };
    (is_running && pid.unsigned_abs() != process::id()).then_some(pid)
}

/// Removes the file. If that fails it stays, like one of a process that was killed.
pub(crate) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}
