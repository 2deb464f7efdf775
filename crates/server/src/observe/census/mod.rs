//! The census: a walk through the index, or a part of it, that counts items by size class.
//!
//! The walk is divided into slices, each of which takes a fraction of a millisecond of the worker
//! whose client requests it. All clients share the census: only one walk is in progress at a time,
//! and its result answers every request of the next second. In a small cache, a single slice covers
//! everything. Each request then takes a new census. But once the censuses of the current second
//! have cost as much as the census of a large cache, further requests of this second share the last
//! one.

mod stored;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use larder::{Cache, Sampled, Second};
use larder_options::Options;

use crate::clock::monotonic_us;
use crate::observe::classes::{Classes, ItemSize};
use stored::StoredItems;

/// The stored items of each class at one time, as memcached would report them.
#[derive(Debug)]
pub(crate) struct Census {
    /// The classes, by number from 0.
    classes: Vec<StoredItems>,
    /// Number of items of each size. The size is counted as in memcached, in bytes rounded up to
    /// 32.
    sizes: BTreeMap<u64, u64>,
    /// The cache's second in which the census was taken.
    second: Second,
    taken_us: i64,
    /// True if one slice counted all items.
    is_small: bool,
}

/// The last census of a server, and the current walk.
#[derive(Debug)]
pub(crate) struct Censuses {
    subject: Subject,
    shared: Mutex<Shared>,
}

/// The items to count, and how to count them.
#[derive(Debug)]
struct Subject {
    cache: Cache,
    classes: Arc<Classes>,
    /// Items that live no longer than this count as temporary.
    temporary_ttl_secs: Option<Second>,
    /// True if items are also counted by their size.
    tracks_sizes: bool,
}

#[derive(Debug, Default)]
struct Shared {
    latest: Option<Arc<Census>>,
    walk: Option<Walk>,
    /// The group at which the next walk begins, so that each walk visits another part of the index.
    next_group: u64,
    /// The start of the second in which censuses of a single slice are counted, and their number.
    small_since_us: i64,
    small_count: u32,
}

/// A walk in progress.
#[derive(Debug)]
struct Walk {
    classes: Vec<StoredItems>,
    sizes: BTreeMap<u64, u64>,
    /// The time of the last slice, on the monotonic clock.
    stepped_us: i64,
    /// The number of slices so far.
    slices: u32,
    /// The number of groups in the index at the start of the walk.
    groups: u64,
    /// The group of the index that the next slice visits first.
    next_group: u64,
    groups_seen: u64,
    items_seen: u64,
}

impl Censuses {
    /// Creates the state. No census has been taken yet.
    pub(crate) fn new(options: &Options, cache: Cache, classes: Arc<Classes>) -> Self {
        let subject = Subject {
            cache,
            classes,
            temporary_ttl_secs: options.tuning.temporary_ttl_secs,
            tracks_sizes: options.track_sizes,
        };
        Self { subject, shared: Mutex::default() }
    }

    /// Takes one slice of the census, unless a recent one exists. Returns the census once it is
    /// complete.
    pub(crate) fn step(&self) -> Option<Arc<Census>> {
        let mut shared = match self.shared.try_lock() {
            Ok(shared) => shared,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another worker is taking a slice.
            Err(TryLockError::WouldBlock) => return None,
        };
        shared.step(&self.subject)
    }

    /// Returns the census as far as it has been taken, scaled up to the whole cache, for clients
    /// that cannot wait for more slices. Takes at most one slice.
    pub(crate) fn at_once(&self) -> Arc<Census> {
        let subject = &self.subject;
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.walk.is_none()
            && let Some(census) = shared.step(subject)
        {
            return census;
        }
        match (&shared.walk, &shared.latest) {
            (Some(walk), _) => Arc::new(walk.project(subject)),
            (None, Some(latest)) => Arc::clone(latest),
            (None, None) => Arc::new(Walk::begin(subject, 0, monotonic_us()).project(subject)),
        }
    }
}

impl Census {
    /// Returns the items of a class.
    pub(crate) fn of(&self, class: u8) -> &StoredItems {
        &self.classes[usize::from(class)]
    }

