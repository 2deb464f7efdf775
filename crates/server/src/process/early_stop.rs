//! Stop requests that arrive while the server starts.
//!
//! A start may take minutes, in which it reads a directory or reserves memory. At first, nothing is
//! lost if the process simply ends, so a thread ends it. That changes when the server answers its
//! first request, or when it changes the directory in such a way that only an orderly stop keeps
//! the items. From then on ([`EarlyStop::pass`]) the main thread handles signals, and the stop is
//! orderly. But until the cache is open, the main thread may wait for a disk that hangs. In that
//! case the stop does not begin in time, and [`Overdue`] ends the process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::leftovers::Leftovers;
use crate::log;
use crate::process::overdue::{self, Overdue};
use crate::process::signals::Signals;
use crate::process::steps::{Step, reach};
use crate::waker::Waker;

/// The thread that ends the process. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct EarlyStop {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// `STARTING`, `PASSED`, `ENDING` or `OVER`.
    stage: AtomicU8,
    waker: Waker,
}

impl EarlyStop {
    /// From now on ends the process when one of these signals requests a stop. Ends it immediately
    /// if one already has. Removes the leftover files before the process ends.
    ///
    /// # Errors
    /// Fails if no descriptors or threads are left.
    pub(crate) fn watch(
        mut signals: Signals,
        leftovers: Leftovers,
        overdue: Overdue,
    ) -> io::Result<Self> {
        if signals.take().stop.is_some() {
            end(&leftovers);
        }
        let shared = Arc::new(Shared { stage: AtomicU8::new(STARTING), waker: Waker::new()? });
        let watched = Arc::clone(&shared);
        // A disk that hangs may block this thread and the threads that it starts, so another thread
        // must receive the signals.
        Signals::leave_to_others()?;
        let watch = move || match Signals::accept_here() {
            Ok(()) => watched.run(signals, &leftovers, &overdue),
            Err(error) => {
                log::warn(format_args!("larderd: signals cannot stop this start: {error}"))
            }
        };
        thread::Builder::new().name("start".to_owned()).spawn(watch)?;
        Ok(Self { shared })
    }

    /// Leaves signals to the main thread, so that a stop is orderly from here on. Does not return
    /// if the process is already ending.
    pub(crate) fn pass(&self) {
        let passed = self.shared.stage.compare_exchange(STARTING, PASSED, SeqCst, SeqCst);
        if passed == Err(ENDING) {
            loop {
                thread::park();
            }
        }
        self.shared.waker.wake();
        if passed.is_ok() {
            reach(Step::StopOrderly);
        }
    }

    /// Same as [`Self::pass`], but also ends the thread. The calling thread receives the signals
    /// from here on.
    ///
    /// # Errors
    /// Fails if the system refuses.
    pub(crate) fn retire(&self) -> io::Result<()> {
        self.pass();
        Signals::accept_here()?;
        self.shared.stage.store(OVER, SeqCst);
        self.shared.waker.wake();
        Ok(())
    }
}

impl Shared {
    fn run(&self, mut signals: Signals, leftovers: &Leftovers, overdue: &Overdue) {
        while self.stage.load(SeqCst) != OVER {
            if signals.take().stop.is_some() {
                let ends = self.stage.compare_exchange(STARTING, ENDING, SeqCst, SeqCst);
                if ends.is_ok() {
                    end(leftovers);
                }
                // The main thread has also received the signal, and handles it once it serves.
                return overdue.begin(Duration::ZERO);
            }
            let mut waited =
                [PollFd::new(&signals, PollFlags::IN), PollFd::new(&self.waker, PollFlags::IN)];
            // If the wait is interrupted, the loop only checks a little early.
            let _ = poll(&mut waited, None);
        }
    }
}

fn end(leftovers: &Leftovers) -> ! {
    log::info(format_args!("larderd: stopped while it started"));
    leftovers.remove();
    overdue::exit(0)
}

/// A signal to stop ends the process immediately.
const STARTING: u8 = 0;
/// The main thread handles signals, because the stop must be orderly.
const PASSED: u8 = 1;
/// A signal has arrived, and the process is about to end.
const ENDING: u8 = 2;
/// The thread of this module must end.
const OVER: u8 = 3;
