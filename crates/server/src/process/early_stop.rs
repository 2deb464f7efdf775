//! A stop that is asked for while the server starts.
//!
//! A start may take minutes: a directory is read, memory is reserved. Until the directory changes
//! so that only an orderly stop keeps its items, and until the first request is answered, nothing
//! is lost if the process just ends, and a thread ends it. From then on ([`EarlyStop::pass`]) the
//! main thread handles signals, and the stop is orderly.

use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};

use crate::leftovers::Leftovers;
use crate::log;
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
    stage: AtomicU8,
    waker: Waker,
}

impl EarlyStop {
    /// Begins to end the process when these signals ask for it, and ends it now if they have asked.
    /// The files are removed then.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub(crate) fn watch(mut signals: Signals, leftovers: Leftovers) -> io::Result<Self> {
        if signals.take().stop.is_some() {
            end(&leftovers);
        }
        let shared = Arc::new(Shared { stage: AtomicU8::new(STARTING), waker: Waker::new()? });
        let watched = Arc::clone(&shared);
        let watch = move || watched.run(signals, &leftovers);
        thread::Builder::new().name("start".to_owned()).spawn(watch)?;
        Ok(Self { shared })
    }

    /// Leaves signals to the main thread: from here on a stop is orderly. Does not return if the
    /// process is ending.
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
}

impl Shared {
    fn run(&self, mut signals: Signals, leftovers: &Leftovers) {
        loop {
            if self.stage.load(SeqCst) == PASSED {
                return;
            }
            if signals.take().stop.is_some() {
                let ends = self.stage.compare_exchange(STARTING, ENDING, SeqCst, SeqCst);
                if ends.is_err() {
                    // The main thread has got the signal, too.
                    return;
                }
                end(leftovers);
            }
            let mut waited =
                [PollFd::new(&signals, PollFlags::IN), PollFd::new(&self.waker, PollFlags::IN)];
            // An interrupted wait looks a little early.
            let _ = poll(&mut waited, None);
        }
    }
}

fn end(leftovers: &Leftovers) -> ! {
    log::say(format_args!("larderd: stopped while it started"));
    leftovers.remove();
    process::exit(0)
}

const STARTING: u8 = 0;
const PASSED: u8 = 1;
const ENDING: u8 = 2;
