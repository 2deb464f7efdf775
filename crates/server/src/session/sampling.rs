//! Passes sampled commands to the statistics of hot keys and of prefixes.

use larder_protocol::Command;
use larder_stats::Counter;

use super::batch::{Batch, ParsedCommand, Step};
use super::{Next, Session, State};
use crate::observe::prefix_stats::Access;
use crate::session::execute::Executor;
use crate::session::observer::key_of;
use crate::session::payload::payload_bytes;

impl Session {
    /// Same as [`Self::run_unsampled`], but also passes the key, the number of bytes and whether
    /// the command is a hit to the statistics that count one command in many.
    #[cold]
    pub(super) fn run_with_sampling(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
    ) -> Step {
        let (started, before) = (batch.out.len(), GetCounts::read(batch.executor));
        let step = self.run_unsampled(batch, parsed);
        if matches!(step, Step::Stop(_, Next::Disk)) {
            // The command runs again after the disk read, with the same chance to be sampled.
            batch.executor.sample(None, 0, Access::Other);
            return step;
        }
        let key = key_of(parsed.command);
        let mut bytes = parsed.consumed + batch.out.len().saturating_sub(started);
        if let Command::Store(store) = parsed.command {
            bytes += payload_bytes(store, parsed.frame);
        } else if let (State::Large(..), Some(key)) = (&self.state, key) {
            // The pieces of the value are sent later.
            let meta = batch.executor.cache().peek(key);
            bytes = bytes.max(meta.map_or(0, |meta| meta.value_bytes));
        }
        batch.executor.sample(key, bytes, before.access(GetCounts::read(batch.executor)));
        step
    }
}

/// The counters of gets of one thread. Only this thread writes them, so the difference of two
/// readings is the effect of one command.
#[derive(Clone, Copy)]
struct GetCounts {
    gets: u64,
    hits: u64,
}

impl GetCounts {
    fn read(executor: &Executor) -> Self {
        let read = |counter| executor.counters().read(counter);
        Self { gets: read(Counter::CmdGet), hits: read(Counter::GetHits) }
    }

    /// Returns the effect of the command that was executed between two readings.
    fn access(self, after: Self) -> Access {
        match (after.gets != self.gets, after.hits != self.hits) {
            (true, true) => Access::Hit,
            (true, false) => Access::Miss,
            (false, _) => Access::Other,
        }
    }
}
