//! Disk reads that a worker does not wait for. A worker with io_uring (a ring) submits them to the
//! kernel. A worker without a ring passes them to threads.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use larder::{DiskPages, DiskRead};

use crate::net::inbox::Inbox;

/// A disk read, or its result, for one of the lookups of a turn.
#[derive(Debug)]
pub(crate) struct DiskQuery<T> {
    /// The number of the turn among the turns that wait for the disk.
    pub(crate) turn: usize,
    /// The number of the lookup within that turn.
    pub(crate) lookup: usize,
    /// The read, or its result.
    pub(crate) of: T,
}

impl<T> DiskQuery<T> {
    /// Returns the same query with the result of `change` in place of the read.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> DiskQuery<U> {
        DiskQuery { turn: self.turn, lookup: self.lookup, of: change(self.of) }
    }
}

/// Threads that read the disk for a worker. They end when the worker ends.
#[derive(Debug)]
pub(crate) struct DiskReaders(Sender<DiskQuery<DiskRead>>);

impl DiskReaders {
    /// Starts the threads. They put their results into the inbox.
    ///
    /// # Errors
    /// Fails if the system cannot start another thread.
    pub(crate) fn start(inbox: &Arc<Inbox>) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..READERS {
            let (receiver, inbox) = (Arc::clone(&receiver), Arc::clone(inbox));
            let reader = thread::Builder::new().name("larder-read".into());
            reader.spawn(move || run(&receiver, &inbox))?;
        }
        Ok(Self(sender))
    }

    /// Reads from the disk.
    pub(crate) fn read(&self, asked: DiskQuery<DiskRead>) {
        // The threads accept reads while this sender exists.
        let _ = self.0.send(asked);
    }
}

fn run(reads: &Mutex<Receiver<DiskQuery<DiskRead>>>, inbox: &Inbox) {
    loop {
        let next = reads.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(asked) = next else { return };
        inbox.put_read(asked.map(|read: DiskRead| -> DiskPages { read.perform() }));
    }
}

/// How many reads one worker runs on the disk at the same time.
const READERS: usize = 8;
