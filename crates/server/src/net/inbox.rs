//! The inbox of a worker: other threads leave new connections and the results of disk reads in it,
//! and wake the worker.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, Mutex, PoisonError};

use larder::DiskPages;
use rustix::io;

use crate::net::disk_reads::DiskQuery;
use crate::net::terms::ListenerTerms;
use crate::waker::{WakeList, Waker};

/// Accepted sockets that the worker has not added yet.
#[derive(Debug)]
pub(crate) struct Inbox {
    accepted: Mutex<Vec<NewConnection>>,
    /// The results of completed disk reads.
    reads: Mutex<Vec<DiskQuery<DiskPages>>>,
    waker: Arc<Waker>,
    /// The connections whose origin has answered.
    answered: Arc<WakeList>,
    /// True if the worker has turns that wait for the disk.
    is_parking: AtomicBool,
}

/// A new connection.
#[derive(Debug)]
pub(crate) struct NewConnection {
    pub(crate) socket: OwnedFd,
    pub(crate) transport: Transport,
    /// The terms of the listener that accepted it.
    pub(crate) terms: ListenerTerms,
}

/// The kind of socket that a connection uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Unix,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        let waker = Arc::new(Waker::new()?);
        Ok(Self {
            accepted: Mutex::default(),
            reads: Mutex::default(),
            answered: Arc::new(WakeList::new(Arc::clone(&waker))),
            waker,
            is_parking: AtomicBool::new(false),
        })
    }

    /// Adds a connection and wakes the worker.
    pub(crate) fn put(&self, accepted: NewConnection) {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).push(accepted);
        self.waker.wake();
    }

    /// Takes all connections that were added since the last call.
    pub(crate) fn take(&self) -> Vec<NewConnection> {
        self.waker.reset();
        std::mem::take(&mut self.accepted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds the result of a disk read, and wakes the worker.
    pub(crate) fn put_read(&self, read: DiskQuery<DiskPages>) {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).push(read);
        self.waker.wake();
    }

    /// Takes the results that were added since the last call.
    pub(crate) fn take_reads(&self) -> Vec<DiskQuery<DiskPages>> {
        std::mem::take(&mut self.reads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the list of connections whose origin has answered.
    pub(crate) fn answered(&self) -> &Arc<WakeList> {
        &self.answered
    }

    /// Requests that the next sync of the disk wakes the worker.
    pub(crate) fn note_parking(&self) {
        self.is_parking.store(true, Release);
    }

    /// True if the worker has called [`Self::note_parking`] since the last call.
    pub(crate) fn take_parking(&self) -> bool {
        self.is_parking.swap(false, AcqRel)
    }

    /// Returns the waker. It is readable if the worker has connections to take or other work.
    pub(crate) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }
}
