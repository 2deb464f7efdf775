//! The layout of a region: the offset of each part, a pure function of the region's size.
//!
//! docs/region-format.md is a diagram of these bytes. The constants below and the assertions at the
//! end keep the diagram and the code in agreement.

use crate::processes::Room;
pub use crate::processes::{OWNERS_MAX, PEERS_MAX, THREAD_SLOTS_MAX};

/// The first eight bytes of a region: `LARDERRG`, little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"LARDERRG");
/// Incremented with every change of the layout that an older reader would misread.
pub const FORMAT: u32 = 10;

/// A pair of cache lines: the unit that the hardware prefetches and that two writers must not
/// share.
pub const LINE_BYTES: usize = 128;
/// Size of the superblock, in bytes.
pub const SUPERBLOCK_BYTES: usize = 256;
/// Size of a segment's header, in bytes.
pub const SEGMENT_HEADER_BYTES: usize = 64;
/// Size of an index group, in bytes: one control word and 15 slots.
pub const GROUP_BYTES: usize = 128;
/// Size of a ghost row, in bytes: the fingerprints of items that one group evicted from the small
/// pool.
pub const GHOST_ROW_BYTES: usize = 32;

/// Size of a row of the table of peers, in bytes.
pub const PEER_BYTES: usize = LINE_BYTES;
/// Size of a peer's hold on one segment, in bytes: its pieces that are arriving, and its pins.
pub const HOLD_BYTES: usize = 8;

/// Smallest segment, in bytes.
pub const SEGMENT_BYTES_MIN: usize = 64 << 10;
/// Largest segment, in bytes: 17 bits of 8-byte units address every record.
pub const SEGMENT_BYTES_MAX: usize = 1 << 20;
/// Largest number of segments: 20 bits.
pub const SEGMENTS_MAX: usize = 1 << 20;
/// Smallest region, in bytes.
pub const REGION_BYTES_MIN: usize = 1 << 20;
/// Largest region, in bytes: the maximum number of segments of the maximum size.
pub const REGION_BYTES_MAX: usize = SEGMENTS_MAX * SEGMENT_BYTES_MAX;

/// The fields of the superblock, by offset.
pub mod superblock {
    /// [`super::MAGIC`], u64.
    pub const MAGIC: usize = 0;
    /// [`super::FORMAT`], u32.
    pub const FORMAT: usize = 8;
    /// Size of a segment in bytes, u32.
    pub const SEGMENT_BYTES: usize = 12;
    /// Size of the region in bytes, u64.
    pub const REGION_BYTES: usize = 16;
    /// Number of segments, u32.
    pub const SEGMENTS: usize = 24;
    /// Number of thread slots, u32.
    pub const THREAD_SLOTS: usize = 28;
    /// Size of a thread slot in bytes, u32.
    pub const THREAD_SLOT_BYTES: usize = 32;
    /// Number of appenders of one stream, u32.
    pub const STRIPES: usize = 36;
    /// Seed of the key hash, u64.
    pub const HASH_SEED: usize = 40;
    /// Unix time of second 0, i64.
    pub const EPOCH_UNIX_SECS: usize = 48;
    /// Number of TTL classes, u32.
    pub const TTL_CLASSES: usize = 56;
    /// The settings with which the cache was created, u32; see [`super::flag`].
    pub const FLAGS: usize = 60;
    /// The memory for which the region was laid out, in bytes, u64.
    pub const MEMORY_BYTES: usize = 64;
    /// Number of peers, the processes that can be attached at the same time, u32.
    pub const PEERS: usize = 72;
    /// Size of a peer's row in bytes, u32.
    pub const PEER_BYTES: usize = 76;
    /// The first second of the cache on the system's monotonic clock, i64.
    pub const EPOCH_MONOTONIC_SECS: usize = 80;
    /// A number unique to the region, two u64.
    pub const IDENTITY: usize = 88;
    /// The boot of the system in which the region was created, two u64; the monotonic clock counts
    /// from there.
    pub const BOOT: usize = 104;
    /// Size of the region in bytes, without the tables that are allocated in addition to its
    /// memory, u64.
    pub const CAPACITY_BYTES: usize = 120;
}

