//! Reads: lookups that take no lock, and that start over if the item changes during the read.

use larder_item::{Meta, Second};
use larder_region::Sink;
use larder_stats::Counter;

use crate::engine::Engine;
use crate::index::find::Found;
use crate::index::life::Miss;
use crate::ops::large::value::LargeValue;
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::Wait;

/// The options of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// True if the read is counted: for eviction, and as [`Meta::fetched`].
    pub noted: bool,
    /// True if the caller wants the value. Otherwise the read only writes the response header, even
    /// for a large item, and never returns [`Read::Large`].
    pub value: bool,
}

impl ReadOptions {
    /// Returns the value and counts the read.
    pub const WHOLE: Self = Self { noted: true, value: true };
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self::WHOLE
    }
}

/// The outcome of a read.
#[derive(Debug)]
pub enum Read {
    /// The value is appended to the buffer.
    Hit(Meta),
    /// The value is in pieces, and only the response header was written. The caller reads the
    /// pieces and then closes the value.
    Large(Meta, LargeValue),
    /// The key has no live item.
    Miss(Miss),
}

impl Engine {
    /// Reads an item. First calls `head`, which appends the bytes that precede the value to `out`,
    /// and then appends the value. If the item changes during the read, `out` is reset and `head`
    /// is called again.
    ///
    /// Cost: one cache miss for the group, one or two for the record. It takes no lock. A hit
    /// writes to shared memory only for the first few reads of an item, and for the first read in
    /// about a minute.
    #[inline(never)] // Two nanoseconds faster than inlined in its caller.
    pub fn read<S: Sink>(
        &self,
        thread: &ThreadSlot,
        key: &[u8],
        now: Second,
        out: &mut S,
        head: impl FnMut(&mut S, &Meta),
    ) -> Read {
        self.read_in_full::<false, S>(thread, key, ReadOptions::WHOLE, now, out, head)
    }

    /// Same as [`Engine::read`], but with options. The returned metadata is consistent: if it has
    /// the cas token of a stale mark, it also has the mark. ([`Engine::read`] may return the new
    /// token a few nanoseconds before the mark.)
    #[inline(never)] // Same as above.
    #[allow(clippy::too_many_arguments, reason = "the hot path takes them in registers")]
    pub fn read_as<S: Sink>(
        &self,
        thread: &ThreadSlot,
        key: &[u8],
        reading: ReadOptions,
        now: Second,
        out: &mut S,
        head: impl FnMut(&mut S, &Meta),
    ) -> Read {
        self.read_in_full::<true, S>(thread, key, reading, now, out, head)
    }

    /// Implements [`Engine::read`] and [`Engine::read_as`]. It is generic, so that the code of the
    /// former, which is the common one, contains nothing that only the latter needs.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the hot path takes them in registers")]
    fn read_in_full<const TOGETHER: bool, S: Sink>(
        &self,
        thread: &ThreadSlot,
        key: &[u8],
        reading: ReadOptions,
        now: Second,
        out: &mut S,
        mut head: impl FnMut(&mut S, &Meta),
    ) -> Read {
        self.segments().flush_if_due(now);
        let hash = self.index().hash(key);
        let start = out.filled();
        let mut wait = Wait::default();
        loop {
            let Some(found) = self.index().find(hash, key) else {
                return Read::Miss(Miss::Absent);
            };
            // Functions that are not inlined receive a copy, so that the original stays in
            // registers.
            if let Some(miss) = self.index().death(&found, now) {
                if self.index().is_still_there(&found) {
                    return Read::Miss(self.unlink_expired(
                        &self.op(thread, now),
                        hash,
                        &{ found },
                        miss,
                    ));
                }
            } else if !reading.value {
                if let Some(meta) = self.meta_of(&{ found }, now) {
                    self.note_read_if(reading.noted, thread, hash, &found, now);
                    head(out, &meta);
                    return Read::Hit(meta);
                }
            } else if found.header.is_large() {
                // If a stopped process is emptying the segment, the value is read without pins.
                if let Some(mut large) = self.open_large(&{ found })
                    && (self.pin_large(&mut large) || self.peers().is_held_up(&wait))
                {
                    let (version, bytes) = (self.index().version(&found), large.value_bytes());
                    let meta = self.index().meta_as::<TOGETHER>(&found, version, bytes, now);
                    if self.index().is_still_there(&found) {
                        self.note_read_if(reading.noted, thread, hash, &found, now);
                        head(out, &meta);
                        return Read::Large(meta, large);
                    }
                    self.close_large(&mut large);
                }
            } else {
                let (version, bytes) = (self.index().version(&found), found.header.shown_bytes());
                let meta = self.index().meta_as::<TOGETHER>(&found, version, bytes, now);
                head(out, &meta);
                self.index().read_value(&found, out);
                if self.index().is_still_there(&found) && self.is_value_unchanged(&found, version) {
                    self.note_read_if(reading.noted, thread, hash, &found, now);
                    return Read::Hit(meta);
                }
                out.truncate(start);
            }
            self.bump(thread, Counter::ReadsRetried, 1);
            if self.wait_for_peers(&mut wait).is_err() {
                // A stopped process is changing this item.
                return Read::Miss(Miss::Absent);
            }
        }
    }

