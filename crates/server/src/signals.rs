//! Signals, as a descriptor that can be waited for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::stop::Manner;

/// The signals that mean something to a server. SIGHUP is caught too, so that it ends nothing; SIGPIPE is
/// ignored by the runtime.
#[derive(Debug)]
pub(crate) struct Signals(SignalDelivery<UnixStream, SignalOnly>);

impl Signals {
    /// Catches the signals from now on.
    pub(crate) fn catch() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let signals = [SIGTERM, SIGINT, SIGUSR1, SIGHUP];
        SignalDelivery::with_pipe(read, write, SignalOnly, signals).map(Self)
    }

    /// What the signals ask for that have come since the last time.
    pub(crate) fn take(&mut self) -> Option<Manner> {
        let manners = self.0.pending().filter_map(|signal| match signal {
            SIGTERM | SIGINT => Some(Manner::Now),
            SIGUSR1 => Some(Manner::Graceful),
            _ => None,
        });
        manners.last()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_read().as_fd()
    }
}
