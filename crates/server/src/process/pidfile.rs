//! The pid file.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::failure::{EXIT_OS, Failure};
use crate::leftovers::Leftovers;
use crate::log;
use crate::process::check::permissions;

/// A pid file with the id of this process, under a temporary name. Dropping it removes the file
/// unless it was published.
///
/// The file is written before the cache is opened. If the process found out only afterwards that it
/// cannot write the file, it would have to end with an open disk tier, whose directory would then
/// look like after a crash.
#[derive(Debug)]
pub(crate) struct PreparedPidfile {
    path: PathBuf,
    /// The temporary path of the file.
    unfinished: PathBuf,
}

impl PreparedPidfile {
    /// Writes this process's id under the temporary name.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or if a directory has the same name.
    pub(crate) fn write(path: &Path, leftovers: &Leftovers) -> Result<Self, Failure> {
        let unfinished = unfinished(path);
        if path.is_dir() {
            return Err(cannot_write(path, &io::ErrorKind::IsADirectory.into()));
        }
        let written = fs::write(&unfinished, format!("{}\n", process::id()));
        written.map_err(|error| cannot_write(path, &error))?;
        leftovers.note(&unfinished);
        Ok(Self { path: path.to_owned(), unfinished })
    }

    /// Renames the file to its final name. If an existing file contains the id of another running
    /// process, replaces it with a warning, unless this process is the successor of that one.
    ///
    /// # Errors
    /// Fails if the file cannot be renamed.
    pub(crate) fn publish(self, predecessor: Option<Pid>) -> Result<(), Failure> {
        let (path, predecessor) = (&self.path, predecessor.map(Pid::as_raw_pid));
        if let Some(pid) = running(path).filter(|pid| Some(*pid) != predecessor) {
            log::warn(format_args!(
                "larderd: option -P: {} contains the id of running process {pid} and is \
                 overwritten; if that is another larderd, name another file",
                path.display()
            ));
        }
        fs::rename(&self.unfinished, path).map_err(|error| cannot_write(path, &error))
    }
}

/// Checks whether [`PreparedPidfile::write`] and [`PreparedPidfile::publish`] would succeed.
/// Changes nothing. Returns the id in the file if it is that of another running process.
///
/// # Errors
/// Fails if the file could not be written.
pub(crate) fn check(path: &Path) -> Result<Option<i32>, Failure> {
    if path.is_dir() {
        return Err(cannot_write(path, &io::ErrorKind::IsADirectory.into()));
    }
    let directory = path.parent().unwrap_or(Path::new("/"));
    permissions::check_writable(directory).map_err(|error| cannot_write(path, &error))?;
    let unfinished = unfinished(path);
    if unfinished.exists() {
        permissions::check_writable(&unfinished).map_err(|error| cannot_write(path, &error))?;
    }
    Ok(running(path))
}

impl Drop for PreparedPidfile {
    fn drop(&mut self) {
        // Fails if the file was published, because it has another name then.
        let _ = fs::remove_file(&self.unfinished);
    }
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".tmp");
    name.into()
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let message = format_args!(
        "option -P: cannot write the pid file {}: {error}; name a file that the user of larderd \
         may create, or leave -P out",
        path.display()
    );
    Failure::new(EXIT_OS, message)
}

/// Replaces the id of a successor that failed with this process's id. Logs a failure, because the
/// process already serves.
pub(crate) fn take_back(path: &Path, pid: u32) {
    if named(path).and_then(|pid| u32::try_from(pid).ok()) != Some(pid) {
        return;
    }
    let written = PreparedPidfile::write(path, &Leftovers::default())
        .and_then(|prepared| prepared.publish(None));
    if let Err(failure) = written {
        log::warn(format_args!("larderd: {failure}"));
    }
}

/// Returns the process id in a file.
fn named(path: &Path) -> Option<i32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the process id in a file if that process is running.
fn running(path: &Path) -> Option<i32> {
    let pid = named(path)?;
    let is_running = match test_kill_process(Pid::from_raw(pid)?) {
        Ok(()) => true,
        Err(error) => error == Errno::PERM,
    };
    (is_running && pid.unsigned_abs() != process::id()).then_some(pid)
}

/// Removes the file. If that fails, the file stays, as it would after a kill.
pub(crate) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}
