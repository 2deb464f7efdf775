//! A hash table of small entries that grows in steps of a quarter.
//!
//! It uses linear probing and is at most 4/5 full. The home slot of an entry depends only on its
//! tag, and home slots are in tag order, so growing the table takes one pass over the slots.

use std::iter;
use std::ops::Range;

/// Bits of a tag.
pub(super) const TAG_BITS: u32 = 21;

/// An entry of the table. [`Entry::EMPTY`] is never inserted.
pub(super) trait Entry: Copy + PartialEq {
    /// The value of an empty slot.
    const EMPTY: Self;

    /// The bits of the key's hash that the entry stores: at most [`TAG_BITS`].
    fn tag(self) -> u32;
}

/// The table.
#[derive(Debug)]
pub(super) struct Table<E> {
    slots: Vec<E>,
    len: usize,
}

impl<E> Default for Table<E> {
    fn default() -> Self {
        Self { slots: Vec::new(), len: 0 }
    }
}

impl<E: Entry> Table<E> {
    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory of the slots, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<E>()
    }

    /// Returns the memory that the next insertion allocates, in bytes: 0 unless the table grows.
    pub(super) fn next_growth_bytes(&self) -> usize {
        match self.is_full() {
            true => (self.grown_slots() - self.slots.len()) * size_of::<E>(),
            false => 0,
        }
    }

    /// Iterates over the entries with a tag, in arbitrary order.
    pub(super) fn with_tag(&self, tag: u32) -> impl Iterator<Item = E> {
        self.probe(tag).map(|(_, entry)| entry).filter(move |entry| entry.tag() == tag)
    }

    /// Iterates over the entries with one of these tags, in arbitrary order.
    ///
    /// Cost: proportional to the number of these entries.
    pub(super) fn with_tags(&self, tags: Range<u32>) -> impl Iterator<Item = E> {
        // These entries are between the home slot of the first tag and the first empty slot after
        // the home slot of the last tag.
        let first = self.home(tags.start);
        let homes = self.home(tags.end.saturating_sub(1)).saturating_sub(first);
        let slots = (0..self.slots.len()).map(move |n| (n, (first + n) % self.slots.len()));
        slots
            .map(|(n, at)| (n, self.slots[at]))
            .take_while(move |(n, entry)| *n <= homes || *entry != E::EMPTY)
            .map(|(_, entry)| entry)
            .filter(move |entry| *entry != E::EMPTY && tags.contains(&entry.tag()))
    }

    /// Iterates over all entries.
    pub(super) fn iter(&self) -> impl Iterator<Item = E> {
        self.slots.iter().copied().filter(|entry| *entry != E::EMPTY)
    }

    /// Reserves slots for this number of entries in total. This is required before inserting
    /// entries in tag order: in a table that is still small, they would all have the first few
    /// slots as their home.
    pub(super) fn reserve(&mut self, entries: usize) {
        let slots = entries * 5 / 4 + 2;
        if slots > self.slots.len() {
            self.resize(slots.max(SLOTS_MIN));
        }
    }

    /// Adds an entry.
    pub(super) fn insert(&mut self, entry: E) {
        if self.is_full() {
            self.resize(self.grown_slots());
        }
        self.put(entry);
        self.len += 1;
    }

    /// Replaces an entry with another one of the same tag. Returns false if `old` does not exist.
    pub(super) fn replace(&mut self, old: E, new: E) -> bool {
        debug_assert_eq!(old.tag(), new.tag(), "an entry stays in its probe sequence");
        let at = self.position(old);
        at.inspect(|at| self.slots[*at] = new).is_some()
    }

    /// Removes an entry. Returns false if it does not exist.
    pub(super) fn remove(&mut self, entry: E) -> bool {
        let Some(mut hole) = self.position(entry) else { return false };
        let mut at = hole;
        loop {
            at = (at + 1) % self.slots.len();
            let moved = self.slots[at];
            if moved == E::EMPTY {
                break;
            }
            // An entry moves into the hole unless its home slot is after the hole.
            let home = self.home(moved.tag());
            let stays =
                if hole <= at { hole < home && home <= at } else { hole < home || home <= at };
            if !stays {
                self.slots[hole] = moved;
                hole = at;
            }
        }
        self.slots[hole] = E::EMPTY;
        self.len -= 1;
        if self.slots.len() > SLOTS_MIN && self.len < self.slots.len() / 4 {
            self.resize((self.slots.len() / 2).max(SLOTS_MIN));
        }
        true
    }

    fn is_full(&self) -> bool {
        (self.len + 1) * 5 > self.slots.len() * 4
    }

    fn grown_slots(&self) -> usize {
        (self.slots.len() + self.slots.len() / 4).max(SLOTS_MIN)
    }

    fn home(&self, tag: u32) -> usize {
        (tag as usize * self.slots.len()) >> TAG_BITS
    }

    /// Iterates over the slots from the home slot of a tag up to the first empty slot.
    fn probe(&self, tag: u32) -> impl Iterator<Item = (usize, E)> {
        let mut next = self.home(tag);
        // A table with slots has an empty one, so this ends.
        iter::from_fn(move || {
            let (at, entry) = (next, *self.slots.get(next)?);
            next = if at + 1 == self.slots.len() { 0 } else { at + 1 };
            (entry != E::EMPTY).then_some((at, entry))
        })
        .fuse()
    }

    fn position(&self, entry: E) -> Option<usize> {
        self.probe(entry.tag()).find(|(_, found)| *found == entry).map(|(at, _)| at)
    }

    fn put(&mut self, entry: E) {
        let mut at = self.home(entry.tag());
        while self.slots[at] != E::EMPTY {
            at = (at + 1) % self.slots.len();
        }
        self.slots[at] = entry;
    }

    fn resize(&mut self, slots: usize) {
        let mut old = std::mem::take(&mut self.slots);
        self.slots = Vec::new();
        self.slots.reserve_exact(slots);
        self.slots.resize(slots, E::EMPTY);
        old.drain(..).filter(|entry| *entry != E::EMPTY).for_each(|entry| self.put(entry));
    }
}

