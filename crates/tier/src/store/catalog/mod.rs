//! The catalog: the position of the newest record of each key.
//!
//! An entry is 8 bytes: a location (the extent and the offset of the record) and a *tag* of 21 bits
//! of the key's hash. It does not contain the key. Several keys may have the same tag, so only the
//! record on the disk shows to which key an entry belongs. The catalog has many *partitions*, each
//! with its own lock. Another part of the hash selects the partition. Partition and tag together
//! are the *place* of a key.
//!
//! The head lock orders all changes. The lock of a partition protects its readers.

use std::ops::Range;
mod table;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::disk::PAGE_BYTES;
use crate::format::{CompressedItem, Item, KeyHasher, Record};
use crate::log::Extent;
use table::{Entry, TAG_BITS, Table};

const PARTITION_BITS: u32 = 12;
const OFFSET_BITS: u32 = 19;
const EXTENT_BITS: u32 = 24;

const _: () = assert!(EXTENT_BITS + OFFSET_BITS + TAG_BITS == u64::BITS);

/// The maximum number of extents in a catalog: 64 TiB of log.
pub(crate) const EXTENTS_MAX: u32 = 1 << EXTENT_BITS;

/// The hash of a key. It consists of the partition, the tag, and the remaining bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyBits {
    /// The partition is in the lowest bits, the tag in the highest.
    low: u64,
    /// The bits that an entry does not contain.
    rest: u64,
}

impl KeyBits {
    /// Returns the hash with this identity of a key.
    pub(super) fn of(identity: u128) -> Self {
        Self { low: identity as u64, rest: (identity >> u64::BITS) as u64 }
    }

    /// Returns a hash with these parts.
    fn of_parts(partition: usize, tag: u32, rest: u64) -> Self {
        Self { low: partition as u64 | u64::from(tag) << (u64::BITS - TAG_BITS), rest }
    }

    /// Returns the identity of the key.
    pub(super) fn identity(self) -> u128 {
        u128::from(self.rest) << u64::BITS | u128::from(self.low)
    }

    fn partition(self) -> usize {
        (self.low & ((1 << PARTITION_BITS) - 1)) as usize
    }

    fn tag(self) -> u32 {
        (self.low >> (u64::BITS - TAG_BITS)) as u32
    }

    /// Computes the parts for the key of a record. Returns `None` for records that concern all
    /// keys.
    pub(super) fn of_record(hasher: &KeyHasher, record: &Record<'_>) -> Option<Self> {
        match *record {
            Record::Lost { place, key: [] } => Some(Self::of_place(place)),
            Record::Item(Item { key, .. })
            | Record::Compressed(CompressedItem { item: Item { key, .. }, .. })
            | Record::Tombstone { key }
            | Record::Lost { key, .. } => Some(Self::of(hasher.identity(key))),
            Record::Flush | Record::Delay { .. } | Record::Void { .. } => None,
        }
    }

    /// Computes the parts from the place of a lost item. The remaining bits of its hash are
    /// unknown.
    pub(super) fn of_place(place: u64) -> Self {
        let (partition, tag) = (place >> TAG_BITS, place & ((1 << TAG_BITS) - 1));
        let partition = partition as usize % (1 << PARTITION_BITS);
        Self::of_parts(partition, tag as u32, UNKNOWN)
    }

    /// Returns the place of the key in the order of a walk. Several keys may have the same place.
    pub(super) fn place(self) -> u64 {
        (self.partition() as u64) << TAG_BITS | u64::from(self.tag())
    }

    /// Returns the index of one of `words` words. Several keys share a word.
    pub(super) fn word(self, words: usize) -> usize {
        self.rest as usize % words
    }
}

/// The places of all keys in the order of a walk: by partition, and within a partition by tag.
pub const PLACES: Range<u64> = 0..1 << (PARTITION_BITS + TAG_BITS);

/// The current position of a record: an extent, and the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Location(u64);