/// The bits of [`superblock::FLAGS`].
pub mod flag {
    /// Items carry versions.
    pub const VERSIONS: u32 = 1;
    /// Items may be evicted.
    pub const EVICTS: u32 = 2;
}

/// The global words, by offset from the start of the region. Each has a separate line of
/// [`LINE_BYTES`], except where noted.
pub mod global {
    use super::{LINE_BYTES, SUPERBLOCK_BYTES};

    /// The clock: the current second, u32.
    pub const CLOCK: usize = SUPERBLOCK_BYTES;
    /// Until when other processes may read the items, in milliseconds of the system's monotonic
    /// clock, u64; 0 without a limit. On the line that every reader loads for the clock.
    pub const READABLE_UNTIL_MONOTONIC: usize = CLOCK + 8;
    /// The same limit in milliseconds of Unix time, u64. The monotonic clock stands still while the
    /// machine sleeps, and this clock does not.
    pub const READABLE_UNTIL_UNIX: usize = CLOCK + 16;
    /// Segments with a smaller sequence hold only flushed items, u64.
    pub const FLUSH_SEQUENCE: usize = CLOCK + LINE_BYTES;
    /// The second of a scheduled flush, or 0, u64. Bit 32 is set if the flush includes all stores
    /// during that second. On the line that every read loads anyway.
    pub const FLUSH_AT: usize = FLUSH_SEQUENCE + 8;
    /// Number of index groups, u64, on the same line. A split writes it, and every operation loads
    /// it. On a separate line the operation after a split would have the same cache miss, and all
    /// other operations would load one more line.
    pub const GROUPS: usize = FLUSH_SEQUENCE + 16;
    /// The sequence of the next segment, u64.
    pub const NEXT_SEQUENCE: usize = FLUSH_SEQUENCE + LINE_BYTES;
    /// The highest version that a client has requested, u64. Later versions must exceed it. Written
    /// as rarely as the sequence.
    pub const ASKED_VERSION: usize = NEXT_SEQUENCE + 8;
    /// The segment at which the search for a free segment begins, u64.
    pub const FREE_NEXT: usize = NEXT_SEQUENCE + LINE_BYTES;
    /// Number of segments in use, in the lower half, and number of changes of that number, in the
    /// upper half, u64.
    pub const SEGMENTS_USED: usize = FREE_NEXT + 8;
    /// The first segment that was never used, u64. This segment and all later segments are free.
    pub const FRESH_SEGMENT: usize = FREE_NEXT + 16;
    /// Number of segments that may be in use, u64.
    pub const SEGMENTS_MAX: usize = FREE_NEXT + 24;
    /// The memory limit from which that number is computed, in bytes, u64.
    pub const MEMORY_LIMIT: usize = FREE_NEXT + 32;
    /// Number of segments that hold records, for each pool, u64 each.
    pub const POOL_SEGMENTS: usize = FREE_NEXT + 40;
    /// The group at which the search for a free overflow group begins, u64.
    pub const OVERFLOW_NEXT: usize = FREE_NEXT + LINE_BYTES;
    /// Number of overflow groups, including free groups, u64.
    pub const OVERFLOW_GROUPS: usize = OVERFLOW_NEXT + 8;
    /// Approximate number of filled slots, u64.
    pub const ITEMS: usize = OVERFLOW_NEXT + LINE_BYTES;
    /// The threads that evict from segments and hold the survivors: thread slot + 1, or 0, u64
    /// each.
    pub const EVICTORS: usize = ITEMS + LINE_BYTES;
    /// Number of words at [`EVICTORS`].
    pub const EVICTORS_MAX: usize = LINE_BYTES / 8;
    /// The current stamp of the ghost, u64. The ghost remembers keys of recently evicted items, and
    /// the stamp is its measure of time.
    pub const GHOST_STAMP: usize = EVICTORS + LINE_BYTES;
    /// Number of items added to the ghost under this stamp, u64.
    pub const GHOST_ADDED: usize = GHOST_STAMP + 8;
    /// Number of rows of the ghost, u64.
    pub const GHOST_ROWS: usize = GHOST_STAMP + 16;
    /// The sum of freq over the items that were read before an eviction found them, u64. Halved
    /// together with the next word.
    pub const READS_FOUND: usize = GHOST_STAMP + 24;
    /// The sum of the sizes of these items, in bytes, u64.
    pub const READ_BYTES_FOUND: usize = GHOST_STAMP + 32;
    /// The segment that the expiry sweep checks next, u64.
    pub const SWEEP_NEXT: usize = GHOST_STAMP + LINE_BYTES;
    /// Number of rows of the table of peers that were ever in use, u64.
    pub const PEERS_USED: usize = SWEEP_NEXT + LINE_BYTES;
    /// Number of thread slots that were ever taken, u64.
    pub const THREAD_SLOTS_USED: usize = PEERS_USED + 8;
    /// A bit for each count that must be repeated, u64. 1: the items and bytes of a segment. 2: the
    /// segments in use. 4: the filled slots.
    pub const SUSPECTS: usize = PEERS_USED + 16;
    /// The row of the table of peers at which the next joining process begins to search for dead
    /// peers, u64.
    pub const REAP_NEXT: usize = PEERS_USED + 24;
    /// For each pool, the range of filled cells in its queue of segments by age: the first, u64,
    /// and the end, u64. Each pool has a line.
    pub const AGE_QUEUES: usize = PEERS_USED + LINE_BYTES;
    /// Number of times that a segment became a candidate for reuse, u64.
    pub const FILED: usize = AGE_QUEUES + super::POOLS * LINE_BYTES;
    /// [`FILED`] + 1 as it was when a thread last began to search all segments, u64.
    pub const FILED_AT_LAST_LOOK: usize = FILED + 8;
    /// The segment that the lap visits next, u64. The lap is a search through all segments, a few
    /// at a time, for segments that can be reused.
    pub const LAP_NEXT: usize = FILED + 16;
    /// Items and bytes that the current lap has counted, u64 each.
    pub const LAP_COUNTS: usize = FILED + 24;
    /// The mean size of a record according to the last complete lap, in bytes, u64.
    pub const MEAN_RECORD_BYTES: usize = FILED + 40;
    /// End of the global lines.
    pub const END: usize = FILED + LINE_BYTES;
}

