//! A copy of the region (the memory of the cache) that follows the changes of a child.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::path::Path;

use larder_region::layout::{GROUP_BYTES, SEGMENT_HEADER_BYTES, global, superblock};
use larder_region::{Layout, Memory, Sharing};
use larder_testkit::Random;

use crate::victim::MEMORY_BYTES;

/// Size of a page of memory, in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;

/// The bits of a slot word that contain a segment and the place in it, and the shift of the
/// segment; see docs/region-format.md.
const PLACE_MASK: u64 = (1 << 37) - 1;
const SEGMENT_SHIFT: u32 = 17;

/// The shift of the kind in a slot word. The kind is 1 in every word that refers to a record.
const KIND_SHIFT: u32 = 45;

/// The shift of the owner in the control word of a group.
const OWNER_SHIFT: u32 = 52;

/// Number of bytes of a piece before its part of the value.
const PIECE_HEAD_BYTES: usize = 16;

/// The fields of a record.
const VERSION: u64 = 1;
const DEADLINE: u64 = 2;
const FLAGS: u64 = 4;
const LARGE: u64 = 8;
const PIECE: u64 = 16;
const NUMBER: u64 = 32;

/// A region that is checked for changes repeatedly.
pub(crate) struct Copy {
    memory: Memory,
    pub(crate) bytes: Vec<u8>,
    layout: Layout,
    unreachable: Vec<Range<usize>>,
}

impl Copy {
    pub(crate) fn of(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let memory = Memory::shared(&file, MEMORY_BYTES as usize).unwrap();
        let bytes = fs::read(path).unwrap();
        let layout = layout_of(&bytes);
        let mut copy = Self { memory, bytes, layout, unreachable: Vec::new() };
        copy.unreachable = copy.find_unreachable();
        copy
    }

    pub(crate) fn pages(&self) -> Range<usize> {
        0..self.bytes.len().div_ceil(PAGE_BYTES)
    }

    /// Copies the changes of some pages. Returns the changed parts, at most one per page.
    pub(crate) fn update(&mut self, pages: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
        let mut changed = Vec::new();
        for page in pages {
            let at = page * PAGE_BYTES;
            let end = self.bytes.len().min(at + PAGE_BYTES);
            let known = &mut self.bytes[at..end];
            if self.memory.equals(at, known) {
                continue;
            }
            let mut now = Vec::with_capacity(PAGE_BYTES);
            self.memory.read(at, known.len(), &mut now);
            let differs = |place: &usize| known[*place] != now[*place];
            let first = (0..known.len()).find(differs);
            let last = (0..known.len()).rfind(differs);
            if let (Some(first), Some(last)) = (first, last) {
                changed.push(at + first..at + last + 1);
            }
            known.copy_from_slice(&now);
        }
        changed
    }

    /// True if a process can reach any of the changed bytes. Otherwise the memory looks unchanged
    /// to every process.
    pub(crate) fn is_reachable(&mut self, changed: &[Range<usize>]) -> bool {
        if changed.iter().all(|part| self.is_unreachable(part)) {
            return false;
        }
        self.unreachable = self.find_unreachable();
        true
    }

    /// True if no process can reach any byte of a part.
    pub(crate) fn is_unreachable(&self, part: &Range<usize>) -> bool {
        let next = self.unreachable.partition_point(|other| other.end < part.end);
        self.unreachable.get(next).is_some_and(|other| other.start <= part.start)
    }

    /// Returns a copy in which all bytes that no process can reach are random. If a process reads
    /// such bytes anyway, the result does not depend on the bytes that the child wrote.
    pub(crate) fn with_noise(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for part in &self.unreachable {
            bytes[part.clone()].chunks_mut(8).for_each(|word| {
                let noise = random.below(u64::MAX).to_le_bytes();
                word.copy_from_slice(&noise[..word.len()]);
            });
        }
        bytes
    }

    /// Returns the offsets of the changed groups.
    pub(crate) fn groups_in(&self, changed: &[Range<usize>]) -> Vec<usize> {
        let within = |part: &Range<usize>| {
            let first = part.start / GROUP_BYTES * GROUP_BYTES;
            (first..part.end).step_by(GROUP_BYTES)
        };
        let in_segment = |at: usize| at.checked_sub(self.layout.pool_at);
        let holds_groups = |at: &usize| {
            let segment = in_segment(*at).map(|offset| offset / self.layout.segment_bytes);
            segment.is_some_and(|segment| self.is_of_index(segment))
        };
        changed.iter().flat_map(within).filter(holds_groups).collect()
    }

    /// True if there is a group at this offset: its control word has a level.
    pub(crate) fn has_group(&self, at: usize) -> bool {
        let segment = (at - self.layout.pool_at) / self.layout.segment_bytes;
        self.is_of_index(segment) && self.word(at) != 0
    }