impl Location {
    /// Converts the bits returned by [`Self::word`].
    pub(super) fn of_word(word: u64) -> Self {
        Self(word & ((1 << (u64::BITS - TAG_BITS)) - 1))
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    pub(super) fn new(extent: Extent, offset: usize) -> Self {
        Self(u64::from(extent) << OFFSET_BITS | (offset / 8) as u64)
    }

    pub(super) fn extent(self) -> Extent {
        (self.0 >> OFFSET_BITS) as Extent
    }

    pub(super) fn offset(self) -> usize {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as usize * 8
    }
}

/// A tag and a location. It is never 0, because offset 0 of an extent is its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u64);

impl Place {
    fn new(filed: KeyBits, location: Location) -> Self {
        Self(u64::from(filed.tag()) << (u64::BITS - TAG_BITS) | location.0)
    }

    fn location(self) -> Location {
        Location::of_word(self.0)
    }
}

impl Entry for Place {
    const EMPTY: Self = Self(0);

    fn tag(self) -> u32 {
        (self.0 >> (u64::BITS - TAG_BITS)) as u32
    }
}

/// The catalog of an open log.
#[derive(Debug)]
pub(super) struct Catalog {
    partitions: Box<[Mutex<Table<Place>>]>,
    items: AtomicU64,
    bytes: AtomicU64,
    bytes_max: u64,
}

impl Catalog {
    pub(super) fn new(bytes_max: u64) -> Self {
        let partitions = (0..1 << PARTITION_BITS).map(|_| Mutex::default()).collect();
        Self { partitions, items: AtomicU64::new(0), bytes: AtomicU64::new(0), bytes_max }
    }

    fn partition(&self, filed: KeyBits) -> MutexGuard<'_, Table<Place>> {
        self.table(filed.partition())
    }

    fn table(&self, partition: usize) -> MutexGuard<'_, Table<Place>> {
        self.partitions[partition].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of entries.
    pub(super) fn items(&self) -> u64 {
        self.items.load(Relaxed)
    }

    /// Returns the memory of the entries, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Appends the locations that may belong to the key.
    pub(super) fn candidates(&self, filed: KeyBits, into: &mut Vec<Location>) {
        into.extend(self.partition(filed).with_tag(filed.tag()).map(Place::location));
    }

    /// Returns two of the locations that may belong to the key.
    pub(super) fn first_two(&self, filed: KeyBits) -> [Option<Location>; 2] {
        let table = self.partition(filed);
        let mut locations = table.with_tag(filed.tag()).map(Place::location);
        [locations.next(), locations.next()]
    }

    /// True if the catalog has this location for the key or for another key with the same tag.
    pub(super) fn has(&self, filed: KeyBits, location: Location) -> bool {
        let place = Place::new(filed, location);
        self.partition(filed).with_tag(filed.tag()).any(|entry| entry == place)
    }

    /// True if another entry fits into the memory limit of the catalog.
    pub(super) fn has_room(&self, filed: KeyBits) -> bool {
        let growth = self.partition(filed).next_growth_bytes() as u64;
        growth == 0 || self.bytes() + growth <= self.bytes_max
    }

    /// Adds an entry.
    pub(super) fn insert(&self, filed: KeyBits, location: Location) {
        self.change(filed, |table| table.insert(Place::new(filed, location)));
    }

    /// Replaces the location of an entry. Returns false if the entry does not exist.
    pub(super) fn replace(&self, filed: KeyBits, old: Location, new: Location) -> bool {
        let (old, new) = (Place::new(filed, old), Place::new(filed, new));
        self.partition(filed).replace(old, new)
    }

    /// Removes an entry. Returns false if it does not exist.
    pub(super) fn remove(&self, filed: KeyBits, location: Location) -> bool {
        self.change(filed, |table| table.remove(Place::new(filed, location)))
    }

