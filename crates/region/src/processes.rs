//! The number of processes and threads that a shared region has tables for. An attached process is
//! a *peer*; a *thread slot* is the state of one thread in the region.

use crate::layout::{LayoutError, Sharing};

/// Largest number of peers.
pub const PEERS_MAX: usize = 4096;
/// Largest number of thread slots: one reserved slot for each peer, and as many for other threads.
pub const THREAD_SLOTS_MAX: usize = 2 * PEERS_MAX;
/// Largest number of owners: the control word of a group stores its owner in 13 bits, and 0 means
/// no owner.
pub const OWNERS_MAX: usize = THREAD_SLOTS_MAX - 1;

/// Returns the default number of peers of a region. Their tables are a part of the region's memory,
/// at most an eighth of it. The tables of additional peers are allocated in addition to the
/// memory.
pub const fn peers_by_memory(memory_bytes: usize) -> usize {
    match memory_bytes >> 20 {
        0..16 => 16,
        16..256 => 64,
        _ => 256,
    }
}

/// The processes and threads that a region has tables for.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) peers: usize,
    /// A power of two, since the number of a thread slot is a part of each version.
    ///
    /// A process needs one thread slot for each thread, and one reserved slot. Threads that find no
    /// free slot borrow one for each operation.
    pub(crate) thread_slots: usize,
}

impl Room {
    /// Returns the number of peers and thread slots that the creator of a region requests.
    ///
    /// # Errors
    /// [`LayoutError::TooManyPeers`].
    pub(crate) fn asked(memory_bytes: usize, sharing: Sharing) -> Result<Self, LayoutError> {
        match sharing {
            Sharing::Alone => Ok(Self::alone(memory_bytes)),
            Sharing::Peers(0) => Ok(Self::of(memory_bytes, peers_by_memory(memory_bytes))),
            Sharing::Peers(peers) if peers > PEERS_MAX => Err(LayoutError::TooManyPeers(peers)),
            Sharing::Peers(peers) => Ok(Self::of(memory_bytes, peers)),
        }
    }

    /// Returns the number of peers and thread slots whose tables are a part of the region's memory.
    pub(crate) fn paid(memory_bytes: usize, sharing: Sharing) -> Self {
        let by_memory = peers_by_memory(memory_bytes);
        match sharing {
            Sharing::Alone => Self::alone(memory_bytes),
            Sharing::Peers(0) => Self::of(memory_bytes, by_memory),
            Sharing::Peers(peers) => Self::of(memory_bytes, peers.min(by_memory)),
        }
    }

    fn alone(memory_bytes: usize) -> Self {
        let thread_slots = match memory_bytes >> 20 {
            0..16 => 16,
            16..64 => 64,
            _ => 256,
        };
        Self { peers: 1, thread_slots }
    }

    fn of(memory_bytes: usize, peers: usize) -> Self {
        let by_memory = match memory_bytes >> 20 {
            0..16 => 32,
            16..256 => 256,
            _ => 1024,
        };
        Self { peers, thread_slots: by_memory.max((2 * peers).next_power_of_two()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{HOLD_BYTES, PEER_BYTES};
    use crate::{Layout, LayoutError, Sharing};

    const THREAD_SLOT_BYTES: usize = 768;

    #[test]
    fn a_region_has_a_thread_slot_and_one_more_for_each_of_its_peers() {
        for (memory_bytes, peers, thread_slots) in [
            (1 << 20, 0, 32),
            (1 << 20, 16, 32),
            (1 << 20, 17, 64),
            (4 << 20, 64, 128),
            (32 << 20, 0, 256),
            (32 << 20, 1, 256),
            (32 << 20, 128, 256),
            (32 << 20, 129, 512),
            (32 << 20, 4096, 8192),
            (16 << 20, 256, 512),
            (1 << 30, 256, 1024),
            (1 << 30, 513, 2048),
        ] {
            let layout = layout_for(memory_bytes, Sharing::Peers(peers));
            let expected = if peers == 0 { peers_by_memory(memory_bytes) } else { peers };
            assert_eq!((layout.peers, layout.thread_slots), (expected, thread_slots));
            let reserved: Vec<usize> =
                (0..layout.thread_slots).filter(|slot| layout.is_reserved(*slot)).collect();
            let of_peers: Vec<usize> =
                (0..layout.peers).map(|peer| layout.reserved_thread_slot(peer)).collect();
            assert_eq!(reserved, of_peers);
            assert!(reserved.last() < Some(&layout.owners()), "{layout:?}");
        }
    }

    #[test]
    fn the_peers_of_the_default_take_at_most_an_eighth_of_the_memory() {
        for memory_bytes in [1 << 20, 16 << 20, 256 << 20, 1 << 30] {
            let layout = layout_for(memory_bytes, Sharing::Peers(0));
            let tables = layout.peers_at
                + layout.peers * (PEER_BYTES + 2 * THREAD_SLOT_BYTES)
                + layout.peers * layout.segments * HOLD_BYTES;
            assert!(tables <= memory_bytes / 8, "{layout:?}");
            assert_eq!(layout.region_bytes, memory_bytes);
        }
    }

    #[test]
    fn further_peers_cost_no_segment_and_their_tables_are_in_addition() {
        for memory_bytes in [1 << 20, 32 << 20, 256 << 20, 64 << 30] {
            let few = layout_for(memory_bytes, Sharing::Peers(0));
            let many = layout_for(memory_bytes, Sharing::Peers(PEERS_MAX));
            assert_eq!(many.segments, few.segments);
            assert_eq!(many.bytes_for(many.segments), few.bytes_for(few.segments));
            assert_eq!(many.segments_in(memory_bytes / 2), few.segments_in(memory_bytes / 2));
            // A row, two thread slots, a hold and a holder's bit for each segment.
            let per_peer = PEER_BYTES
                + 2 * THREAD_SLOT_BYTES
                + few.segments * HOLD_BYTES
                + few.segments.div_ceil(8);
            let added = many.region_bytes - memory_bytes;
            assert!(added <= PEERS_MAX * per_peer, "{added} bytes, {per_peer} for each peer");
        }
    }

    #[test]
    fn more_peers_than_there_are_rows_are_an_error() {
        let sharing = Sharing::Peers(PEERS_MAX + 1);
        let error = Layout::new(1 << 30, 1 << 30, THREAD_SLOT_BYTES, sharing);
        assert_eq!(error, Err(LayoutError::TooManyPeers(PEERS_MAX + 1)));
    }

    fn layout_for(memory_bytes: usize, sharing: Sharing) -> Layout {
        Layout::new(memory_bytes, memory_bytes, THREAD_SLOT_BYTES, sharing).unwrap()
    }
}