/// The smallest number of slots of a table that is not empty.
const SLOTS_MIN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    impl Entry for u64 {
        const EMPTY: Self = 0;

        fn tag(self) -> u32 {
            (self >> (Self::BITS - TAG_BITS)) as u32
        }
    }

    fn entry(tag: u32, low: u64) -> u64 {
        u64::from(tag) << (u64::BITS - TAG_BITS) | low
    }

    #[test]
    fn it_holds_what_a_map_holds_while_entries_come_and_go() {
        // Few tags, some at the end: probe sequences are long and wrap around.
        let tags: Vec<u32> =
            (0..40).map(|n| n * 7).chain((1 << TAG_BITS) - 9..1 << TAG_BITS).collect();
        let (mut table, mut model) = (Table::<u64>::default(), HashMap::<u64, u32>::new());
        let mut random = fastrand::Rng::with_seed(7);
        for step in 0..40_000_u64 {
            let tag = tags[random.usize(..tags.len())];
            let grows = step / 4_000 % 2 == 0;
            if random.u8(..10) < if grows { 7 } else { 3 } {
                let new = entry(tag, step + 1);
                table.insert(new);
                model.insert(new, tag);
                continue;
            }
            let first = table.with_tag(tag).next();
            if let Some(old) = first {
                assert!(model.remove(&old).is_some(), "step {step}: {old:x} was removed before");
                if random.bool() {
                    assert!(table.remove(old), "step {step}: {old:x} is there");
                } else {
                    assert!(table.replace(old, entry(tag, step + 1)), "step {step}");
                    model.insert(entry(tag, step + 1), tag);
                }
            }
            assert_eq!(table.len(), model.len(), "step {step}");
        }
        for tag in tags {
            let mut found: Vec<u64> = table.with_tag(tag).collect();
            let mut expected: Vec<u64> =
                model.iter().filter(|(_, of)| **of == tag).map(|(entry, _)| *entry).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "the entries of tag {tag}");
        }
        assert_eq!(table.iter().count(), model.len());
        for tags in [0..1, 0..1 << TAG_BITS, 100..200, (1 << TAG_BITS) - 5..1 << TAG_BITS, 7..7] {
            let mut found: Vec<u64> = table.with_tags(tags.clone()).collect();
            let mut expected: Vec<u64> =
                table.iter().filter(|entry| tags.contains(&entry.tag())).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "the entries of the tags {tags:?}");
        }
    }

    #[test]
    fn entries_in_the_order_of_their_tags_find_their_homes_in_a_table_with_room() {
        let mut table = Table::<u64>::default();
        table.reserve(2000);
        let bytes = table.bytes();
        (0..2000).for_each(|n| table.insert(entry(n << 10, u64::from(n) + 1)));
        assert_eq!(table.bytes(), bytes, "the table grew");
        assert!(bytes <= 2000 * 8 * 5 / 4 + 100, "{bytes} bytes for 2000 entries");
        let distance = |(at, of): (usize, &u64)| at.saturating_sub(table.home(of.tag()));
        let used = table.slots.iter().enumerate().filter(|(_, of)| **of != u64::EMPTY);
        let farthest = used.map(distance).max();
        assert!(farthest < Some(10), "{farthest:?} slots from its home");
    }

    #[test]
    fn a_grown_table_is_more_than_three_fifths_full_and_an_emptied_one_is_small() {
        let mut table = Table::<u64>::default();
        let all: Vec<u64> =
            (1..=20_000).map(|n: u32| entry(n.wrapping_mul(0x9E37) >> 11, n.into())).collect();
        for (n, new) in all.iter().enumerate() {
            table.insert(*new);
            let used = (n + 1) * size_of::<u64>();
            assert!(
                n < 100 || used * 100 >= table.bytes() * 63,
                "{n} entries in {} bytes",
                table.bytes()
            );
        }
        for old in &all {
            assert!(table.remove(*old));
        }
        assert_eq!(table.bytes(), SLOTS_MIN * size_of::<u64>());
    }
}
