//! Walks over the stored items, one group of the index at a time.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::{KEY_BYTES_MAX, Meta, Second};
use larder_region::layout::{GROUP_BYTES, global};

use crate::engine::Engine;
use crate::index::cursor::Cursor;
use crate::index::find::Found;
use crate::index::group::slots_of;
use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::Wait;
use crate::segment::header::begun;
use crate::segment::stream::Pool;

/// An item of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dumped {
    /// The item's key.
    pub key: Vec<u8>,
    /// Its metadata.
    pub meta: Meta,
}

/// Selects the items of a walk. The default selects all live items.
#[derive(Clone, Copy, Debug, Default)]
pub struct DumpFilter<'a> {
    /// The prefix that the keys must have.
    pub key_prefix: &'a [u8],
}

/// An item of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The length of its key in bytes.
    pub key_bytes: usize,
    /// Its metadata.
    pub meta: Meta,
    /// The second in which the use of the item's segment started. The item was stored, or last
    /// survived an eviction, in this second or later.
    pub placed: Second,
    /// True if the item is in the small pool, which new items pass through; false for the main
    /// pool.
    pub is_new: bool,
    /// True if it was read since it was stored or last survived an eviction.
    pub is_read: bool,
}

impl Engine {
    /// Appends the items in one group that match `filter` to `out`, and moves the cursor to the
    /// next group. Returns false at the end of the walk.
    ///
    /// The walk shows each item that exists throughout the walk at least once. An item changes its
    /// place in the index only when its group is split, and then moves to a later group; relocation
    /// changes the record that a slot names, not the slot. An item that a split moves during the
    /// walk may be shown twice. An item that is stored or removed during the walk may be shown
    /// once, twice or not at all.
    ///
    /// If a stopped process holds a group, the walk skips the group after a second. After three
    /// such waits the walk waits no longer, because then another program must have overwritten the
    /// region.
    ///
    /// Cost: holds the lock of the group while it copies the keys, as a store does; holds nothing
    /// between steps.
    pub fn dump_group(
        &self,
        thread: &ThreadSlot,
        cursor: &mut Cursor,
        filter: &DumpFilter<'_>,
        now: Second,
        out: &mut Vec<Dumped>,
    ) -> bool {
        self.visit_group(thread, cursor, filter, now, |found| out.push(self.dumped(found, now)))
    }

    /// Passes the items of one group to `visit`, under the lock of the group: see
    /// [`Engine::dump_group`].
    pub(crate) fn visit_group(
        &self,
        thread: &ThreadSlot,
        cursor: &mut Cursor,
        filter: &DumpFilter<'_>,
        now: Second,
        mut visit: impl FnMut(&Found),
    ) -> bool {
        self.segments().flush_if_due(now);
        let group = cursor.group;
        // Loaded at each step because the index may have grown. A split of a group that the walk
        // has passed is either finished or starts later, because the walk held the group's lock.
        if group >= self.index().groups() {
            return false;
        }
        let locked = self.index().lock_walked_group(&self.op(thread, now), group);
        let linked = self.index().linked(group).take_while(|_| locked.is_ok());
        linked.filter(|found| self.is_shown(found, filter, now)).for_each(|found| visit(&found));
        drop(locked);
        cursor.group += 1;
        self.prefetch_groups_from(cursor.group);
        true
    }

    fn is_shown(&self, found: &Found, filter: &DumpFilter<'_>, now: Second) -> bool {
        let prefix = filter.key_prefix;
        self.index().death(found, now).is_none()
            && found.header.key_bytes() >= prefix.len()
            && self.region().memory().equals(found.record_at + found.header.key_at(), prefix)
    }

