//! The moments of a start, a stop and a change-over, at each of which a signal may come.
//!
//! In a debug build tests hold a process at a step: `LARDERD_STEPS` names a folder. The process
//! appends each step that it reaches to the file `reached`, as `PID STEP`, and waits there while
//! the folder has a file with the step's name.

use std::fmt;

/// A moment in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A start: signals are caught.
    SignalsCaught,
    /// A start: the sockets listen.
    SocketsListen,
    /// A start: a signal to stop ends the process at once.
    StopWatched,
    /// A start: the memory is mapped, that of a file is attached.
    MemoryMapped,
    /// A start with a directory: it is read, and has not changed.
    DirectoryRead,
    /// A start: from here on a stop is orderly, as that of a server that serves.
    StopOrderly,
    /// A start: the cache is open.
    CacheOpen,
    /// A start: the workers answer.
    WorkersRun,
    /// A start: clients that came while the directory opened are with the workers.
    OpeningEnded,
    /// A start: the pid file has its name.
    PidfileWritten,
    /// A start: the service manager, the shell or the predecessor knows that the server serves.
    Announced,
    /// A stop was asked for.
    StopAsked,
    /// A stop: the workers have ended.
    WorkersEnded,
    /// A stop: the disk has what it is to keep.
    DiskEnded,
    /// A stop: the admin listener has ended.
    HttpEnded,
    /// A change-over: the successor could open the directory, and is about to ask for it.
    Rehearsed,
    /// A change-over: the successor has the directory.
    DirectoryTaken,
    /// A change-over: the predecessor accepts no more connections.
    Retired,
    /// A change-over: the predecessor has left the directory, and is about to say so.
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

/// The process has come to a step.
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

/// The process has come to a step: nothing to do in a release build.
#[cfg(not(debug_assertions))]
pub(crate) fn reach(_: Step) {}