    /// Returns the number of partitions.
    pub(super) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Calls `show` with the entries of each partition, as words.
    pub(super) fn visit<E>(&self, mut show: impl FnMut(&[u64]) -> Result<(), E>) -> Result<(), E> {
        let mut words = Vec::new();
        for partition in &self.partitions {
            words.clear();
            let table = partition.lock().unwrap_or_else(PoisonError::into_inner);
            words.extend(table.iter().map(|place| place.0));
            drop(table);
            show(&words)?;
        }
        Ok(())
    }

    /// Reserves memory for the entries of a partition. They are then added in the order of their
    /// tags.
    pub(super) fn reserve(&self, partition: usize, entries: usize) {
        self.change(KeyBits::of_parts(partition, 0, 0), |table| table.reserve(entries));
    }

    /// Adds an entry from [`Self::visit`]. Returns false if it cannot be the location of a record.
    pub(super) fn restore(
        &self,
        partition: usize,
        word: u64,
        is_used: impl FnOnce(Extent) -> bool,
    ) -> bool {
        let place = Place(word);
        let location = place.location();
        // Page 0 of an extent is a segment header.
        let is_sound = location.offset() >= PAGE_BYTES && is_used(location.extent());
        if is_sound {
            self.insert(KeyBits::of_parts(partition, place.tag(), 0), location);
        }
        is_sound
    }

    /// Returns a range of places, beginning with `from`, that has about this many entries.
    ///
    /// Cost: one lock per partition.
    pub(super) fn next_places(&self, from: u64, entries_max: usize) -> Range<u64> {
        let (mut end, mut left) = (from, entries_max as u64);
        while end < PLACES.end {
            let (partition, tag) = (end >> TAG_BITS, end % (1 << TAG_BITS));
            let tags = (1 << TAG_BITS) - tag;
            let entries = self.table(partition as usize).len() as u64;
            // The tags are spread evenly.
            let entries = (entries * tags) >> TAG_BITS;
            if entries > left {
                // Splits a partition only if it is the first one of the range.
                let part = if end == from { (tags * left / entries).max(1) } else { 0 };
                end += part;
                break;
            }
            (end, left) = (end + tags, left - entries);
        }
        from..end
    }

    /// Calls `show` with the locations of the records at these places, under the lock of their
    /// partition.
    pub(super) fn list(&self, places: Range<u64>, mut show: impl FnMut(Location)) {
        let mut from = places.start;
        while from < places.end {
            let (partition, tag) = (from >> TAG_BITS, (from % (1 << TAG_BITS)) as u32);
            let end = ((partition + 1) << TAG_BITS).min(places.end);
            let tags = tag..tag + (end - from) as u32;
            self.table(partition as usize).with_tags(tags).map(Place::location).for_each(&mut show);
            from = end;
        }
    }

    /// Returns the entries for records in an extent.
    ///
    /// Cost: a scan of all entries.
    pub(super) fn of_extent(&self, extent: Extent) -> Vec<(KeyBits, Location)> {
        let mut all = Vec::new();
        for partition in 0..self.partitions.len() {
            let filed = |place: Place| KeyBits::of_parts(partition, place.tag(), 0);
            let table = self.table(partition);
            let entries = table.iter().map(|place| (filed(place), place.location()));
            all.extend(entries.filter(|(_, location)| location.extent() == extent));
        }
        all
    }

    /// Removes the entries for records in an extent. Returns their number.
    ///
    /// Cost: a scan of all entries.
    pub(super) fn remove_extent(&self, extent: Extent) -> u64 {
        let remove = |(filed, location)| u64::from(self.remove(filed, location));
        self.of_extent(extent).into_iter().map(remove).sum()
    }

    /// Removes all entries.
    pub(super) fn clear(&self) {
        for partition in &self.partitions {
            *partition.lock().unwrap_or_else(PoisonError::into_inner) = Table::default();
        }
        self.items.store(0, Relaxed);
        self.bytes.store(0, Relaxed);
    }

    fn change<T>(&self, filed: KeyBits, act: impl FnOnce(&mut Table<Place>) -> T) -> T {
        let mut table = self.partition(filed);
        let (len, bytes) = (table.len() as u64, table.bytes() as u64);
        let result = act(&mut table);
        // Wrapping addition also subtracts.
        self.items.fetch_add((table.len() as u64).wrapping_sub(len), Relaxed);
        self.bytes.fetch_add((table.bytes() as u64).wrapping_sub(bytes), Relaxed);
        result
    }
}