    /// Returns the offsets of the locked groups.
    pub(crate) fn locked_groups(&self) -> impl Iterator<Item = usize> {
        let segments = (0..self.layout.segments).filter(|segment| self.is_of_index(*segment));
        let groups = segments.flat_map(|segment| {
            let at = self.layout.segment_at(segment as u32);
            (at..at + self.layout.segment_bytes).step_by(GROUP_BYTES)
        });
        groups.filter(|at| self.word(*at) >> OWNER_SHIFT != 0)
    }

    fn is_of_index(&self, segment: usize) -> bool {
        self.is_in(self.layout.groups_directory_at..self.layout.overflow_directory_at, segment)
    }

    /// Returns a number that is equal for two memories that look the same to every process.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut at = 0;
        for part in &self.unreachable {
            hasher.write(&self.bytes[at..part.start]);
            at = part.end;
        }
        hasher.write(&self.bytes[at..]);
        hasher.finish()
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    fn half(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    /// Returns the parts of the region that no process reads, in order: segments without records,
    /// groups or ghost rows, the memory after the last record of a segment, and the values of
    /// pieces to which no word refers.
    fn find_unreachable(&self) -> Vec<Range<usize>> {
        let segment_bytes = self.layout.segment_bytes;
        let mut parts = Vec::new();
        let mut pieces = HashMap::new();
        // Memory that was never used is zero, and its first user may rely on this.
        for segment in 0..self.word(global::FRESH_SEGMENT) as usize {
            let at = self.layout.segment_at(segment as u32);
            if self.word(self.layout.sequences_at + segment * 8) == 0 {
                if !self.is_in_directory(segment) {
                    parts.push(at..at + segment_bytes);
                }
                continue;
            }
            let header_at = self.layout.headers_at + segment * SEGMENT_HEADER_BYTES;
            let filled = (self.half(header_at + 8) as usize).min(segment_bytes);
            self.push_pieces(segment, filled, &mut pieces);
            if filled < segment_bytes {
                parts.push(at + filled..at + segment_bytes);
            }
        }
        if !pieces.is_empty() {
            self.forget_named(&mut pieces);
            parts.extend(pieces.into_values());
        }
        parts.sort_by_key(|part| part.start);
        parts
    }

    /// True if a directory contains a segment. Such a segment holds groups or ghost rows.
    fn is_in_directory(&self, segment: usize) -> bool {
        self.is_in(self.layout.groups_directory_at..self.layout.holds_at, segment)
    }

    fn is_in(&self, directories: Range<usize>, segment: usize) -> bool {
        let mut named = directories.step_by(4).map(|at| self.half(at));
        named.any(|named| named as usize == segment + 1)
    }

    /// Adds the pieces of a segment: the name of each piece, and the range of its part of the
    /// value.
    fn push_pieces(&self, segment: usize, filled: usize, pieces: &mut HashMap<u64, Range<usize>>) {
        let segment_at = self.layout.segment_at(segment as u32);
        let mut offset = 0;
        while offset + 8 <= filled {
            let header = RecordHeader(self.word(segment_at + offset));
            let end = offset + header.record_bytes();
            if header.has(PIECE) && end <= filled {
                let name = ((segment << SEGMENT_SHIFT) | (offset / 8)) as u64;
                pieces.insert(name, segment_at + offset + PIECE_HEAD_BYTES..segment_at + end);
            }
            offset = end;
        }
    }

    /// Removes the pieces to which a word could refer: each word of a table, and each word that a
    /// thread slot is replacing.
    fn forget_named(&self, pieces: &mut HashMap<u64, Range<usize>>) {
        for word in self.bytes.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().unwrap());
            if word >> KIND_SHIFT & 3 == 1 && !pieces.is_empty() {
                pieces.remove(&(word & PLACE_MASK));
            }
        }
    }
}

/// The first word of a record.
#[derive(Clone, Copy)]
struct RecordHeader(u64);

impl RecordHeader {
    fn has(self, field: u64) -> bool {
        self.0 >> 28 & field != 0
    }

    fn record_bytes(self) -> usize {
        let (value_bytes, key_bytes) = (self.0 & 0xF_FFFF, self.0 >> 20 & 0xFF);
        let bytes = |field, bytes| if self.has(field) { bytes } else { 0 };
        let fields = bytes(VERSION, 8) + bytes(DEADLINE, 4) + bytes(FLAGS, 4) + bytes(PIECE, 8);
        let key_end = 8 + fields + key_bytes as usize;
        let value_at = key_end.next_multiple_of(if self.has(LARGE | NUMBER) { 8 } else { 1 });
        let mark = self.0 >> 36 & 31;
        let unit_bits = if self.has(NUMBER) { 3 } else { mark.max(3) };
        (value_at + value_bytes as usize).next_multiple_of(1 << unit_bits)
    }
}

fn layout_of(bytes: &[u8]) -> Layout {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let memory_bytes = word(superblock::MEMORY_BYTES) as usize;
    let thread_slot_bytes = half(superblock::THREAD_SLOT_BYTES) as usize;
    Layout::new(memory_bytes, bytes.len(), thread_slot_bytes, Sharing::Peers(0)).unwrap()
}
