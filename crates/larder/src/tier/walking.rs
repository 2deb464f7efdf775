//! Walks over the items of a cache with a disk tier.
//!
//! The disk of a store has every item, so a walk over its catalog (the index of the disk) shows all
//! items. A cache has items in memory, on the disk, or in both, and items move between them. The
//! walk therefore shows one part of the keys after another:
//!
//! ```text
//! part of the keys ─▶ items in memory ─▶ other items on the disk ─▶ next part
//! ```
//!
//! For each part of the keys, the walk shows the items in memory first. An item that eviction
//! removes from memory later was already shown. An item that it removed earlier is on the disk. An
//! item that returns to memory usually stays on the disk as well. The disk may drop it before the
//! walk reads it there, so [`PromotedDuringWalk`] records the items that return.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_engine::{Cursor, DumpFilter, Dumped, Engine, ThreadSlot};
use larder_item::Second;
use larder_tier::store::{self, PLACES, place_of};

use super::Tier;
use super::lookup::{DiskPages, DiskRead};

/// The walks over a cache that are in progress. Each operation that promotes an item reports it to
/// all of them.
#[derive(Debug, Default)]
pub(super) struct Walks {
    /// The number of walks, so that a promotion without a walk takes no lock.
    count: AtomicUsize,
    returns: Mutex<Vec<Arc<PromotedDuringWalk>>>,
}

/// The keys of items that return to memory before a walk has read them on the disk.
#[derive(Debug, Default)]
struct PromotedDuringWalk(Mutex<PromotedKeys>);

#[derive(Debug, Default)]
struct PromotedKeys {
    /// The places of the current part that the walk has not passed.
    places: Range<u64>,
    /// The keys with their places.
    keys: HashMap<Box<[u8]>, u64>,
}

impl Walks {
    fn returns(&self) -> MutexGuard<'_, Vec<Arc<PromotedDuringWalk>>> {
        self.returns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> Arc<PromotedDuringWalk> {
        let mut all = self.returns();
        let returns = Arc::<PromotedDuringWalk>::default();
        all.push(Arc::clone(&returns));
        self.count.store(all.len(), Release);
        returns
    }

    fn end(&self, returns: &Arc<PromotedDuringWalk>) {
        let mut all = self.returns();
        all.retain(|other| !Arc::ptr_eq(other, returns));
        self.count.store(all.len(), Release);
    }
}

impl PromotedDuringWalk {
    fn lock(&self) -> MutexGuard<'_, PromotedKeys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, places: Range<u64>) {
        *self.lock() = PromotedKeys { places, keys: HashMap::new() };
    }

    /// Takes the keys with places before `end`. If there are none, the walk advances to `end`.
    fn take(&self, end: u64) -> Vec<Box<[u8]>> {
        let mut returned = self.lock();
        let taken: Vec<_> =
            returned.keys.extract_if(|_, place| *place < end).map(|(key, _)| key).collect();
        if taken.is_empty() {
            returned.places.start = end;
        }
        taken
    }
}

/// A walk over the items of a cache with a disk tier.
#[derive(Debug)]
pub(crate) struct TierWalk {
    stage: Stage,
    /// The number of the next part of the keys, and the number of parts.
    part: u64,
    parts: u64,
    /// The identities of keys in this part that were shown from memory.
    shown: HashSet<u128>,
    /// The promoted keys; only for a cache.
    returns: Option<Arc<PromotedDuringWalk>>,
    /// True if items that are also in memory are skipped.
    is_disk_only: bool,
    unreadable: u64,
}

#[derive(Debug)]
enum Stage {
    /// The next part has not begun yet.
    Begin,
    /// Shows the items in memory from the cursor on, with keys at these places.
    Memory(Cursor, Range<u64>),
    /// Shows the items on the disk that were not shown from memory.
    Disk(Box<store::Walk>),
}

/// The next action of a walk.
#[derive(Debug)]
pub enum WalkStep {
    /// The walk needs these disk reads. The caller passes the results to the next step, in the same
    /// order.
    Reads(Vec<DiskRead>),
    /// The walk continues without a read.
    GoesOn,
    /// The walk has shown all items.
    Over,
}