/// An entry with the remaining bits of the hash: 97 bits in total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DraftEntry {
    place: Place,
    rest: u64,
}

impl Entry for DraftEntry {
    const EMPTY: Self = Self { place: Place::EMPTY, rest: 0 };

    fn tag(self) -> u32 {
        self.place.tag()
    }
}

/// A catalog that is used while a log is read. It distinguishes keys without reading their records,
/// by 97 bits of a keyed hash. With 10⁹ items, the probability that two keys are confused is 10⁻¹¹.
#[derive(Debug)]
pub(super) struct DraftCatalog {
    partitions: Vec<Table<DraftEntry>>,
}

impl DraftCatalog {
    pub(super) fn new() -> Self {
        Self { partitions: (0..1 << PARTITION_BITS).map(|_| Table::default()).collect() }
    }

    /// Adds the newest record of a key. Returns the location of its previous record. A lost record
    /// with an unknown key counts as the previous record if it has the same place.
    pub(super) fn put(&mut self, filed: KeyBits, location: Location) -> Option<Location> {
        let new = DraftEntry { place: Place::new(filed, location), rest: filed.rest };
        let table = &mut self.partitions[filed.partition()];
        match Self::find(table, filed) {
            Some(old) => {
                table.replace(old, new);
                Some(old.place.location())
            }
            None => {
                table.insert(new);
                None
            }
        }
    }

    /// True if this location is the newest record of the key.
    pub(super) fn has(&self, filed: KeyBits, location: Location) -> bool {
        let found = Self::find(&self.partitions[filed.partition()], filed);
        found.is_some_and(|found| found.place.location() == location)
    }

    /// Removes a key. Returns the location of its record.
    pub(super) fn take(&mut self, filed: KeyBits) -> Option<Location> {
        let table = &mut self.partitions[filed.partition()];
        let old = Self::find(table, filed)?;
        table.remove(old);
        Some(old.place.location())
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Converts the draft into a catalog. It may exceed `bytes_max`; the catalog then accepts no
    /// new keys.
    pub(super) fn into_catalog(self, bytes_max: u64) -> Catalog {
        let catalog = Catalog::new(bytes_max);
        for (partition, table) in self.partitions.into_iter().enumerate() {
            catalog.reserve(partition, table.len());
            for entry in table.iter() {
                let filed = KeyBits::of_parts(partition, entry.tag(), entry.rest);
                catalog.insert(filed, entry.place.location());
            }
        }
        catalog
    }

    fn find(table: &Table<DraftEntry>, filed: KeyBits) -> Option<DraftEntry> {
        let with_rest = |rest| table.with_tag(filed.tag()).find(|entry| entry.rest == rest);
        with_rest(filed.rest).or_else(|| with_rest(UNKNOWN))
    }
}

/// The remaining hash bits of a lost item whose key is unknown.
const UNKNOWN: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_few_entries_list_each_entry_once() {
        let catalog = Catalog::new(1 << 20);
        // Some partitions have more entries than a slice; most are empty.
        for n in 0..30_000_u64 {
            let (partition, tag) = (5 + n as usize % 3, (n * 69) as u32);
            let filed = KeyBits::of_parts(partition, tag, 0);
            catalog.insert(filed, Location(n + 512));
        }
        let (mut from, mut found) = (0, Vec::new());
        while from < PLACES.end {
            let places = catalog.next_places(from, 1000);
            assert!(places.start == from && places.end > from, "{places:?}");
            let before = found.len();
            catalog.list(places.clone(), |location| found.push(location.0 - 512));
            assert!(found.len() - before < 1100, "{} entries", found.len() - before);
            from = places.end;
        }
        found.sort_unstable();
        assert_eq!(found, (0..30_000).collect::<Vec<_>>());
    }
}