    /// Returns the number of items of each size. The size is counted as in memcached, in bytes
    /// rounded up to 32.
    pub(crate) fn sizes(&self) -> &BTreeMap<u64, u64> {
        &self.sizes
    }

    /// Returns the cache's second in which the census was taken.
    pub(crate) fn second(&self) -> Second {
        self.second
    }
}

impl Shared {
    fn step(&mut self, subject: &Subject) -> Option<Arc<Census>> {
        let now_us = monotonic_us();
        let may_repeat = self.may_repeat(now_us);
        if let Some(latest) = &self.latest
            && now_us - latest.taken_us < SECOND_US
            && !(latest.is_small && may_repeat)
        {
            return self.latest.clone();
        }
        // A walk that no client has continued for a second was abandoned, and its counts are out of
        // date.
        let walk = match self.walk.take().filter(|walk| now_us - walk.stepped_us < SECOND_US) {
            Some(walk) => walk,
            None => Walk::begin(subject, self.next_group, now_us),
        };
        let walk = self.walk.insert(walk);
        walk.slice(subject);
        walk.stepped_us = now_us;
        self.next_group = walk.next_group;
        if !walk.is_complete() {
            return None;
        }
        let census = Arc::new(walk.project(subject));
        self.small_count += u32::from(census.is_small);
        (self.walk, self.latest) = (None, Some(Arc::clone(&census)));
        Some(census)
    }

    /// True if another small census may be taken within this second.
    fn may_repeat(&mut self, now_us: i64) -> bool {
        if now_us - self.small_since_us >= SECOND_US {
            (self.small_since_us, self.small_count) = (now_us, 0);
        }
        self.small_count < SMALL_MAX
    }
}

impl Walk {
    fn begin(subject: &Subject, first_group: u64, now_us: i64) -> Self {
        let groups = subject.cache.group_count();
        Self {
            classes: vec![StoredItems::default(); usize::from(subject.classes.last()) + 1],
            sizes: BTreeMap::new(),
            stepped_us: now_us,
            slices: 0,
            groups,
            next_group: if first_group < groups { first_group } else { 0 },
            groups_seen: 0,
            items_seen: 0,
        }
    }

    /// Visits as many of the next groups as fit the cost of a slice.
    fn slice(&mut self, subject: &Subject) {
        let mut cost = 0;
        while cost < SLICE_COST_MAX && !self.is_complete() {
            let groups = GROUPS_PER_LOOK.min(self.groups - self.next_group);
            let groups = groups.min(self.groups - self.groups_seen);
            let items_before = self.items_seen;
            let range = self.next_group..self.next_group + groups;
            subject.cache.sample_groups(range, |item| self.add(subject, item));
            self.next_group = (self.next_group + groups) % self.groups;
            self.groups_seen += groups;
            cost += groups + (self.items_seen - items_before) * COST_OF_ITEM;
        }
        self.slices += 1;
    }

    fn add(&mut self, subject: &Subject, item: &Sampled) {
        self.items_seen += 1;
        let size = ItemSize::new(item.key_bytes, &item.meta);
        let bytes = subject.classes.item_bytes(size);
        let stored = &mut self.classes[usize::from(subject.classes.class_of(size))];
        stored.add(item, bytes, subject.temporary_ttl_secs);
        let classes = &mut self.classes;
        subject.classes.chunks_of(size, |class| classes[usize::from(class)].add_chunk());
        if subject.tracks_sizes {
            *self.sizes.entry(bytes.next_multiple_of(SIZE_STEP_BYTES)).or_default() += 1;
        }
    }

    /// True if the walk has visited all items, or enough of them.
    fn is_complete(&self) -> bool {
        self.groups_seen >= self.groups
            || self.items_seen >= ITEMS_MAX
            || self.groups_seen >= GROUPS_MAX
    }

    /// Scales the sample up to the whole cache.
    fn project(&self, subject: &Subject) -> Census {
        let factor = match self.items_seen {
            0 => 1.0,
            _ if self.groups_seen >= self.groups => 1.0,
            // The number of items is known; the sample shows their distribution.
            seen => subject.cache.len_about() as f64 / seen as f64,
        };
        let projected = |count: u64| (count as f64 * factor).round() as u64;
        let mut classes = self.classes.clone();
        classes.iter_mut().for_each(|stored| stored.project(projected));
        Census {
            classes,
            sizes: self.sizes.iter().map(|(bytes, count)| (*bytes, projected(*count))).collect(),
            second: subject.cache.now(),
            taken_us: monotonic_us(),
            is_small: self.slices == 1 && self.groups_seen >= self.groups,
        }
    }
}