/// The reason why a region of a given size cannot be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The region is too small.
    #[error("a region needs at least {REGION_BYTES_MIN} bytes, found {0}; request more memory")]
    TooSmall(usize),
    /// The region is larger than the address space of index slots.
    #[error("a region has at most {REGION_BYTES_MAX} bytes, found {0}; request less memory")]
    TooLarge(usize),
    /// The caller requested more processes than the table of peers can have rows.
    #[error("at most {PEERS_MAX} processes can share a cache, found {0}; request fewer")]
    TooManyPeers(usize),
}

/// The offsets of all parts of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of the entire region, in bytes.
    pub region_bytes: usize,
    /// Size of the region in bytes, without the tables that are allocated in addition to its memory
    /// (see [`Layout::paid_peers`]): the highest memory limit.
    pub capacity_bytes: usize,
    /// Size of a segment, in bytes; a power of two.
    pub segment_bytes: usize,
    /// Number of segments.
    pub segments: usize,
    /// Number of thread slots. As many threads can write at the same time without sharing cache
    /// lines.
    pub thread_slots: usize,
    /// Size of a thread slot, in bytes.
    pub thread_slot_bytes: usize,
    /// Number of peers. As many processes can be attached at the same time.
    pub peers: usize,
    /// Number of paid peers, whose tables are a part of the region's memory. The tables of the
    /// other peers are allocated in addition, and use physical memory only where they are used.
    pub paid_peers: usize,
    /// Number of TTL classes. Items of the same class are appended to the same segments.
    pub ttl_classes: usize,
    /// Number of appenders per stream, that is, per pool and TTL class.
    pub stripes: usize,
    /// Offset of the first peer.
    pub peers_at: usize,
    /// Offset of the first thread slot.
    pub thread_slots_at: usize,
    /// Offset of the first appender. Each appender has a line.
    pub appenders_at: usize,
    /// Offset of the segments' sequences, one u64 each.
    pub sequences_at: usize,
    /// Offset of the segments' headers.
    pub headers_at: usize,
    /// Offset of the directory of index segments, one u32 each.
    pub groups_directory_at: usize,
    /// Offset of the directory of overflow segments, one u32 each.
    pub overflow_directory_at: usize,
    /// Offset of the directory of ghost segments, one u32 each.
    pub ghost_directory_at: usize,
    /// Offset of the peers' holds: for each peer, one u64 per segment.
    pub holds_at: usize,
    /// Offset of the segments' holders: for each 64 peers, one word per segment with a bit for each
    /// peer.
    pub holders_at: usize,
    /// Offset of the sets of segments: one set for each share of live bytes, and the set of free
    /// segments.
    pub sets_at: usize,
    /// Offset of the queues of segments by age, one for each pool.
    pub ages_at: usize,
    /// Offset of segment 0.
    pub pool_at: usize,
    /// The bytes before the sequences that are a part of the region's memory.
    paid_bytes: usize,
}

