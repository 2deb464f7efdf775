//! Ends the process if a stop is overdue, which means that it takes longer than the wait for the
//! disk permits. Otherwise a disk that hangs could keep the process alive.

use std::fs;
use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use larder::Cache;
use larder_options::Options;

use crate::failure::EXIT_FAILURE;
use crate::log;
use crate::server::disk_tier;

/// A thread that ends the process when its stop is overdue. Clones share it. `None` without a disk
/// tier and without a dump.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overdue(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    /// How long a stop may take.
    limit: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The time after which the stop is overdue; `None` before it begins.
    deadline: Option<Instant>,
    /// The cache, once it is open.
    cache: Option<Cache>,
}

impl Overdue {
    /// Starts the thread.
    ///
    /// # Errors
    /// Fails if the system cannot start another thread.
    pub(crate) fn watch(options: &Options) -> io::Result<Self> {
        let restore = &options.restore;
        let limit = match (&options.disk_tier, &restore.dump) {
            (Some(tier), _) => tier.stop + MORE,
            (None, Some(_)) => restore.dump_time + MORE,
            (None, None) => return Ok(Self::default()),
        };
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { limit, state, changed });
        let watched = Arc::clone(&shared);
        thread::Builder::new().name("overdue".to_owned()).spawn(move || watched.run())?;
        Ok(Self(Some(shared)))
    }

    /// Sets the cache. If the stop is overdue, the log reports how many of its changes are not on
    /// the disk.
    pub(crate) fn note_open(&self, cache: &Cache) {
        if let Some(shared) = &self.0 {
            shared.state().cache = Some(cache.clone());
        }
    }

    /// Records that a stop begins, unless one has already begun. The stop may take longer than
    /// usual by `more`.
    pub(crate) fn begin(&self, more: Duration) {
        let Some(shared) = &self.0 else { return };
        shared.state().deadline.get_or_insert_with(|| Instant::now() + shared.limit + more);
        shared.changed.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.state();
        loop {
            state = match state.deadline.map(|at| at.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        let secs = self.limit.as_secs();
        log::error(format_args!(
            "larderd: the stop did not end within {secs} s and is aborted: the disk does not \
             respond"
        ));
        if let Some(cache) = &state.cache {
            disk_tier::report_unwritten(cache);
        }
        exit(EXIT_FAILURE);
    }
}

/// Ends the process after closing its sockets. A thread that waits for a disk in the kernel keeps
/// the process and its descriptors alive until the disk responds, and clients must not wait for
/// that. The lock of the directory stays, because such a thread may still write.
pub(crate) fn exit(code: u8) -> ! {
    for descriptor in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let is_socket = fs::read_link(descriptor.path()).is_ok_and(|of| {
            let of = of.to_string_lossy();
            // A ring holds its sockets open.
            of.starts_with("socket:") || of.contains("io_uring")
        });
        let number = descriptor.file_name().to_string_lossy().parse::<RawFd>();
        if let Ok(number) = number
            && number > STANDARD_ERROR
            && is_socket
        {
            replace(number);
        }
    }
    process::exit(code.into())
}

/// Closes the file of a descriptor, but leaves its number open.
#[expect(unsafe_code, reason = "the descriptor belongs to another thread")]
fn replace(number: RawFd) {
    // SAFETY: the owner of the number still owns an open descriptor afterwards, which this code
    // leaves to it. The descriptor stands for standard input only until the process exits, which
    // happens next.
    let replaced = unsafe { nix::unistd::dup2_raw(io::stdin(), number) };
    // Fails if the owner has closed it in the meantime.
    let _ = replaced.map(IntoRawFd::into_raw_fd);
}

/// Standard error may be a socket of the service manager.
const STANDARD_ERROR: RawFd = 2;

/// How long a stop may take in addition to the wait for the disk.
const MORE: Duration = Duration::from_secs(2);
