//! A set of segments, in shared memory.
//!
//! A bit is set if the segment is in the set. Two upper levels have a bit for each word of the
//! level below, which is set if the word is not 0. A search for a member loads one word of each
//! level, whatever the number of segments.
//!
//! A bit is only a hint. A thread that is killed between two levels leaves a member that no search
//! finds until another thread inserts it again; see [`super`].

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use larder_region::layout::{SET_LEVELS, set_words};

use crate::region::Region;

const TOP: usize = SET_LEVELS - 1;

/// A set of segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentSet<'a> {
    region: &'a Region,
    /// The offset of the lowest level.
    at: usize,
    /// The number of words in each level.
    words: [usize; SET_LEVELS],
}

impl<'a> SegmentSet<'a> {
    /// Returns the set at an offset.
    #[inline]
    pub(crate) fn new(region: &'a Region, at: usize) -> Self {
        Self { region, at, words: set_words(region.layout().segments) }
    }

    fn word(&self, level: usize, word: usize) -> &'a AtomicU64 {
        let below: usize = self.words[..level].iter().sum();
        self.region.word(self.at + 8 * (below + word))
    }

    #[inline]
    pub(crate) fn contains(&self, segment: u32) -> bool {
        let segment = segment as usize;
        self.word(0, segment / 64).load(SeqCst) >> (segment % 64) & 1 != 0
    }

    /// Adds a segment. Also restores bits of the upper levels that a killed thread did not set.
    pub(crate) fn insert(&self, segment: u32) {
        self.raise(0, segment as usize);
    }

    /// Removes a segment.
    pub(crate) fn remove(&self, segment: u32) {
        let mut index = segment as usize;
        for level in 0..SET_LEVELS {
            let left = self.word(level, index / 64).fetch_and(!(1 << (index % 64)), SeqCst);
            if level > 0 && self.word(level - 1, index).load(SeqCst) != 0 {
                // Another thread has inserted a segment in the word below. It may have found this
                // bit still set, and then did not set it. So this thread sets it again.
                return self.raise(level, index);
            }
            if left & !(1 << (index % 64)) != 0 {
                return;
            }
            index /= 64;
        }
    }

    /// Sets the bit of an index in a level, and the bits above it.
    fn raise(&self, lowest: usize, mut index: usize) {
        for level in lowest..SET_LEVELS {
            let (word, bit) = (self.word(level, index / 64), 1 << (index % 64));
            // The bits of the upper levels are usually set, and a load lets all threads share their
            // cache lines.
            if word.load(SeqCst) & bit == 0 {
                word.fetch_or(bit, SeqCst);
            }
            index /= 64;
        }
    }

    /// Returns the first member at or after a segment.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        let segment = self.next_in(0, from as usize)?;
        // In a damaged region, bits may name segments that do not exist.
        (segment < self.region.layout().segments).then_some(segment as u32)
    }

    /// Returns the index of the first set bit of a level, at or after an index.
    fn next_in(&self, level: usize, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = match word < self.words[level] {
            true => self.word(level, word).load(SeqCst) & !0 << (from % 64),
            false => return None,
        };
        while bits == 0 {
            word = match level {
                TOP => word + 1,
                _ => self.next_in(level + 1, word + 1)?,
            };
            if word >= self.words[level] {
                return None;
            }
            // The word may be 0 although its bit above is set, if another thread is about to clear
            // that bit.
            bits = self.word(level, word).load(SeqCst);
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::fixtures::SMALL;
    use crate::open::Config;

    /// Returns an engine with more than 4096 segments, so that all levels have several words.
    fn engine() -> Engine {
        let (memory_bytes, memory_bytes_max) = (1 << 20, 512 << 20);
        Engine::create(&Config { memory_bytes, memory_bytes_max, ..SMALL }).unwrap()
    }

    fn set(engine: &Engine) -> SegmentSet<'_> {
        SegmentSet::new(engine.region(), engine.region().layout().set_at(0))
    }

    #[test]
    fn a_search_finds_the_next_member_across_all_levels() {
        let engine = engine();
        let (set, segments) = (set(&engine), engine.region().layout().segments as u32);
        assert!(segments > 4096, "{segments} segments have one word in the middle level");
        let members = [0, 1, 63, 64, 4095, 4096, 4097, segments - 1];
        assert_eq!(set.next(0), None);
        members.iter().for_each(|segment| set.insert(*segment));
        let mut from = 0;
        for member in members {
            assert_eq!(set.next(from), Some(member), "from {from}");
            from = member + 1;
        }
        assert_eq!(set.next(from), None);
        for member in members {
            assert!(set.contains(member));
            set.remove(member);
            assert!(!set.contains(member));
        }
        assert_eq!(set.next(0), None, "an empty set finds a member");
    }

    #[test]
    fn a_member_whose_upper_levels_were_lost_is_found_after_another_insert() {
        let engine = engine();
        let set = set(&engine);
        set.insert(5000);
        // Simulates a thread that was killed before it set the bits above.
        for level in 1..SET_LEVELS {
            (0..set.words[level]).for_each(|word| set.word(level, word).store(0, SeqCst));
        }
        assert_eq!(set.next(0), None);
        set.insert(5000);
        assert_eq!(set.next(0), Some(5000));
    }

    #[test]
    fn bits_beyond_the_last_segment_name_none() {
        let engine = engine();
        let (set, segments) = (set(&engine), engine.region().layout().segments);
        (0..SET_LEVELS).for_each(|level| {
            (0..set.words[level]).for_each(|word| set.word(level, word).store(!0, SeqCst));
        });
        assert!(set.next(segments as u32).is_none());
    }
}
