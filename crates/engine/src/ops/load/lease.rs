//! Leases: only one process at a time may do something for a key.
//!
//! A lease is stored like a reservation, which is the record that marks an absent key as being
//! loaded. The key of this record is made from the hash of the leased key, and is longer than the
//! key of any item. So a lease and an item of the same key do not affect each other. The value of
//! the reservation names the holder:
//!
//! ```text
//! 0  row of the peer u64 │ 8  its attachment u64 │ 16  number u64 │ 24  end in milliseconds u64
//! ```
//!
//! A thread takes a lease in the same way as a load reserves a key, if the lease is free. First it
//! unlinks a lease that has ended, because its time is over or its process has ended. The process
//! has ended if its row in the table of peers is free, if another process has the row, or if the
//! lock of the row is free.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use larder_item::{Deadline, KEY_BYTES_MAX, Second, check_key};

use crate::engine::Engine;
use crate::error::{StoreError, Stuck};
use crate::index::find::Found;
use crate::ops::load::RESERVATIONS_MAX;
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;

/// The key of a lease: the hash of the leased key, and zeros.
type Name = [u8; KEY_BYTES_MAX + 1];

/// A lease that this process has taken with [`Engine::lease`].
///
/// ```
/// use larder_engine::Lease;
/// assert_eq!(Lease::of_words([1, 2, 3, 4]).words(), [1, 2, 3, 0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    row: u64,
    attachment: u64,
    /// A number that no other lease of the process has.
    number: u64,
}

/// The start and the duration of a lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseTime {
    /// The current second of the cache.
    pub now: Second,
    /// The current time in milliseconds of a clock that all processes of the cache share.
    pub now_ms: u64,
    /// The duration of the lease in milliseconds.
    pub ms: u32,
}

impl Lease {
    /// Returns the lease as four numbers, for callers that cannot keep Rust values.
    pub const fn words(self) -> [u64; 4] {
        [self.row, self.attachment, self.number, 0]
    }

    /// Restores the result of [`Lease::words`]. Other numbers match no lease.
    pub const fn of_words([row, attachment, number, _]: [u64; 4]) -> Self {
        Self { row, attachment, number }
    }
}

/// The content of a lease's record.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Held {
    lease: Lease,
    end_ms: u64,
}

impl Held {
    fn bytes(self) -> [u8; 32] {
        let [row, attachment, number, _] = self.lease.words();
        let mut bytes = [0; 32];
        for (place, word) in bytes.chunks_exact_mut(8).zip([row, attachment, number, self.end_ms]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Parses the record of a lease. All bytes are accepted: in a damaged region they name no
    /// living holder.
    fn of_bytes(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let word = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            word.map_or(0, u64::from_le_bytes)
        };
        Self { lease: Lease::of_words([word(0), word(8), word(16), 0]), end_ms: word(24) }
    }
}

impl Engine {
    /// Takes the lease of a key for some time. Returns `None` if a living process, which may be
    /// this one, holds the lease.
    ///
    /// The lease ends with [`Engine::release_lease`], after its time, with the process, with a
    /// flush, or if its memory is needed. Items of the key do not affect it.
    ///
    /// Cost: same as a store. If the lease has a holder, also a delete and a system call.
    ///
    /// # Errors
    /// [`StoreError`], also if no memory is available for the lease.
    pub fn lease(
        &self,
        thread: &ThreadSlot,
        key: &[u8],
        time: LeaseTime,
    ) -> Result<Option<Lease>, StoreError> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        check_key(key)?;
        let op = &self.op(thread, time.now);
        self.segments().flush_if_due(time.now);
        let (row, attachment) = self.peers().attachment();
        let lease = Lease { row, attachment, number: NUMBER.fetch_add(1, Relaxed) };
        let held = Held { lease, end_ms: time.now_ms.saturating_add(time.ms.into()) };
        // The expiry sweep may remove the lease no earlier than a second after its end.
        let until = Deadline::after(time.now, u64::from(time.ms / 1000) + 2);
        let name = self.name_of_lease(key);
        for _ in 0..RESERVATIONS_MAX {
            match self.held_lease(op, &name, |_, held| held)? {
                Some(found) if found.lease == lease => return Ok(Some(lease)),
                Some(found) if self.has_ended(found, time.now_ms) => {
                    self.end_lease(op, &name, found.lease)?;
                }
                Some(_) => return Ok(None),
                None => {}
            }
            let hash = self.index().hash(&name);
            self.reserve_key(op, &name, hash, &held.bytes(), until)?;
        }
        // Other threads keep taking and releasing the lease.
        Ok(None)
    }