/// Number of pools with separate appenders: small and main.
pub const POOLS: usize = 2;
/// Number of sets of segments by their share of live bytes: one set for segments without live
/// bytes, and one for each sixteenth.
pub const LIVE_SHARES: usize = 17;
/// Number of sets of segments: the sets by live share, and the set of free segments.
const SETS: usize = LIVE_SHARES + 1;
/// Number of levels of a set. The lowest level has a bit for each segment; the two upper levels
/// have a bit for each word of the level below.
pub const SET_LEVELS: usize = 3;
/// Number of cells per segment in the queue of a pool. If a segment is reused early, its old cell
/// stays until the head of the queue passes it.
pub const AGE_CELLS_PER_SEGMENT: usize = 2;
/// Number of TTL classes of a large enough region: items that expire together are stored together.
pub const TTL_CLASSES: usize = 4;
/// Smallest number of segments with TTL classes. In a smaller region the appenders would hold too
/// large a part of the memory.
pub const TTL_CLASSES_SEGMENTS_MIN: usize = 256;

/// How many processes can use a region at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One process.
    Alone,
    /// Several processes: this number at a time, or a default according to the memory if it is 0.
    Peers(usize),
}

impl Layout {
    /// Lays out a region for `memory_bytes` that can grow to `capacity_bytes`, with thread slots of
    /// `thread_slot_bytes` each. The segment size follows from `memory_bytes`; `capacity_bytes` is
    /// limited to the maximum number of such segments.
    ///
    /// # Errors
    /// [`LayoutError`] if a size is out of bounds.
    pub fn new(
        memory_bytes: usize,
        capacity_bytes: usize,
        thread_slot_bytes: usize,
        sharing: Sharing,
    ) -> Result<Self, LayoutError> {
        if memory_bytes < REGION_BYTES_MIN {
            return Err(LayoutError::TooSmall(memory_bytes));
        }
        if memory_bytes > REGION_BYTES_MAX {
            return Err(LayoutError::TooLarge(memory_bytes));
        }
        let segment_bytes =
            prev_power_of_two(memory_bytes / 256).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let capacity_bytes = capacity_bytes.clamp(memory_bytes, SEGMENTS_MAX * segment_bytes);
        let thread_slot_bytes = thread_slot_bytes.next_multiple_of(LINE_BYTES);
        let Room { peers, thread_slots } = Room::asked(memory_bytes, sharing)?;
        let paid = Room::paid(memory_bytes, sharing);
        let segments_about = memory_bytes / segment_bytes;
        let ttl_classes = if segments_about < TTL_CLASSES_SEGMENTS_MIN { 1 } else { TTL_CLASSES };
        // All appenders together take at most an eighth of the segments. A thread that is preempted
        // keeps its appender for some milliseconds: with two appenders per stream, eight threads on
        // two processors wait for them a third of the time. At least one appender is needed, or two
        // if a process that holds an appender may be stopped.
        let least = if sharing == Sharing::Alone { 1 } else { 2 };
        let stripes = (segments_about / 8 / POOLS / ttl_classes).clamp(least, thread_slots);

        let peers_at = global::END;
        let thread_slots_at = peers_at + peers * PEER_BYTES;
        let appenders_at = thread_slots_at + thread_slots * thread_slot_bytes;
        let sequences_at = appenders_at + POOLS * ttl_classes * stripes * LINE_BYTES;
        let unpaid_rows = (peers - paid.peers) * PEER_BYTES
            + (thread_slots - paid.thread_slots) * thread_slot_bytes;
        let paid_bytes = sequences_at - unpaid_rows;
        let segments = segments_in(capacity_bytes, paid_bytes, segment_bytes, paid.peers);
        let unpaid_bytes =
            unpaid_rows + segments * (per_segment_bytes(peers) - per_segment_bytes(paid.peers));
        let region_bytes = capacity_bytes + unpaid_bytes.next_multiple_of(LINE_BYTES);
        let headers_at = (sequences_at + segments * 8).next_multiple_of(SEGMENT_HEADER_BYTES);
        let groups_directory_at = headers_at + segments * SEGMENT_HEADER_BYTES;
        let overflow_directory_at = groups_directory_at + segments * 4;
        let ghost_directory_at = overflow_directory_at + segments * 4;
        let holds_at = (ghost_directory_at + segments * 4).next_multiple_of(8);
        let holders_at = holds_at + peers * segments * HOLD_BYTES;
        let sets_at = holders_at + segments * holders_bytes(peers);
        let ages_at = sets_at + SETS * set_bytes(segments);
        // The pool ends at the end of the region. Bytes left over by the alignment are before the
        // pool.
        let pool_at = (region_bytes - segments * segment_bytes) & !(LINE_BYTES - 1);
        debug_assert!(ages_at + segments * AGE_BYTES <= pool_at);
        Ok(Self {
            region_bytes,
            capacity_bytes,
            segment_bytes,
            segments,
            thread_slots,
            thread_slot_bytes,
            peers,
            paid_peers: paid.peers,
            paid_bytes,
            ttl_classes,
            stripes,
            peers_at,
            thread_slots_at,
            appenders_at,
            sequences_at,
            headers_at,
            groups_directory_at,
            overflow_directory_at,
            ghost_directory_at,
            holds_at,
            holders_at,
            sets_at,
            ages_at,
            pool_at,
        })
    }