    /// Prefetches the memory that the next steps of a walk will read.
    pub(crate) fn prefetch_groups_from(&self, group: u64) {
        let groups = self.index().groups();
        if group < groups {
            let slots = slots_of(self.index().group_at(group), 0).map(|at| self.index().slot(at));
            slots.filter(|slot| !slot.is_empty()).for_each(|slot| self.index().prefetch_slot(slot));
        }
        if group + 1 < groups {
            let group_at = self.index().group_at(group + 1);
            self.region().memory().prefetch(group_at);
            self.region().memory().prefetch(group_at + GROUP_BYTES / 2);
        }
    }

    /// Returns an item's value and metadata without counting a read. A walk over all items does not
    /// show which items clients want.
    pub fn peek_value(&self, key: &[u8], now: Second) -> Option<(Vec<u8>, Meta)> {
        self.segments().flush_if_due(now);
        let hash = self.index().hash(key);
        let mut wait = Wait::default();
        loop {
            let found = self.index().find(hash, key)?;
            if self.index().death(&found, now).is_some() && self.index().is_still_there(&found) {
                return None;
            }
            let version = self.index().version(&found);
            let mut meta = self.index().meta_as::<true>(&found, version, 0, now);
            if let Some(value) = self.value_of(&found)
                && self.is_value_unchanged(&found, version)
            {
                meta.value_bytes = value.len();
                return Some((value, meta));
            }
            self.wait_for_peers(&mut wait).ok()?;
        }
    }

    fn dumped(&self, found: &Found, now: Second) -> Dumped {
        Dumped {
            key: self.index().key(found),
            meta: self.index().meta(found, self.index().value_bytes(found), now),
        }
    }

    /// Passes live items to `visit` until it returns false, in no particular order. An item that is
    /// stored or moved during the call may be shown or not, or shown twice.
    pub fn dump(&self, now: Second, mut visit: impl FnMut(Dumped) -> bool) {
        for group in 0..self.index().groups() {
            for found in self.index().linked(group) {
                if let Some(dumped) = self.look_at(&found, now, |engine| engine.dumped(&found, now))
                    && !visit(dumped)
                {
                    return;
                }
            }
        }
    }

    /// Passes the live items in at most `groups_max` groups, spread evenly over the index, to
    /// `visit`. Returns the factor that scales a count of these items to all items; 1 if all groups
    /// were visited. Items that change during the call may be shown or not.
    ///
    /// Cost: two cache misses a group and one an item; a group has about ten.
    pub fn sample(&self, groups_max: usize, now: Second, mut visit: impl FnMut(&Sampled)) -> f64 {
        self.segments().flush_if_due(now);
        let groups = self.index().groups();
        let shown = groups.min(groups_max.max(1) as u64);
        // Computed in 128 bits because both numbers may be large.
        let group_in = |turn| (u128::from(turn) * u128::from(groups) / u128::from(shown)) as u64;
        for turn in 0..shown {
            self.prefetch_groups_from(group_in(turn + 1));
            self.sample_group(group_in(turn), now, &mut visit);
        }
        groups as f64 / shown as f64
    }

    /// Returns the number of groups of the index. It never decreases.
    pub fn group_count(&self) -> u64 {
        self.index().groups()
    }

    /// Returns the approximate number of items: each thread that stores may have a few dozen items
    /// that are not counted yet.
    ///
    /// Cost: one load.
    pub fn items_about(&self) -> u64 {
        // The sum of unreported changes may be negative.
        self.region().word(global::ITEMS).load(Relaxed).cast_signed().max(0).unsigned_abs()
    }

    /// Passes the live items in some groups of the index to `visit`. A few consecutive groups are a
    /// sample of all items, because the hash spreads keys over the groups. Items that change during
    /// the call may be shown or not.
    ///
    /// Cost: two cache misses a group and one an item; a group has about ten.
    pub fn sample_groups(
        &self,
        groups: std::ops::Range<u64>,
        now: Second,
        mut visit: impl FnMut(&Sampled),
    ) {
        self.segments().flush_if_due(now);
        for group in groups.start..groups.end.min(self.index().groups()) {
            self.prefetch_groups_from(group + 1);
            self.sample_group(group, now, &mut visit);
        }
    }