    /// Ends a lease. Returns false if the lease has already ended. Also returns false if another
    /// process took it: a forked child does not have the leases of its parent.
    ///
    /// Cost: same as a delete.
    ///
    /// # Errors
    /// [`Stuck`]; then the lease ends after its time.
    pub fn release_lease(
        &self,
        thread: &ThreadSlot,
        key: &[u8],
        lease: Lease,
    ) -> Result<bool, Stuck> {
        if (lease.row, lease.attachment) != self.peers().attachment() {
            return Ok(false);
        }
        self.end_lease(&self.op(thread, self.now()), &self.name_of_lease(key), lease)
    }

    fn name_of_lease(&self, key: &[u8]) -> Name {
        let mut name = [0; KEY_BYTES_MAX + 1];
        name[..8].copy_from_slice(&self.index().hash(key).to_le_bytes());
        name
    }

    fn has_ended(&self, held: Held, now_ms: u64) -> bool {
        held.end_ms <= now_ms || !self.peers().is_attached(held.lease.row, held.lease.attachment)
    }

    /// Removes a lease if it still exists.
    fn end_lease(&self, op: &Op<'_>, name: &Name, lease: Lease) -> Result<bool, Stuck> {
        let end = |found: &Found, held: Held| {
            let is_there = held.lease == lease;
            if is_there {
                self.index().unlink(op.thread, found);
            }
            is_there
        };
        Ok(self.held_lease(op, name, end)?.unwrap_or(false))
    }