    /// Returns the offset of a set of segments: the sets by live share first, then the set of free
    /// segments.
    #[inline]
    pub fn set_at(&self, set: usize) -> usize {
        debug_assert!(set < SETS);
        self.sets_at + set * set_bytes(self.segments)
    }

    /// Returns the number of words of a segment's holders.
    #[inline]
    pub fn holder_words(&self) -> usize {
        holders_bytes(self.peers) / 8
    }

    /// Returns the thread slot that is reserved for a peer. Reserved and other slots alternate, so
    /// that the slots in use are all at the front if only few processes use the region.
    #[inline]
    pub fn reserved_thread_slot(&self, peer: usize) -> usize {
        peer * self.thread_slots_per_peer()
    }

    /// True if a thread slot is reserved for a peer.
    pub fn is_reserved(&self, thread_slot: usize) -> bool {
        let per_peer = self.thread_slots_per_peer();
        thread_slot.is_multiple_of(per_peer) && thread_slot / per_peer < self.peers
    }

    /// Returns the number of thread slots that can be owners.
    pub fn owners(&self) -> usize {
        self.thread_slots.min(OWNERS_MAX)
    }

    fn thread_slots_per_peer(&self) -> usize {
        self.thread_slots / self.peers.next_power_of_two()
    }

    /// Returns the number of cells of a pool's queue of segments by age.
    #[inline]
    pub fn age_cells(&self) -> usize {
        self.segments * AGE_CELLS_PER_SEGMENT
    }

    /// Returns the number of segments that fit into `bytes` of memory, with their headers and
    /// bookkeeping.
    pub fn segments_in(&self, bytes: usize) -> usize {
        segments_in(bytes, self.paid_bytes, self.segment_bytes, self.paid_peers).min(self.segments)
    }

    /// Returns the memory that a number of segments needs, with their headers and bookkeeping, in
    /// bytes.
    pub fn bytes_for(&self, segments: usize) -> usize {
        let per_segment = self.segment_bytes + per_segment_bytes(self.paid_peers);
        self.paid_bytes + ROUNDING_BYTES + segments * per_segment
    }

