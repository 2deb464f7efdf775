//! Records which items were recently read from the disk.
//!
//! While memory is full, an item is promoted to memory only at its second read, so that items that
//! are read only once evict nothing from memory. The second read must follow before about as many
//! other items are read from the disk as fit into memory.

use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;

/// The last reads from the disk. Each cell is shared by several keys.
#[derive(Debug)]
pub(super) struct RecentReads(Box<[AtomicU16]>);

/// There is one cell per this many bytes of memory, so cells use 0.4 % of it.
const BYTES_PER_CELL: u64 = 512;

/// The maximum number of cells: 32 MiB.
const CELLS_MAX: u64 = 1 << 24;

impl RecentReads {
    /// Returns the cells for a cache with this much memory.
    pub(super) fn within(memory_bytes: u64) -> Self {
        let cells = (memory_bytes / BYTES_PER_CELL).clamp(1, CELLS_MAX);
        Self((0..cells).map(|_| AtomicU16::new(0)).collect())
    }

    /// Records a read of the key with this identity. Returns false, and forgets the read, if the
    /// key was recently read. A cell is shared by several keys and stores only the last read. It
    /// distinguishes its keys by 16 bits, so another key is mistaken for the recorded one with a
    /// probability of 1 in 65,535.
    pub(super) fn is_first(&self, identity: u128) -> bool {
        let (low, high) = (identity as u64, (identity >> 64) as u64);
        let cell = &self.0[(low % self.0.len() as u64) as usize];
        // 0 is an empty cell.
        let mark = (high % 0xffff) as u16 + 1;
        let is_first = cell.load(Relaxed) != mark;
        cell.store(if is_first { mark } else { 0 }, Relaxed);
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the identity of a key, distributed like a hash.
    fn identity(key: u128) -> u128 {
        let mixed = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        (mixed ^ mixed >> 65).wrapping_mul(0xd6e8_feb8_6659_fd93_c2b2_ae3d_27d4_eb4f)
    }

    #[test]
    fn the_second_read_is_known_and_the_third_is_a_first_one_again() {
        let reads = RecentReads::within(1 << 20);
        let seen: Vec<bool> = (0..4).map(|_| reads.is_first(identity(1))).collect();
        assert_eq!(seen, [true, false, true, false]);
    }

    #[test]
    fn a_read_is_forgotten_after_more_others_than_there_are_cells() {
        let reads = RecentReads::within(1 << 20);
        (0..2000).for_each(|key| assert!(reads.is_first(identity(key)), "{key} was never read"));
        let known = (0..2000).filter(|key| !reads.is_first(identity(*key))).count();
        assert!((500..2000).contains(&known), "{known} of 2000 reads are known with 2048 cells");
        for key in 2000..22_000 {
            reads.is_first(identity(key));
        }
        let known = (0..2000).filter(|key| !reads.is_first(identity(*key))).count();
        assert!(known < 20, "{known} reads are known after ten times as many as there are cells");
    }
}