    #[inline]
    fn note_read_if(
        &self,
        noted: bool,
        thread: &ThreadSlot,
        hash: u64,
        found: &Found,
        now: Second,
    ) {
        if noted {
            self.index().note_read(found);
            if found.header.used().is_due(now) {
                self.index().note_use(thread, hash, &{ *found }, now);
            }
        }
    }

    /// Returns the metadata of a found item, or `None` if it changed during the call.
    pub(crate) fn meta_of(&self, found: &Found, now: Second) -> Option<Meta> {
        let (version, bytes) = (self.index().version(found), self.index().value_bytes(found));
        let meta = self.index().meta_as::<true>(found, version, bytes, now);
        (self.index().is_still_there(found) && self.is_value_unchanged(found, version))
            .then_some(meta)
    }

    /// Returns the metadata of an item without counting a read.
    ///
    /// Cost: same as [`Engine::read`], without the value.
    pub fn peek(&self, key: &[u8], now: Second) -> Option<Meta> {
        self.segments().flush_if_due(now);
        let hash = self.index().hash(key);
        let mut wait = Wait::default();
        loop {
            let found = self.index().find(hash, key)?;
            match self.index().death(&found, now) {
                None => {
                    if let Some(meta) = self.meta_of(&found, now) {
                        return Some(meta);
                    }
                }
                Some(_) if self.index().is_still_there(&found) => return None,
                Some(_) => {}
            }
            self.wait_for_peers(&mut wait).ok()?;
        }
    }

    /// Unlinks a dead record, unless the slot now names another record. A reservation stays and
    /// counts as absent.
    fn unlink_expired(&self, op: &Op<'_>, hash: u64, dead: &Found, miss: Miss) -> Miss {
        let is_kept = self.index().reserved_until(dead).is_some_and(|until| !until.is_past(op.now));
        if is_kept && !self.segments().is_flushed(dead.sequence) {
            return Miss::Absent;
        }
        if let Ok(locked) = self.index().lock(op, hash)
            && let Some(found) = self.index().find_location(&locked, hash, dead.slot)
            && found.sequence == dead.sequence
            && let Some(death) = self.index().death(&found, op.now)
        {
            self.index().remove_dead(op.thread, &found, death);
        }
        miss
    }

    /// Returns the complete value of a found record, or `None` if it changed during the call.
    pub(crate) fn value_of(&self, found: &Found) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        if found.header.is_large() {
            let mut large = self.open_large(found)?;
            while self.read_piece(&mut large, &mut value).ok()? {
                // In a damaged region, the table may name a piece any number of times.
                if value.len() > large.value_bytes().min(self.region().memory().bytes()) {
                    return None;
                }
            }
            return self.index().is_still_there(found).then_some(value);
        }
        let version = self.index().version(found);
        self.index().read_value(found, &mut value);
        (self.index().is_still_there(found) && self.is_value_unchanged(found, version))
            .then_some(value)
    }
}
