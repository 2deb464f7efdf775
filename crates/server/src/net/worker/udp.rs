//! A worker's share of the UDP requests.

use std::io;
use std::sync::Arc;

use super::Worker;
use crate::net::datagrams::{self, Datagrams};
use crate::net::poller::LAST_KEY;
use crate::session::execute::disk_threads::DiskThreads;

impl Worker {
    /// Makes the worker serve its share of the UDP requests. Each datagram wakes one of the waiting
    /// workers. `disk_threads` execute requests that wait for the disk.
    ///
    /// # Errors
    /// Fails if the system cannot wait for the sockets.
    pub(crate) fn share(
        &mut self,
        datagrams: Arc<[Datagrams]>,
        disk_threads: Option<DiskThreads>,
    ) -> io::Result<()> {
        for (number, socket) in datagrams.iter().enumerate() {
            self.poller.watch(socket, datagrams_key(number))?;
        }
        (self.datagrams, self.disk_threads) = (datagrams, disk_threads);
        self.takes_datagrams = true;
        Ok(())
    }

    /// Stops serving UDP, because a successor process serves it from now on.
    pub(super) fn leave_datagrams(&mut self) {
        if !std::mem::take(&mut self.takes_datagrams) {
            return;
        }
        for (number, socket) in self.datagrams.iter().enumerate() {
            self.poller.stop_watching(socket, datagrams_key(number));
            // The datagrams have woken only this worker. A ring may report the event only later.
            self.datagrams_ready.push(number);
        }
    }

    /// Serves the UDP sockets with waiting requests.
    pub(super) fn serve_datagrams(&mut self) {
        for number in self.datagrams_ready.drain(..) {
            let site = datagrams::Site {
                executor: &self.executor,
                wait: self.asking.wait(&self.deferred),
                disk_threads: self.disk_threads.as_ref(),
                arrived_ns: self.stopwatches.woken_ns(),
            };
            datagrams::serve(&self.datagrams, number, &site, &mut self.scratch);
            if self.takes_datagrams {
                self.poller.watch_on(&self.datagrams[number], datagrams_key(number));
            }
        }
    }
}

/// The key of the inbox. The keys of UDP sockets are just below it. Tokens never reach them,
/// because there cannot be that many connections.
pub(super) const INBOX: u64 = LAST_KEY;

/// Returns the key of a UDP socket.
fn datagrams_key(number: usize) -> u64 {
    INBOX - 1 - number as u64
}
