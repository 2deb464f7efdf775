//! The file with the process id.

use std::fs;
use std::path::Path;
use std::process;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::log;
use crate::sockets::write_whole;

/// Writes this process's id. One of a process that still runs is overwritten with a warning. Where it cannot
/// be written the server goes on without, as memcached does.
pub(crate) fn write(path: &Path) {
    if let Some(pid) = running(path) {
        log::say(format_args!("larderd: {} is of process {pid}, which is running", path.display()));
    }
    if let Err(error) = write_whole(path, ".tmp", &format!("{}\n", process::id())) {
        log::say(format_args!("larderd: option -P: cannot write to {}: {error}", path.display()));
    }
}

/// The process that a file names, if there is one that runs.
fn running(path: &Path) -> Option<i32> {
    let pid = fs::read_to_string(path).ok()?.trim().parse().ok()?;
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
