//! Signals, as a descriptor that a thread can wait for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::sys::signal::SigSet;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::stop::Manner;

/// The signals that the server handles. The runtime ignores SIGPIPE.
#[derive(Debug)]
pub(crate) struct Signals(SignalDelivery<UnixStream, SignalOnly>);

impl Signals {
    /// Starts to catch the signals.
    pub(crate) fn catch() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        SignalDelivery::with_pipe(read, write, SignalOnly, CAUGHT).map(Self)
    }

    /// Makes the system interrupt threads other than the calling one and those that it starts. A
    /// thread that waits for a disk in the kernel cannot react to a signal.
    pub(crate) fn leave_to_others() -> io::Result<()> {
        Ok(caught()?.thread_block()?)
    }

    /// Makes the system interrupt the calling thread.
    pub(crate) fn accept_here() -> io::Result<()> {
        Ok(caught()?.thread_unblock()?)
    }

    /// Returns the requests of all signals since the last call.
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

fn caught() -> io::Result<SigSet> {
    let mut caught = SigSet::empty();
    for signal in CAUGHT {
        caught.add(nix::sys::signal::Signal::try_from(signal)?);
    }
    Ok(caught)
}

const CAUGHT: [i32; 5] = [SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP];

/// The requests of received signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Stop the server.
    pub(crate) stop: Option<Manner>,
    /// SIGHUP: read the files again.
    pub(crate) reload: bool,
    /// SIGUSR2: upgrade to a new process.
    pub(crate) upgrade: bool,
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_read().as_fd()
    }
}
