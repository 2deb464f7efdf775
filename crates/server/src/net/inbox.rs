//! Hands new connections from the listener to a worker, and what was read of the disk for it.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, Mutex, PoisonError};

use larder::DiskPages;
use larder_options::{ClientCertificates, Protocol};
use rustix::io;

use crate::net::disk_reads::DiskQuery;
use crate::waker::Waker;

/// Accepted sockets that the worker has not taken yet.
#[derive(Debug)]
pub(crate) struct Inbox {
    accepted: Mutex<Vec<Accepted>>,
    /// What the disk's readers have read.
    reads: Mutex<Vec<DiskQuery<DiskPages>>>,
    waker: Arc<Waker>,
    /// True if the worker has turns that wait for the disk.
    is_parking: AtomicBool,
}

/// A new connection.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) socket: OwnedFd,
    pub(crate) transport: Transport,
    /// Whether TLS requires a client certificate; `None` without TLS.
    pub(crate) client_certificates: Option<ClientCertificates>,
    /// The protocol of the address that accepted it.
    pub(crate) protocol: Protocol,
}

/// What a connection runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Unix,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            accepted: Mutex::default(),
            reads: Mutex::default(),
            waker: Arc::new(Waker::new()?),
            is_parking: AtomicBool::new(false),
        })
    }

    /// Adds a connection and wakes the worker.
    pub(crate) fn put(&self, accepted: Accepted) {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).push(accepted);
        self.waker.wake();
    }

    /// Takes all connections that were added since the last call.
    pub(crate) fn take(&self) -> Vec<Accepted> {
        self.waker.reset();
        std::mem::take(&mut self.accepted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds what was read of the disk, and wakes the worker.
    pub(crate) fn put_read(&self, read: DiskQuery<DiskPages>) {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).push(read);
        self.waker.wake();
    }

    /// Takes what was read since the last call.
    pub(crate) fn take_reads(&self) -> Vec<DiskQuery<DiskPages>> {
        std::mem::take(&mut self.reads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets the next sync of the disk wake the worker.
    pub(crate) fn note_parking(&self) {
        self.is_parking.store(true, Release);
    }

    /// True if the worker waits for a sync, as far as it has said since the last call.
    pub(crate) fn take_parking(&self) -> bool {
        self.is_parking.swap(false, AcqRel)
    }

    /// Returns the waker; readable if there is a connection to take, or other work for the worker.
    pub(crate) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }
}