    /// Same as [`Engine::sample_groups`], but also passes the key of each item.
    ///
    /// Cost: that of [`Engine::sample_groups`], a copy of each key, and one allocation a call.
    pub fn sample_keys(
        &self,
        groups: std::ops::Range<u64>,
        now: Second,
        mut visit: impl FnMut(&[u8], &Sampled),
    ) {
        self.segments().flush_if_due(now);
        let mut key = Vec::with_capacity(KEY_BYTES_MAX);
        for group in groups.start..groups.end.min(self.index().groups()) {
            self.prefetch_groups_from(group + 1);
            for found in self.index().linked(group) {
                key.clear();
                let sampled = self.look_at(&found, now, |engine| {
                    engine.index().read_key(&found, &mut key);
                    engine.sampled(&found, now)
                });
                // The copied key is valid only if the item did not change during the copy.
                if let Some(sampled) = sampled {
                    visit(&key, &sampled);
                }
            }
        }
    }

    fn sample_group(&self, group: u64, now: Second, visit: &mut impl FnMut(&Sampled)) {
        for found in self.index().linked(group) {
            let sampled = self.look_at(&found, now, |engine| engine.sampled(&found, now));
            if let Some(sampled) = sampled {
                visit(&sampled);
            }
        }
    }

    /// Returns an item in the form of samples. The caller checks that the item did not change.
    fn sampled(&self, found: &Found, now: Second) -> Sampled {
        Sampled {
            key_bytes: found.header.key_bytes(),
            meta: self.index().meta(found, self.index().value_bytes(found), now),
            placed: begun(found.sequence),
            is_new: self.segments().stream(found.slot.segment()).pool == Pool::Small,
            is_read: found.slot.freq() > 0,
        }
    }

    /// Calls `look` for an item that was found without a lock. Returns `None` if the item is dead
    /// or changed during the call.
    pub(crate) fn look_at<T>(
        &self,
        found: &Found,
        now: Second,
        look: impl FnOnce(&Self) -> T,
    ) -> Option<T> {
        if found.sequence == 0 || self.index().death(found, now).is_some() {
            return None;
        }
        let version = self.index().version(found);
        let seen = look(self);
        let unchanged = self.is_value_unchanged(found, version)
            && found.slot.is_of(found.sequence)
            && self.index().slot(found.slot_at).is_same(found.slot)
            && self.index().is_still_there(found);
        unchanged.then_some(seen)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use larder_item::StoreMode;

    use super::*;
    use crate::fixtures::SMALL;
    use crate::open::Config;
    use crate::ops::request::StoreRequest;
    use crate::process::operation::Operation;
    use crate::segment::slot::Slot;

    #[test]
    fn a_walk_waits_for_a_group_that_is_being_split() {
        let engine = Engine::create(&Config { keeps_versions: false, ..SMALL }).unwrap();
        let mover = engine.register().unwrap();
        let request = StoreRequest::new(b"k", StoreMode::Set);
        engine.store(&Operation::new(&mover, 10), &request, b"v").unwrap();
        let hash = engine.index().hash(b"k");
        let found = engine.index().find(hash, b"k").unwrap();
        // Simulates the middle of a split: the slot was removed from one place and not yet stored
        // in the other.
        let locked = engine.index().lock(&engine.op(&mover, 10), hash).unwrap();
        engine.index().set_slot(found.slot_at, Slot::EMPTY);
        thread::scope(|scope| {
            let walk = scope.spawn(|| {
                let walker = engine.register().unwrap();
                let (mut cursor, mut shown) = (Cursor::default(), Vec::new());
                while engine.dump_group(
                    &walker,
                    &mut cursor,
                    &DumpFilter::default(),
                    10,
                    &mut shown,
                ) {}
                shown
            });
            thread::sleep(Duration::from_millis(50));
            engine.index().set_slot(found.slot_at, found.slot);
            drop(locked);
            assert_eq!(walk.join().unwrap()[0].key, b"k");
        });
    }
}
