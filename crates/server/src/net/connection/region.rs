//! Sends the descriptor of the region, which is the cache's memory, to a local reader: a client on
//! this machine that reads items there directly.

use larder_stats::Counter;

use super::Connection;
use super::turn::Broken;
use crate::session::Next;
use crate::session::execute::Executor;

impl Connection {
    /// Sends the region's descriptor to the peer, if it requested it and has received all earlier
    /// output. Returns an error if the socket has no space for it: the connection does not wait for
    /// such a peer.
    #[inline]
    pub(super) fn pass_region_if_due(&mut self, executor: &Executor) -> Result<(), Broken> {
        if self.turn.next() == Next::Region && !self.has_unsent() {
            self.pass_region(executor)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn pass_region(&mut self, executor: &Executor) -> Result<(), Broken> {
        let readers = executor.server().access.readers.as_ref().ok_or(Broken)?;
        let sent = readers.pass(&self.socket).map_err(|_| Broken)?;
        executor.counters().add(Counter::WireBytesWritten, sent as u64);
        self.turn.pass_region();
        Ok(())
    }
}
