//! How many processes and threads a shared region has room for.

/// Largest number of peers.
pub const PEERS_MAX: usize = 256;
/// Largest number of thread slots: a group's control word names its owner in 12 bits.
pub const THREAD_SLOTS_MAX: usize = 1024;

/// Returns the number of peers of a region whose creator asks for none.
pub const fn peers_by_memory(memory_bytes: usize) -> usize {
    match memory_bytes >> 20 {
        0..16 => 16,
        16..256 => 64,
        _ => PEERS_MAX,
    }
}

/// Returns the largest number of peers that a region can have. A peer takes a row, two thread slots
/// and a hold on each segment: at most a sixteenth of this memory.
pub const fn peers_max(memory_bytes: usize) -> usize {
    let by_memory = memory_bytes / PEER_MEMORY_BYTES_MIN;
    if by_memory < 16 {
        16
    } else if by_memory > PEERS_MAX {
        PEERS_MAX
    } else {
        by_memory
    }
}

/// The memory that a region has for each peer at least, except for the first 16.
const PEER_MEMORY_BYTES_MIN: usize = 64 << 10;

/// Returns the numbers of thread slots and peers of a shared region.
///
/// A process needs one thread slot per thread, and one more. Threads beyond them borrow one for
/// each operation. The number is a power of two: it is a part of each version.
pub(crate) fn shared_by(memory_bytes: usize, peers: usize) -> (usize, usize) {
    let by_memory = match memory_bytes >> 20 {
        0..16 => 32,
        16..256 => 256,
        _ => THREAD_SLOTS_MAX,
    };
    (by_memory.max((2 * peers.min(PEERS_MAX)).next_power_of_two()), peers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{HOLD_BYTES, PEER_BYTES};
    use crate::{Layout, LayoutError, Sharing};

    #[test]
    fn a_region_has_a_thread_slot_and_one_more_for_each_of_its_peers() {
        for (memory_bytes, peers, thread_slots) in [
            (1 << 20, 0, 32),
            (1 << 20, 16, 32),
            (4 << 20, 64, 128),
            (32 << 20, 0, 256),
            (32 << 20, 1, 256),
            (32 << 20, 128, 256),
            (32 << 20, 129, 512),
            (16 << 20, 256, 512),
            (1 << 30, 256, 1024),
        ] {
            let sharing = Sharing::Peers(peers);
            let layout = Layout::new(memory_bytes, memory_bytes, 700, sharing).unwrap();
            let expected = if peers == 0 { peers_by_memory(memory_bytes) } else { peers };
            assert_eq!((layout.peers, layout.thread_slots), (expected, thread_slots));
            let overhead = layout.peers_at
                + layout.peers * (PEER_BYTES + 2 * 768)
                + layout.peers * layout.segments * HOLD_BYTES;
            assert!(overhead <= memory_bytes / 8, "{layout:?}");
        }
    }

    #[test]
    fn more_peers_than_the_memory_allows_are_an_error() {
        for (memory_bytes, max) in [(1 << 20, 16), (4 << 20, 64), (1 << 30, 256)] {
            assert_eq!(
                Layout::new(memory_bytes, memory_bytes, 700, Sharing::Peers(max + 1)),
                Err(LayoutError::TooManyPeers { asked: max + 1, max })
            );
        }
    }
}