/// The context of a step of a walk.
pub(crate) struct Visit<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) thread: &'a ThreadSlot,
    pub(crate) now: Second,
    /// The prefix of the keys to show.
    pub(crate) prefix: &'a [u8],
    pub(crate) out: &'a mut Vec<Dumped>,
}

impl TierWalk {
    /// Returns the number of records that the disk failed to return, or that were damaged.
    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Takes the keys of damaged records, if they are readable.
    pub(crate) fn take_unreadable_keys(&mut self) -> Vec<Box<[u8]>> {
        match &mut self.stage {
            Stage::Begin | Stage::Memory(..) => Vec::new(),
            Stage::Disk(walk) => walk.take_unreadable_keys(),
        }
    }

    /// Returns how much of the walk is done, from 0 to 1.
    pub(crate) fn progress(&self) -> f64 {
        match &self.stage {
            Stage::Disk(walk) => walk.progress(),
            Stage::Begin | Stage::Memory(..) => self.part as f64 / self.parts as f64,
        }
    }

    /// Returns the memory that the walk uses, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let of_stage = match &self.stage {
            Stage::Begin | Stage::Memory(..) => 0,
            Stage::Disk(walk) => walk.held_bytes(),
        };
        of_stage + self.shown.capacity() * (size_of::<u128>() + 1)
    }
}

impl Tier {
    /// Called before an item returns to memory.
    pub(super) fn note_return(&self, key: &[u8]) {
        if self.walks.count.load(Acquire) == 0 {
            return;
        }
        let place = place_of(self.store.identity(key));
        for returns in &*self.walks.returns() {
            let mut returned = returns.lock();
            if returned.places.contains(&place) && returned.keys.len() < RETURNS_MAX {
                returned.keys.insert(key.into(), place);
            }
        }
    }

    /// Begins a walk over all items.
    pub(crate) fn walk(&self, engine: &Engine) -> TierWalk {
        let (parts, returns) = match self.is_cache() {
            true => {
                let in_memory = engine.items_about() / MEMORY_KEYS;
                let on_disk = self.store.statistics().items / DISK_KEYS;
                ((in_memory.max(on_disk) + 1).min(PARTS_MAX), Some(self.walks.begin()))
            }
            false => (1, None),
        };
        let shown = HashSet::new();
        let (stage, is_disk_only) = (Stage::Begin, false);
        TierWalk { stage, part: 0, parts, shown, returns, is_disk_only, unreadable: 0 }
    }

    /// Begins a walk over about `entries` items on the disk, from a place on. Returns the walk and
    /// the place after it, or `None` if there are no more places.
    pub(crate) fn walk_slice(&self, place: u64, entries: usize) -> Option<(TierWalk, u64)> {
        let walk = (place < PLACES.end).then(|| self.store.walk_slice(place, entries))?;
        let (end, is_disk_only) = (walk.end(), self.is_cache());
        let (stage, returns, shown) = (Stage::Disk(Box::new(walk)), None, HashSet::new());
        let walk =
            TierWalk { stage, part: 1, parts: 1, shown, returns, is_disk_only, unreadable: 0 };
        Some((walk, end))
    }

    /// Ends a walk, so that operations no longer report promoted items to it.
    pub(crate) fn end_walk(&self, walk: &mut TierWalk) {
        walk.returns.take().inspect(|returns| self.walks.end(returns));
    }

    /// Continues a walk with the results of its reads.
    pub(crate) fn walk_on(
        &self,
        walk: &mut TierWalk,
        read: Vec<DiskPages>,
        visit: &mut Visit<'_>,
    ) -> WalkStep {
        self.clear_if_due(visit.engine, visit.now);
        match &mut walk.stage {
            Stage::Begin if walk.part == walk.parts => return WalkStep::Over,
            Stage::Begin => {
                let bound = |part| PLACES.end * part / walk.parts;
                let places = bound(walk.part)..bound(walk.part + 1);
                walk.part += 1;
                walk.shown.clear();
                walk.stage = match &walk.returns {
                    Some(returns) => {
                        returns.begin(places.clone());
                        Stage::Memory(Cursor::default(), places)
                    }
                    None => Stage::Disk(Box::new(self.store.walk(places))),
                };
            }
            Stage::Memory(..) => self.walk_memory(walk, visit),
            Stage::Disk(_) => return self.walk_disk(walk, read, visit),
        }
        WalkStep::GoesOn
    }