    /// Returns the offset of a segment's first byte.
    #[inline]
    pub fn segment_at(&self, segment: u32) -> usize {
        self.pool_at + segment as usize * self.segment_bytes
    }

    /// Returns the number of groups that fit into a segment.
    pub fn groups_per_segment(&self) -> usize {
        self.segment_bytes / GROUP_BYTES
    }
}

/// Returns the bookkeeping per segment, in bytes: sequence, header, entries in three directories,
/// the peers' holds and their holders, bits in sets, and cells of queues.
fn per_segment_bytes(peers: usize) -> usize {
    8 + SEGMENT_HEADER_BYTES
        + 3 * 4
        + peers * HOLD_BYTES
        + holders_bytes(peers)
        + SET_BITS_BYTES
        + AGE_BYTES
}

/// Returns the bytes of a segment's holders.
fn holders_bytes(peers: usize) -> usize {
    peers.div_ceil(64) * 8
}

/// Cells of a segment in the queues of all pools, in bytes.
const AGE_BYTES: usize = POOLS * AGE_CELLS_PER_SEGMENT * 8;

/// Bits of a segment in all sets, including its part of the upper levels, in bytes, rounded up.
const SET_BITS_BYTES: usize = SETS.div_ceil(8) + 1;

/// Maximum number of bytes that rounding needs: two lines for the alignment of the headers and the
/// pool, and a word for each level of each set.
const ROUNDING_BYTES: usize = 2 * LINE_BYTES + SETS * SET_LEVELS * 8;

fn segments_in(bytes: usize, paid_bytes: usize, segment_bytes: usize, peers: usize) -> usize {
    let per_segment = segment_bytes + per_segment_bytes(peers);
    bytes.saturating_sub(paid_bytes + ROUNDING_BYTES) / per_segment
}

/// Returns the number of words of each level of a set, the lowest level first.
pub fn set_words(segments: usize) -> [usize; SET_LEVELS] {
    let bits = segments.div_ceil(64);
    let words = bits.div_ceil(64);
    [bits, words, words.div_ceil(64)]
}

fn set_bytes(segments: usize) -> usize {
    set_words(segments).iter().sum::<usize>() * 8
}

fn prev_power_of_two(n: usize) -> usize {
    if n == 0 { 0 } else { 1 << n.ilog2() }
}