    /// Passes the current lease to `look`, under the lock of its group. Returns `None` if the lease
    /// is free.
    fn held_lease<T>(
        &self,
        op: &Op<'_>,
        name: &Name,
        look: impl FnOnce(&Found, Held) -> T,
    ) -> Result<Option<T>, Stuck> {
        let hash = self.index().hash(name);
        let locked = self.index().lock(op, hash)?;
        let found = self.index().find_locked(&locked, hash, name);
        let found = found.filter(|found| {
            !self.segments().is_flushed(found.sequence)
                && self.index().reserved_until(found).is_some()
        });
        Ok(found.map(|found| {
            let mut value = Vec::new();
            self.index().read_value(&found, &mut value);
            look(&found, Held::of_bytes(&value))
        }))
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use larder_item::StoreMode;
    use larder_stats::Counter;

    use super::*;
    use crate::fixtures::{SMALL, two_peers};
    use crate::ops::request::StoreRequest;
    use crate::process::operation::Operation;

    const NOW: Second = 10;
    const MS: u64 = 5000;

    fn at(now_ms: u64) -> LeaseTime {
        LeaseTime { now: NOW, now_ms, ms: 1000 }
    }

    #[test]
    fn a_lease_is_held_until_it_is_released_or_its_time_is_over() {
        let (one, other) = two_peers();
        let (mine, theirs) = (one.register().unwrap(), other.register().unwrap());
        let first = one.lease(&mine, b"k", at(MS)).unwrap().unwrap();
        assert_eq!(other.lease(&theirs, b"k", at(MS)).unwrap(), None);
        assert_eq!(one.lease(&mine, b"k", at(MS)).unwrap(), None, "also for its own process");
        assert!(other.lease(&theirs, b"other", at(MS)).unwrap().is_some());
        assert!(
            !other.release_lease(&theirs, b"k", first).unwrap(),
            "it belongs to another process"
        );
        assert!(one.release_lease(&mine, b"k", first).unwrap());
        assert!(!one.release_lease(&mine, b"k", first).unwrap());
        let second = other.lease(&theirs, b"k", at(MS)).unwrap().unwrap();
        assert_eq!(one.lease(&mine, b"k", at(MS + 999)).unwrap(), None);
        let third = one.lease(&mine, b"k", at(MS + 1000)).unwrap().unwrap();
        assert!(!other.release_lease(&theirs, b"k", second).unwrap(), "it has ended");
        assert!(one.release_lease(&mine, b"k", third).unwrap());
        one.validate().unwrap();
    }

    #[test]
    fn a_lease_ends_with_its_process_and_not_with_the_next_one_in_its_row() {
        let (dead, engine) = two_peers();
        let (theirs, mine) = (dead.register().unwrap(), engine.register().unwrap());
        assert!(dead.lease(&theirs, b"k", at(MS)).unwrap().is_some());
        assert!(dead.lease(&theirs, b"l", at(MS)).unwrap().is_some());
        dead.peers().die();
        assert!(engine.lease(&mine, b"k", at(MS)).unwrap().is_some());
        // Another process now has the row.
        let row = dead.peers().row();
        engine.reclaimer().reap_peers();
        let before = dead.peers().attachment();
        assert_eq!(dead.peers().lock_a_row().unwrap(), row);
        dead.peers().take_row(row);
        assert!(!engine.peers().is_attached(before.0, before.1));
        assert!(engine.lease(&mine, b"l", at(MS)).unwrap().is_some());
    }

    #[test]
    fn a_lease_and_an_item_of_one_key_do_not_matter_to_each_other() {
        for keeps_versions in [false, true] {
            let config = crate::open::Config { keeps_versions, ..SMALL };
            let engine = Engine::create(&config).unwrap();
            let thread = engine.register().unwrap();
            let lease = engine.lease(&thread, b"k", at(MS)).unwrap().unwrap();
            assert_eq!(engine.peek_value(b"k", NOW), None);
            let request = StoreRequest::new(b"k", StoreMode::Add);
            engine.store(&Operation::new(&thread, NOW), &request, b"v").unwrap();
            engine.delete(&Operation::new(&thread, NOW), b"k", None).unwrap();
            let mut shown = 0;
            engine.dump(NOW, |_| {
                shown += 1;
                true
            });
            assert_eq!(shown, 0);
            assert_eq!(engine.lease(&thread, b"k", at(MS)).unwrap(), None);
            engine.validate().unwrap();
            assert!(engine.release_lease(&thread, b"k", lease).unwrap());
            assert_eq!(engine.items(), 0);
            engine.lease(&thread, b"k", at(MS)).unwrap().unwrap();
            engine.flush();
            engine.lease(&thread, b"k", at(MS)).unwrap().expect("a flush ends leases");
        }
    }

    /// A lease counts as expired for reads of items, but compaction must move it.
    #[test]
    fn compaction_ends_no_lease() {
        let engine = Engine::create(&SMALL).unwrap();
        let thread = engine.register().unwrap();
        let minute = LeaseTime { ms: 60_000, ..at(MS) };
        let lease = engine.lease(&thread, b"k", minute).unwrap().unwrap();
        for round in 0..20 {
            let key = |number: u32| [round, number].map(u32::to_le_bytes).concat();
            for number in 0..200 {
                let key = key(number);
                let request = StoreRequest::new(&key, StoreMode::Set);
                engine.store(&Operation::new(&thread, NOW), &request, &[7; 100]).unwrap();
            }
            for number in 0..200 {
                engine.delete(&Operation::new(&thread, NOW), &key(number), None).unwrap();
            }
            engine.maintain(&thread, NOW);
        }
        assert!(engine.counter(Counter::SegmentsCompacted) > 0, "nothing was compacted");
        assert_eq!(engine.counter(Counter::Evictions), 0);
        assert_eq!(engine.lease(&thread, b"k", minute).unwrap(), None);
        assert!(engine.release_lease(&thread, b"k", lease).unwrap());
        engine.validate().unwrap();
    }

    #[test]
    fn the_sweep_removes_a_lease_that_has_ended() {
        let engine = Engine::create(&SMALL).unwrap();
        let thread = engine.register().unwrap();
        engine.lease(&thread, b"k", at(MS)).unwrap().unwrap();
        engine.maintain(&thread, NOW + 1);
        assert_eq!(engine.items(), 1);
        for second in 0..400 {
            engine.maintain(&thread, NOW + 10 + second);
        }
        assert_eq!(engine.items(), 0);
    }
}