    fn walk_memory(&self, walk: &mut TierWalk, visit: &mut Visit<'_>) {
        let Stage::Memory(cursor, places) = &mut walk.stage else { return };
        let mut found = Vec::new();
        let filter = DumpFilter { key_prefix: visit.prefix };
        if !visit.engine.dump_group(visit.thread, cursor, &filter, visit.now, &mut found) {
            walk.stage = Stage::Disk(Box::new(self.store.walk(places.clone())));
            return;
        }
        visit.out.extend(found.into_iter().filter(|dumped| {
            let identity = self.store.identity(&dumped.key);
            places.contains(&place_of(identity)) && walk.shown.insert(identity)
        }));
    }

    fn walk_disk(
        &self,
        walk: &mut TierWalk,
        read: Vec<DiskPages>,
        visit: &mut Visit<'_>,
    ) -> WalkStep {
        let Stage::Disk(disk) = &mut walk.stage else { return WalkStep::GoesOn };
        let read = read.into_iter().map(DiskPages::into_read).collect();
        let (shown, is_disk_only, before) = (&walk.shown, walk.is_disk_only, disk.unreadable());
        let next = self.store.walk_on(disk, read, |identity, item| {
            if item.key.starts_with(visit.prefix) && !shown.contains(&identity) {
                // The metadata comes from memory if it has the item, because only memory has the
                // time of its last use.
                let meta = visit.engine.peek(item.key, visit.now);
                if is_disk_only && meta.is_some() {
                    return;
                }
                let meta = meta.unwrap_or_else(|| self.meta_of(item, visit.now));
                visit.out.push(Dumped { key: item.key.to_vec(), meta });
            }
        });
        let unreadable = disk.unreadable() - before;
        walk.unreadable += unreadable;
        self.unreadable.fetch_add(unreadable, Relaxed);
        match next {
            store::WalkStep::Reads(wanted) => {
                let read = |wanted| DiskRead::new(Arc::clone(&self.store), wanted);
                return WalkStep::Reads(wanted.into_iter().map(read).collect());
            }
            store::WalkStep::GoesOn => {}
            store::WalkStep::Slice => self.show_returned(walk, visit),
            store::WalkStep::Over => walk.stage = Stage::Begin,
        }
        WalkStep::GoesOn
    }

    /// Shows the items of a slice that returned to memory before the walk read them on the disk.
    fn show_returned(&self, walk: &mut TierWalk, visit: &mut Visit<'_>) {
        let TierWalk { stage: Stage::Disk(disk), returns: Some(returns), shown, .. } = walk else {
            return;
        };
        for key in returns.take(disk.slice().end) {
            let identity = self.store.identity(&key);
            let is_shown = shown.contains(&identity) || disk.has_shown(identity);
            if !is_shown && let Some(meta) = visit.engine.peek(&key, visit.now) {
                shown.insert(identity);
                if key.starts_with(visit.prefix) {
                    visit.out.push(Dumped { key: key.into(), meta });
                }
            }
            // While the keys were shown, other items may have returned to memory or been evicted
            // again.
            disk.list_again();
        }
    }
}

/// The approximate maximum of items per part in memory, and on the disk. A part needs a few MiB.
const MEMORY_KEYS: u64 = 64 << 10;
const DISK_KEYS: u64 = 256 << 10;

/// The maximum number of parts. The walk scans memory once per part.
const PARTS_MAX: u64 = 4096;

/// The maximum number of promoted keys per walk. A walk that pauses longer may miss more.
const RETURNS_MAX: usize = 32 << 10;
