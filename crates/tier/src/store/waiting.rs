//! Waiting for durability, and for space for more records.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use super::appender::Appender;
use super::error::Refusal;
use super::settings::Durability;
use super::{Durable, Store};
use crate::disk::Directory;
use crate::format::Address;

impl<D: Directory + 'static> Store<D> {
    /// Returns the address that must be durable before a response about the key is sent. Returns
    /// `None` if the durability setting requires no wait.
    ///
    /// Cost: with [`Durability::Sync`], a hash of the key and a cache miss. Otherwise nothing.
    pub fn awaited(&self, key: &[u8]) -> Option<Address> {
        match self.shared.settings.durability {
            Durability::Sync => self.shared.awaited(self.shared.filed(key)),
            Durability::Interval(_) | Durability::Async => None,
        }
    }

    /// Returns whether a record is durable.
    pub fn durable(&self, at: Address) -> Durable {
        match self.shared.is_synced(at) {
            true => Durable::Yes,
            false if self.shared.has_failed.load(Acquire) => Durable::Failed,
            false => Durable::NotYet,
        }
    }

    /// Blocks until a record is durable, or the log fails.
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

    /// Makes all recorded changes durable.
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

    /// Registers a callback. A thread of the store calls it after each sync and after a failure.
    pub fn on_sync(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.shared.add_wake(Box::new(wake));
    }

    /// True if [`Store::wait_for_room`] would wait. The last change or sync updated this.
    ///
    /// Cost: a load.
    pub fn is_crowded(&self) -> bool {
        self.shared.is_crowded()
    }

    /// Blocks until the memory for records that are not durable has space, at most until
    /// `deadline`. The caller must do this before a change, without holding locks.
    ///
    /// Cost: a load if there is space.
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

    /// Blocks after [`Refusal::Busy`] until a sync ends, an extent becomes ready or a tenth of a
    /// second has passed, at most until `deadline`.
    ///
    /// # Errors
    ///
    /// Same as [`Store::wait_for_room`].
    pub fn wait_for_progress(&self, deadline: Instant) -> Result<(), Refusal> {
        self.wait_in(self.shared.head(), deadline).map(drop)
    }

    fn wait_in<'h>(
        &self,
        head: MutexGuard<'h, Appender>,
        deadline: Instant,
    ) -> Result<MutexGuard<'h, Appender>, Refusal> {
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

/// The interval at which a waiting thread checks the condition again.
const PATIENCE: Duration = Duration::from_millis(100);