const SECOND_US: i64 = 1_000_000;

/// Approximate number of items to visit …
const ITEMS_MAX: u64 = 10_000;

/// … in at most this many groups, which is the size of the index of a new cache of 1 GiB.
const GROUPS_MAX: u64 = 1 << 16;

/// Approximate cost of a slice. The unit is the cost of visiting an empty group, about 10 ns.
const SLICE_COST_MAX: u64 = 1 << 14;

/// Cost of visiting an item, in the same unit.
const COST_OF_ITEM: u64 = 24;

/// Groups visited between two checks of a slice's cost.
const GROUPS_PER_LOOK: u64 = 32;

/// How many censuses of one slice may be taken in a second. Together they cost as much as the
/// census of a large cache.
const SMALL_MAX: u32 = 16;

/// The step of `stats sizes`.
const SIZE_STEP_BYTES: u64 = 32;

#[cfg(test)]
mod tests {
    use larder_options::Options;

    use super::*;

    fn censuses(items: u32) -> Censuses {
        let (options, _) = Options::from_map([("memory_limit", "64")]).unwrap();
        let cache = Cache::builder().memory_bytes(64 << 20).maintainer(true).open().unwrap();
        for number in 0..items {
            cache.set(number.to_le_bytes(), [0; 20], None).unwrap();
        }
        let classes = Arc::new(Classes::new(&options.slabs, options.cas));
        Censuses::new(&options, cache, classes)
    }

    fn count(census: &Census) -> u64 {
        census.classes.iter().map(StoredItems::number).sum()
    }

    #[test]
    fn a_small_cache_is_counted_anew_for_each_request_until_that_costs_too_much() {
        let censuses = censuses(0);
        for number in 0..u64::from(SMALL_MAX) {
            assert_eq!(count(&censuses.step().unwrap()), number);
            censuses.subject.cache.set(number.to_le_bytes(), "v", None).unwrap();
        }
        let last = censuses.step().unwrap();
        // Only within the same second. If the machine was paused for longer, this is a new census.
        let is_same = |shared: &Shared| shared.small_count == SMALL_MAX;
        if is_same(&censuses.shared.lock().unwrap()) {
            assert_eq!(count(&last), u64::from(SMALL_MAX) - 1);
        }
    }

    #[test]
    fn a_census_of_a_large_cache_is_taken_in_slices_and_shared() {
        let censuses = censuses(100_000);
        let (mut slices, mut seen) = (0, 0);
        let census = loop {
            let complete = censuses.step();
            slices += 1;
            if let Some(census) = complete {
                break census;
            }
            let shared = censuses.shared.lock().unwrap();
            let items_seen = shared.walk.as_ref().unwrap().items_seen;
            let bound = (SLICE_COST_MAX / COST_OF_ITEM) + GROUPS_PER_LOOK * 20;
            // A walk starts over if a second has passed between two slices.
            assert!(items_seen.saturating_sub(seen) <= bound, "{items_seen} after {seen}");
            seen = items_seen;
        };
        assert!(slices >= 5, "{slices}");
        assert!(count(&census).abs_diff(100_000) <= 100, "{}", count(&census));
        censuses.subject.cache.set("new", "v", None).unwrap();
        let next = censuses.step();
        if monotonic_us() - census.taken_us < SECOND_US {
            assert!(Arc::ptr_eq(&census, &next.unwrap()), "the next request shares it");
        }
    }

    #[test]
    fn a_client_that_cannot_wait_gets_the_result_of_one_slice() {
        let censuses = censuses(100_000);
        let census = censuses.at_once();
        assert!(count(&census).abs_diff(100_000) <= 100, "{}", count(&census));
        let shared = censuses.shared.lock().unwrap();
        assert!(shared.walk.as_ref().is_some_and(|walk| walk.slices == 1));
    }
}
