//! Reads files again while the server runs: soon after they change, and on request.
//!
//! One thread of low priority reads all of them, so that a disk that hangs blocks no other thread.
//! inotify reports changes in the directories of the files. The thread also looks at them every
//! minute, because not every file system has such events, and because the time may make a file
//! usable.

mod events;
mod patience;
mod places;
pub(crate) mod requests;
mod thread;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::clock::monotonic_us;
use crate::log;
use crate::priority;
use crate::waker::Waker;
use events::Events;
pub(crate) use places::changed_secs;
use requests::RefreshRequests;
use thread::Thread;

/// Files that can be read again while the server runs.
pub(crate) trait Reloaded: Send {
    /// Returns the name of the contents in messages, in the plural, such as `certificates`.
    fn name(&self) -> &'static str;

    /// Returns the absolute paths of the files. If there are none, the files are read again only on
    /// request.
    fn paths(&self) -> Vec<PathBuf>;

    /// Reads the files, and puts their contents into effect if they can be used. May wait for a
    /// disk.
    fn reload(&self, cause: Cause) -> Outcome;

    /// True if the files are also read on the request of a client.
    fn serves_command(&self) -> bool {
        false
    }

    /// Called on the thread once, before anything else, when the process has its final user and
    /// permissions. Returns why later changes could not be read.
    fn check_access(&self) -> Option<String> {
        None
    }

    /// Counts a failure, after every attempt that the log may report.
    fn note_failure(&self) {}
}

/// The reason for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// SIGHUP: the files must be read.
    Signal,
    /// `refresh_certs`: a client waits for the result.
    Command,
    /// The files may have changed.
    Change,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The contents are those that are already in effect.
    Unchanged,
    /// New contents are in effect. The text describes them, such as `2 of /etc/users`.
    Done(String),
    /// The files cannot be used, for this reason. The previous contents stay in effect.
    Failed(String),
}

/// The thread that reads files again. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the thread shares with its owner.
#[derive(Debug)]
struct Shared {
    waker: Arc<Waker>,
    requests: Arc<RefreshRequests>,
    is_over: AtomicBool,
    is_asked: AtomicBool,
    /// Since when the thread reads files, on the monotonic clock; 0 while it does not.
    reading_since_us: AtomicI64,
    /// The name of these files.
    reading: Mutex<&'static str>,
    /// True if the log contains that the current read takes long.
    is_reported: AtomicBool,
}

impl Watcher {
    /// Starts the thread. It calls `answered` after each request of [`Self::ask`], and serves
    /// `requests`.
    ///
    /// # Errors
    /// Fails if no file descriptors or threads are left.
    pub(crate) fn start(
        things: Vec<Box<dyn Reloaded>>,
        requests: Arc<RefreshRequests>,
        answered: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(requests)?);
        let has_paths = things.iter().any(|thing| !thing.paths().is_empty());
        let events = if has_paths { Events::new().inspect_err(say_unwatched).ok() } else { None };
        let (started, has_started) = mpsc::channel();
        let (end, ended) = mpsc::sync_channel::<()>(0);
        let mut thread = Thread::new(things, events, Arc::clone(&shared), Box::new(answered));
        let run = move || {
            let _ends = end;
            priority::lower();
            let _ = started.send(());
            thread.run();
        };
        let thread = Some(Builder::new().name("watched files".to_owned()).spawn(run)?);
        // Waits until the thread has started, because it makes system calls for its start that the
        // process may be forbidden to make afterwards.
        let _ = has_started.recv();
        Ok(Self { shared, ended, thread })
    }

    /// Makes the thread read all files again. Returns immediately.
    pub(crate) fn ask(&self) {
        self.shared.is_asked.store(true, Relaxed);
        self.shared.waker.wake();
    }

    /// If the thread has been reading for a long time, logs that once and fails the requests of
    /// clients. The thread cannot do that itself.
    pub(crate) fn look(&self) {
        let since_us = self.shared.reading_since_us.load(Relaxed);
        let is_long = since_us != 0 && monotonic_us() - since_us > LONG_READ_US;
        if !is_long {
            return;
        }
        if !self.shared.is_reported.swap(true, Relaxed) {
            log::warn(format_args!(
                "larderd: {} cannot be read again since {} s, because the disk of their files does \
                 not respond; the previous ones stay in effect",
                self.shared.reading(),
                LONG_READ_US / 1_000_000
            ));
        }
        self.shared.requests.fail();
    }
}

impl Drop for Watcher {
    /// Ends the thread. If it waits for a disk, leaves it to the end of the process.
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        self.shared.waker.wake();
        let waited = self.ended.recv_timeout(END_TIMEOUT);
        if let (Err(mpsc::RecvTimeoutError::Disconnected), Some(thread)) =
            (waited, self.thread.take())
        {
            // The thread has no result, and the runtime logs a panic of it.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn new(requests: Arc<RefreshRequests>) -> io::Result<Self> {
        let waker = Arc::new(Waker::new()?);
        requests.start(&waker);
        Ok(Self {
            waker,
            requests,
            is_over: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
            reading_since_us: AtomicI64::new(0),
            reading: Mutex::new(""),
            is_reported: AtomicBool::new(false),
        })
    }

    fn reading(&self) -> &'static str {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the thread begins to read these files.
    fn begin_reading(&self, name: &'static str) {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = name;
        self.is_reported.store(false, Relaxed);
        self.reading_since_us.store(monotonic_us(), Relaxed);
    }

    fn end_reading(&self) {
        self.reading_since_us.store(0, Relaxed);
    }
}

/// Logs that changes are noticed only by looks.
fn say_unwatched(error: &rustix::io::Errno) {
    log::warn(format_args!(
        "larderd: changes of files are noticed only within a minute, because inotify fails: \
         {error}; raise fs.inotify.max_user_instances and fs.inotify.max_user_watches"
    ));
}

impl fmt::Debug for dyn Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A read that takes longer means that the disk does not respond.
const LONG_READ_US: i64 = 10_000_000;

/// How long the end of the server waits for the thread.
const END_TIMEOUT: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests;
