//! Waiting: until records are durable, and until there is room for more.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use super::error::Refusal;
use super::head::Head;
use super::settings::Durability;
use super::{Durable, Store};
use crate::disk::Directory;
use crate::format::Address;

impl<D: Directory + 'static> Store<D> {
    /// What an answer about the key waits for; `None` if the durability asks for no waits.
    ///
    /// Cost: a hash of the key and a cache miss, with [`Durability::Sync`]; otherwise nothing.
    pub fn awaited(&self, key: &[u8]) -> Option<Address> {
        match self.shared.settings.durability {
            Durability::Sync => self.shared.awaited(self.shared.filed(key)),
            Durability::Interval(_) | Durability::Async => None,
        }
    }

    /// Whether a record is durable.
    pub fn durable(&self, at: Address) -> Durable {
        match self.shared.is_synced(at) {
            true => Durable::Yes,
            false if self.shared.has_failed.load(Acquire) => Durable::Failed,
            false => Durable::NotYet,
        }
    }

    /// Waits until a record is durable, or the log fails.
    pub fn wait_durable(&self, at: Address) -> Durable {
        let shared = &*self.shared;
        let mut head = shared.head();
        loop {
            match self.durable(at) {
                Durable::NotYet => head = shared.wait(&shared.progress, head, PATIENCE),
                durable => return durable,
            }
        }
    }

    /// Makes everything durable that was recorded so far.
    pub fn sync(&self) -> Durable {
        let end = self.shared.head().end();
        match end {
            None => Durable::Yes,
            Some(end) => {
                self.shared.is_urgent.store(true, Release);
                self.shared.work.notify_one();
                self.wait_durable(end)
            }
        }
    }

    /// Calls `wake` after each sync and after a failure, on a thread of the store.
    pub fn on_sync(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.shared.add_wake(Box::new(wake));
    }

    /// True if [`Store::wait_for_room`] would wait, as of the last change or sync.
    ///
    /// Cost: a load.
    pub fn is_crowded(&self) -> bool {
        self.shared.is_crowded()
    }

    /// Waits until the records that are not durable leave memory for more, at most until
    /// `deadline`. Call it before a change, with no lock held.
    ///
    /// Cost: a load if there is room.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`] at the deadline, [`Refusal::Failed`] after a failure.
    pub fn wait_for_room(&self, deadline: Instant) -> Result<(), Refusal> {
        if !self.is_crowded() {
            return Ok(());
        }
        let mut head = self.shared.head();
        while !self.shared.has_room(&head) {
            head = self.wait_in(head, deadline)?;
        }
        Ok(())
    }

    /// Waits after [`Refusal::Busy`] until something was synced or an extent was made ready, or for
    /// a tenth of a second, and at most until `deadline`.
    ///
    /// # Errors
    ///
    /// Those of [`Store::wait_for_room`].
    pub fn wait_for_progress(&self, deadline: Instant) -> Result<(), Refusal> {
        self.wait_in(self.shared.head(), deadline).map(drop)
    }

    fn wait_in<'h>(
        &self,
        head: MutexGuard<'h, Head>,
        deadline: Instant,
    ) -> Result<MutexGuard<'h, Head>, Refusal> {
        if self.shared.has_failed.load(Acquire) {
            return Err(Refusal::Failed);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Refusal::Busy);
        }
        self.shared.is_urgent.store(true, Release);
        self.shared.work.notify_one();
        self.shared.space.notify_one();
        Ok(self.shared.wait(&self.shared.progress, head, left.min(PATIENCE)))
    }
}

/// How long a thread waits before it looks again.
const PATIENCE: Duration = Duration::from_millis(100);
