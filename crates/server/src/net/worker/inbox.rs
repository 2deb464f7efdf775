//! Handing new connections from the listener to a worker.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use larder_options::{ClientCertificates, Protocol};
use rustix::io;

use crate::net::worker::waker::Waker;

/// Accepted sockets that a worker has not taken yet.
#[derive(Debug)]
pub(crate) struct Inbox {
    accepted: Mutex<Vec<Accepted>>,
    waker: Waker,
}

/// A new connection.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) socket: OwnedFd,
    pub(crate) transport: Transport,
    /// What TLS asks of the client; `None`: there is no TLS.
    pub(crate) client_certificates: Option<ClientCertificates>,
    /// The protocol that the address it came in on is for.
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
        Ok(Self { accepted: Mutex::default(), waker: Waker::new()? })
    }

    /// Gives the worker a connection.
    pub(crate) fn put(&self, accepted: Accepted) {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).push(accepted);
        self.waker.wake();
    }

    /// Takes all that have come since the last time.
    pub(crate) fn take(&self) -> Vec<Accepted> {
        self.waker.reset();
        std::mem::take(&mut self.accepted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Readable when there is something to take, or something else the worker shall look at.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
}
