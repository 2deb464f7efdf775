//! Reading items.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::{Meta, Second};
use larder_stats::Counter;

use crate::find::Found;
use crate::large::LargeValue;
use crate::{Engine, Seat};

/// Why there was nothing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// No item has the key.
    Absent,
    /// The item's deadline has passed.
    Expired,
    /// The item was stored before the last flush.
    Flushed,
}

/// The outcome of a read.
#[derive(Debug)]
pub enum Read {
    /// The value has been appended to the buffer.
    Hit(Meta),
    /// The value is kept in pieces: only the head has been written, take the pieces one by one.
    Large(Meta, LargeValue),
    /// There is no such item.
    Miss(Miss),
}

impl Engine {
    /// Reads an item. `head` appends to `out` whatever shall stand before the value; it is called again,
    /// with `out` as it was, where the item changed under the read. Then the value is appended.
    ///
    /// Cost: one cache miss for the group, one or two for the record; no lock and, on a hit, no store to
    /// shared memory.
    pub fn read(
        &self,
        seat: &Seat,
        key: &[u8],
        now: Second,
        out: &mut Vec<u8>,
        mut head: impl FnMut(&mut Vec<u8>, &Meta),
    ) -> Read {
        self.flush_if_due(now);
        let hash = self.hash(key);
        let start = out.len();
        loop {
            let Some(found) = self.find(hash, key) else {
                return Read::Miss(Miss::Absent);
            };
            if let Some(miss) = self.death(&found, now) {
                if self.is_still_there(&found) {
                    self.bury(seat, hash, &found, now);
                    return Read::Miss(miss);
                }
            } else if found.header.is_large() {
                if let Some(large) = self.open_large(&found) {
                    let meta = self.meta(&found, large.value_bytes());
                    if self.is_still_there(&found) {
                        head(out, &meta);
                        return Read::Large(meta, large);
                    }
                }
            } else {
                let meta = self.meta(&found, found.header.value_bytes());
                head(out, &meta);
                let value_at = found.record_at + found.header.value_at();
                self.memory.read(value_at, meta.value_bytes, out);
                if self.is_still_there(&found) {
                    return Read::Hit(meta);
                }
                out.truncate(start);
            }
            self.count(seat, Counter::ReadsRetried, 1);
        }
    }

    pub(crate) fn meta(&self, found: &Found, value_bytes: usize) -> Meta {
        Meta {
            flags: found.header.flags(&self.memory, found.record_at),
            deadline: self.deadline(found),
            cas: self.version(found),
            value_bytes,
        }
    }

    /// Unlinks a record that was found dead, unless something else is there by now.
    fn bury(&self, seat: &Seat, hash: u64, dead: &Found, now: Second) {
        let locked = self.lock(seat, hash);
        if let Some(found) = self.find_location(&locked, hash, dead.slot)
            && found.sequence == dead.sequence
            && self.death(&found, now).is_some()
        {
            self.unlink(seat, &found);
            self.count(seat, Counter::Reclaimed, 1);
        }
    }

    /// Reads the whole value of a found record; none where it changed meanwhile.
    pub(crate) fn value_of(&self, found: &Found) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        if found.header.is_large() {
            let mut large = self.open_large(found)?;
            while self.read_piece(&mut large, &mut value).ok()? {}
        } else {
            let value_at = found.record_at + found.header.value_at();
            self.memory.read(value_at, found.header.value_bytes(), &mut value);
        }
        self.is_still_there(found).then_some(value)
    }

    /// The current second by the region's clock.
    pub fn now(&self) -> Second {
        self.memory.half(larder_region::layout::global::CLOCK).load(Relaxed)
    }

    /// Moves the region's clock forward; it never goes back.
    pub fn tick(&self, now: Second) {
        self.memory.half(larder_region::layout::global::CLOCK).fetch_max(now, Relaxed);
    }
}
