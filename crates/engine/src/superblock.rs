//! Reads the superblock of an existing region and checks that this program understands it. The
//! superblock is the start of a region. It contains the region's format, sizes and settings.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use larder_item::Epoch;
use larder_region::layout::{self, PEER_BYTES, PEERS_MAX, REGION_BYTES_MIN, superblock};
use larder_region::{Layout, LayoutError, Memory, Sharing};

use crate::process::peers::JoinError;
use crate::process::thread_slot::THREAD_SLOT_BYTES;

/// The origin of a shared region, for processes that attach to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Birth {
    /// A number that identifies this region and no other.
    pub identity: u128,
    /// The identifier of the system boot during which the region was created.
    pub boot: u128,
    /// The first second of the region by the system's monotonic clock, which counts from that boot.
    pub monotonic_secs: i64,
}

/// The reason why a region cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The memory does not start like a region.
    #[error("it is not the file of a cache: it does not begin with LARDERRG")]
    NotARegion,
    /// A machine that stores the bytes of numbers in another order wrote the region.
    #[error(
        "it was written on a machine with another byte order, and a cache in a file cannot move to \
         such a machine"
    )]
    OtherByteOrder,
    /// Another version wrote the region, the region has another size, or it is damaged.
    #[error("its {field} is {found}, and this program needs {expected}")]
    Field {
        /// The field of the superblock.
        field: &'static str,
        /// The value that this program would have written.
        expected: u64,
        /// The value found.
        found: u64,
    },
    /// A link in the region leads outside it, or forms a cycle.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// The region's sizes are impossible.
    #[error("its layout is invalid: {0}")]
    Sizes(#[from] LayoutError),
    /// The process cannot become a peer.
    #[error(transparent)]
    Join(#[from] JoinError),
}

/// The content of a superblock.
pub(crate) struct Superblock {
    pub(crate) layout: Layout,
    pub(crate) memory_bytes: usize,
    pub(crate) flags: u32,
    pub(crate) hash_seed: u64,
    pub(crate) epoch: Epoch,
    pub(crate) birth: Birth,
}

impl Superblock {
    /// Reads the superblock and compares every derived field with its expected value.
    pub(crate) fn read(memory: &Memory) -> Result<Self, AttachError> {
        let half = |at| memory.half(at).load(Relaxed);
        let word = |at| memory.word(at).load(Relaxed);
        let wide = |at| u128::from(word(at)) | u128::from(word(at + 8)) << 64;
        // Pairs with the release that completed the region.
        match memory.word(superblock::MAGIC).load(Acquire) {
            layout::MAGIC => {}
            found if found == layout::MAGIC.swap_bytes() => {
                return Err(AttachError::OtherByteOrder);
            }
            _ => return Err(AttachError::NotARegion),
        }
        expect("format", u64::from(layout::FORMAT), u64::from(half(superblock::FORMAT)))?;
        let region_bytes = word(superblock::REGION_BYTES);
        expect("size in bytes", memory.bytes() as u64, region_bytes)?;
        let within = |field, at, min: usize, max: usize| match word(at) {
            found if found < min as u64 => Err(field_error(field, min, found)),
            found if found > max as u64 => Err(field_error(field, max, found)),
            found => Ok(found as usize),
        };
        let capacity_at = superblock::CAPACITY_BYTES;
        let capacity_bytes =
            within("capacity in bytes", capacity_at, REGION_BYTES_MIN, memory.bytes())?;
        let memory_at = superblock::MEMORY_BYTES;
        let memory_bytes = within("memory in bytes", memory_at, REGION_BYTES_MIN, capacity_bytes)?;
        // The creator's number of peers; the other sizes follow from it.
        let peers = half(superblock::PEERS) as usize;
        if peers == 0 || peers > PEERS_MAX {
            return Err(field_error("number of peers", PEERS_MAX, peers as u64));
        }
        let sharing = Sharing::Peers(peers);
        let layout = Layout::new(memory_bytes, capacity_bytes, THREAD_SLOT_BYTES, sharing)?;
        expect("size in bytes", layout.region_bytes as u64, region_bytes)?;
        for (field, at, expected) in [
            ("bytes of a segment", superblock::SEGMENT_BYTES, layout.segment_bytes),
            ("number of segments", superblock::SEGMENTS, layout.segments),
            ("number of thread slots", superblock::THREAD_SLOTS, layout.thread_slots),
            ("bytes of a thread slot", superblock::THREAD_SLOT_BYTES, layout.thread_slot_bytes),
            ("number of stripes", superblock::STRIPES, layout.stripes),
            ("number of TTL classes", superblock::TTL_CLASSES, layout.ttl_classes),
            ("bytes of a peer", superblock::PEER_BYTES, PEER_BYTES),
        ] {
            expect(field, expected as u64, u64::from(half(at)))?;
        }
        Ok(Self {
            layout,
            memory_bytes,
            flags: half(superblock::FLAGS),
            hash_seed: word(superblock::HASH_SEED),
            epoch: Epoch { unix_secs: word(superblock::EPOCH_UNIX_SECS).cast_signed() },
            birth: Birth {
                identity: wide(superblock::IDENTITY),
                boot: wide(superblock::BOOT),
                monotonic_secs: word(superblock::EPOCH_MONOTONIC_SECS).cast_signed(),
            },
        })
    }
}

fn field_error(field: &'static str, expected: usize, found: u64) -> AttachError {
    AttachError::Field { field, expected: expected as u64, found }
}

fn expect(field: &'static str, expected: u64, found: u64) -> Result<(), AttachError> {
    if found == expected {
        return Ok(());
    }
    Err(AttachError::Field { field, expected, found })
}
