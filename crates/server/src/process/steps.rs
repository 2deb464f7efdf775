//! The steps of a start, a stop and a changeover to a successor. A signal may arrive at any of
//! them.
//!
//! In a debug build, tests can stop a process at a step. `LARDERD_STEPS` names a folder. The
//! process appends each step that it reaches to the file `reached`, as `PID STEP`, and waits there
//! while the folder contains a file with the step's name.

use std::fmt;

/// A step in the lifetime of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Start: signals are caught.
    SignalsCaught,
    /// Start: the sockets listen.
    SocketsListen,
    /// Start: a signal to stop ends the process immediately.
    StopWatched,
    /// Start: the memory is mapped, or attached from a file.
    MemoryMapped,
    /// Start with a directory: the directory was read, and has not been changed.
    DirectoryRead,
    /// Start: from here on a stop is orderly, like that of a server that serves.
    StopOrderly,
    /// Start: the cache is open.
    CacheOpen,
    /// Start: the workers serve requests.
    WorkersRun,
    /// Start: the clients that connected while the directory opened have been passed to the
    /// workers.
    OpeningEnded,
    /// Start: the pid file has its final name.
    PidfileWritten,
    /// Start: the service manager, the shell or the predecessor has been told that the server
    /// serves.
    Announced,
    /// Stop: a stop was requested.
    StopAsked,
    /// Stop: the workers have ended.
    WorkersEnded,
    /// Stop: everything that must survive is on the disk.
    DiskEnded,
    /// Stop: the admin listener has ended.
    HttpEnded,
    /// Changeover: the successor has checked that it can open the directory, and is about to ask
    /// for it.
    Rehearsed,
    /// Changeover: the successor has the directory.
    DirectoryTaken,
    /// Changeover: the predecessor accepts no more connections.
    Retired,
    /// Changeover: the predecessor has left the directory, and is about to tell the successor.
    DirectoryLeft,
}

impl Step {
    /// All steps.
    pub const ALL: [Self; 19] = [
        Self::SignalsCaught,
        Self::SocketsListen,
        Self::StopWatched,
        Self::MemoryMapped,
        Self::DirectoryRead,
        Self::StopOrderly,
        Self::CacheOpen,
        Self::WorkersRun,
        Self::OpeningEnded,
        Self::PidfileWritten,
        Self::Announced,
        Self::StopAsked,
        Self::WorkersEnded,
        Self::DiskEnded,
        Self::HttpEnded,
        Self::Rehearsed,
        Self::DirectoryTaken,
        Self::Retired,
        Self::DirectoryLeft,
    ];
}

impl fmt::Display for Step {
    /// Writes the name of the step's file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Reports that the process has reached a step.
#[cfg(debug_assertions)]
pub(crate) fn reach(step: Step) {
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::time::Duration;

    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| std::env::var_os("LARDERD_STEPS").map(PathBuf::from));
    let Some(folder) = folder else { return };
    let line = format!("{} {step}\n", std::process::id());
    let reached = std::fs::File::options().append(true).create(true).open(folder.join("reached"));
    let written = reached.and_then(|mut reached| reached.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("LARDERD_STEPS={}: {error}", folder.display()));
    while folder.join(step.to_string()).exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
pub(crate) fn reach(_: Step) {}
