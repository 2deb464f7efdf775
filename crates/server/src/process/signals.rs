//! Signals, as a descriptor that can be waited for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::process::stop::Manner;

/// The signals that mean something to a server. SIGPIPE is ignored by the runtime.
#[derive(Debug)]
pub(crate) struct Signals(SignalDelivery<UnixStream, SignalOnly>);

impl Signals {
    /// Catches the signals from now on.
    pub(crate) fn catch() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let signals = [SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP];
        SignalDelivery::with_pipe(read, write, SignalOnly, signals).map(Self)
    }

    /// What the signals ask for that have come since the last time.
    pub(crate) fn take(&mut self) -> Asked {
        let mut asked = Asked::default();
        for signal in self.0.pending() {
            match signal {
                SIGTERM | SIGINT => asked.stop = Some(Manner::Now),
                SIGUSR1 => asked.stop = Some(Manner::Graceful),
                SIGUSR2 => asked.upgrade = true,
                _ => asked.reload = true,
            }
        }
        asked
    }
}

/// What signals ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// To stop.
    pub(crate) stop: Option<Manner>,
    /// To read files again: SIGHUP.
    pub(crate) reload: bool,
    /// To let another process take this one's place: SIGUSR2.
    pub(crate) upgrade: bool,
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_read().as_fd()
    }
}
