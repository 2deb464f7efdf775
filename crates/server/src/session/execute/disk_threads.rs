//! Threads for work that may wait for the disk.
//!
//! A disk may hang, but a worker and the admin listener's thread serve many clients. They pass work
//! that may wait for the disk to these threads. While all of the threads wait, further work is
//! refused.

use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::Executor;
use crate::failure::AbortOnPanic;
use crate::server::{DISK_THREADS, Server};

/// The threads of a server with a disk tier. They end when the last clone is dropped and their work
/// is done.
#[derive(Clone)]
pub(crate) struct DiskThreads(SyncSender<Work>);

/// A closure for one of the threads, which calls it with the thread's executor.
type Work = Box<dyn FnOnce(&Executor) + Send>;

/// All threads are busy, and the queue of waiting work is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMuchWork;

impl DiskThreads {
    /// Starts the threads. Returns `None` without a disk tier.
    ///
    /// # Errors
    /// Fails if the system cannot start another thread.
    pub(crate) fn start(server: &Arc<Server>) -> io::Result<Option<Self>> {
        if server.options.disk_tier.is_none() {
            return Ok(None);
        }
        let (sender, receiver) = mpsc::sync_channel(WAITING_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..DISK_THREADS {
            let (receiver, server) = (Arc::clone(&receiver), Arc::clone(server));
            let thread = thread::Builder::new().name("larder-ask".into());
            thread.spawn(move || run(&receiver, &Executor::of_disk_thread(server, number)))?;
        }
        Ok(Some(Self(sender)))
    }

    /// Passes work to a thread.
    ///
    /// # Errors
    /// Returns [`TooMuchWork`] and drops the work.
    pub(crate) fn execute(
        &self,
        work: impl FnOnce(&Executor) + Send + 'static,
    ) -> Result<(), TooMuchWork> {
        self.0.try_send(Box::new(work)).map_err(|_| TooMuchWork)
    }
}

impl std::fmt::Debug for DiskThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DiskThreads")
    }
}

fn run(works: &Mutex<Receiver<Work>>, executor: &Executor) {
    let _guard = AbortOnPanic;
    loop {
        let next = works.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(work) => work(executor),
            Err(_) => return,
        }
    }
}

/// How many requests may wait for a thread.
const WAITING_MAX: usize = 64;
