//! The pid file.

use std::fs;
use std::path::Path;
use std::process;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::log;
use crate::net::sockets::write_whole;

/// Writes this process's id. If the file names another running process, overwrites it with a
/// warning, unless this process is its successor. If the file cannot be written, the server
/// continues without it, as memcached does.
pub(crate) fn write(path: &Path, predecessor: Option<Pid>) {
    let predecessor = predecessor.map(Pid::as_raw_pid);
    if let Some(pid) = running(path).filter(|pid| Some(*pid) != predecessor) {
        log::say(format_args!("larderd: pid file {} names running process {pid}", path.display()));
    }
    if let Err(error) = write_whole(path, ".tmp", &format!("{}\n", process::id())) {
        log::say(format_args!("larderd: option -P: cannot write to {}: {error}", path.display()));
    }
}

/// Writes this process's id over that of a successor that failed.
pub(crate) fn take_back(path: &Path, pid: u32) {
    if named(path).and_then(|pid| u32::try_from(pid).ok()) == Some(pid) {
        write(path, None);
    }
}

/// Returns the process id in a file.
fn named(path: &Path) -> Option<i32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the process id in a file if that process runs.
fn running(path: &Path) -> Option<i32> {
    let pid = named(path)?;
    let is_running = match test_kill_process(Pid::from_raw(pid)?) {
        Ok(()) => true,
        Err(error) => error == Errno::PERM,
    };
    (is_running && pid.unsigned_abs() != process::id()).then_some(pid)
}

/// Removes the file. If that fails, the file stays, as after a kill.
pub(crate) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}