const _: () = {
    assert!(superblock::CAPACITY_BYTES + 8 <= SUPERBLOCK_BYTES);
    assert!(SUPERBLOCK_BYTES.is_multiple_of(LINE_BYTES));
    assert!(global::CLOCK == 256 && global::END == 256 + 13 * LINE_BYTES);
    assert!(SEGMENT_BYTES_MAX == 8 << 17, "17 bits of 8-byte units address every record");
    assert!(SEGMENT_BYTES_MIN.is_multiple_of(GROUP_BYTES));
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_consecutive_and_fill_the_region() {
        let sizes = [1 << 20, (1 << 20) + 12_345, 8 << 20, 64 << 20, 1 << 30, 1 << 40];
        for (bytes, peers) in sizes.into_iter().flat_map(|bytes| [(bytes, 0), (bytes, PEERS_MAX)]) {
            let layout = Layout::new(bytes, bytes, 700, Sharing::Peers(peers)).unwrap();
            let region_bytes = layout.region_bytes;
            let ages_end = layout.ages_at + POOLS * layout.age_cells() * 8;
            assert!(ages_end <= layout.pool_at, "{layout:?}");
            assert!(layout.set_at(SETS - 1) + set_bytes(layout.segments) == layout.ages_at);
            assert!(layout.capacity_bytes == bytes && (peers > 0 || region_bytes == bytes));
            let pool_end = layout.pool_at + layout.segments * layout.segment_bytes;
            assert!(pool_end <= region_bytes, "{layout:?}");
            assert!(region_bytes - pool_end < layout.segment_bytes, "{layout:?}");
            assert!(layout.segments >= 8, "{layout:?}");
        }
    }

    #[test]
    fn a_growable_region_has_the_segment_size_of_a_small_one_and_space_for_more() {
        let small = Layout::new(64 << 20, 64 << 20, 700, Sharing::Alone).unwrap();
        let growing = Layout::new(64 << 20, 1 << 30, 700, Sharing::Alone).unwrap();
        assert_eq!(growing.segment_bytes, small.segment_bytes);
        assert_eq!(growing.segments_in(64 << 20), small.segments);
        assert!(growing.bytes_for(small.segments) <= 64 << 20);
        assert!(growing.segments > 16 * small.segments);
    }

    #[test]
    fn no_two_thread_slots_appenders_or_global_words_that_threads_write_share_a_line() {
        for region_bytes in [1 << 20, (1 << 20) + 12_345, 64 << 20, 1 << 30] {
            for thread_slot_bytes in [1, LINE_BYTES, 700] {
                let layout =
                    Layout::new(region_bytes, region_bytes, thread_slot_bytes, Sharing::Peers(0))
                        .unwrap();
                let thread_slots = (0..layout.thread_slots).map(|thread| {
                    let thread_slot_at = layout.thread_slots_at + thread * layout.thread_slot_bytes;
                    (thread_slot_at, thread_slot_at + thread_slot_bytes)
                });
                let appenders = (0..POOLS * layout.ttl_classes * layout.stripes).map(|head| {
                    let appender_at = layout.appenders_at + head * LINE_BYTES;
                    (appender_at, appender_at + LINE_BYTES)
                });
                let sequences = [(layout.sequences_at, layout.sequences_at + 8)];
                let parts =
                    GLOBAL_LINES.into_iter().chain(thread_slots).chain(appenders).chain(sequences);
                let mut free_from = SUPERBLOCK_BYTES;
                for (start, end) in parts {
                    assert!(start >= free_from, "{start} is not past {free_from}: {layout:?}");
                    assert_eq!(start % LINE_BYTES, 0, "{layout:?}");
                    free_from = end.next_multiple_of(LINE_BYTES);
                }
            }
        }
    }

    /// Start and end of each group of words that different threads write at different times.
    const GLOBAL_LINES: [(usize, usize); 13] = [
        (global::CLOCK, global::READABLE_UNTIL_UNIX + 8),
        (global::FLUSH_SEQUENCE, global::GROUPS + 8),
        (global::NEXT_SEQUENCE, global::ASKED_VERSION + 8),
        (global::FREE_NEXT, global::POOL_SEGMENTS + 8 * POOLS),
        (global::OVERFLOW_NEXT, global::OVERFLOW_GROUPS + 8),
        (global::ITEMS, global::ITEMS + 8),
        (global::EVICTORS, global::EVICTORS + 8 * global::EVICTORS_MAX),
        (global::GHOST_STAMP, global::READ_BYTES_FOUND + 8),
        (global::SWEEP_NEXT, global::SWEEP_NEXT + 8),
        (global::PEERS_USED, global::REAP_NEXT + 8),
        (global::AGE_QUEUES, global::AGE_QUEUES + 16),
        (global::AGE_QUEUES + LINE_BYTES, global::AGE_QUEUES + LINE_BYTES + 16),
        (global::FILED, global::MEAN_RECORD_BYTES + 8),
    ];

    #[test]
    fn segments_are_a_256th_of_the_region_within_bounds() {
        let segment_bytes = |region_bytes| {
            Layout::new(region_bytes, region_bytes, 700, Sharing::Peers(0)).unwrap().segment_bytes
        };
        assert_eq!(segment_bytes(1 << 20), 64 << 10);
        assert_eq!(segment_bytes(64 << 20), 256 << 10);
        assert_eq!(segment_bytes(100 << 20), 256 << 10);
        assert_eq!(segment_bytes(1 << 40), 1 << 20);
    }

    #[test]
    fn sizes_out_of_bounds_are_errors_that_name_the_bound() {
        assert_eq!(Layout::new(1, 1, 700, Sharing::Alone), Err(LayoutError::TooSmall(1)));
        let huge = REGION_BYTES_MAX + 1;
        assert_eq!(Layout::new(huge, huge, 700, Sharing::Alone), Err(LayoutError::TooLarge(huge)));
    }
}
