//! The snapshot of the catalog, which has the position of each item in the log. A clean stop writes
//! the snapshot, and the next start reads it.
//!
//! ```text
//! page 0   ┌─────────┬───────────┬──────────────┬─────────┬─────────┬────────────┬─────────┐
//!          │ magic 8 │ version 4 │ checksum 4   │ uuid 16 │ epoch 4 │ segments 4 │ words 8 │
//!          ├─────────┴──┬────────┴──┬───────────┴──┬──────┴─────────┴─┬──────────┴─────────┤
//!          │ stamp 8    │ due 8     │ version 8    │ checksum of words 4, 0 4 │ due at 8   │
//!          └────────────┴───────────┴──────────────┴──────────────────────────┴────────────┘
//! page 1…  segments × { number, extent | items ‹‹ 32, bytes | live ‹‹ 32 }
//!          partitions × { entries, entries × entry }
//!          lost, lost × location
//! ```
//!
//! The words are 8 bytes each. The header's checksum covers all of page 0.

use crate::disk::{PAGE_BYTES, Page, zeroed_page};
use crate::format::bytes::{put_u32, put_u64, u32_at, u64_at};
use crate::format::{Address, Uuid, VERSION_PLAIN};

const MAGIC: [u8; 8] = *b"\x89LRDINDX";
const CHECKSUM_AT: usize = 12;

/// The header of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The uuid of the directory.
    pub uuid: Uuid,
    /// The epoch of the process that wrote the snapshot.
    pub epoch: u32,
    /// The number of segments in the log.
    pub segments: u32,
    /// The number of words in the body.
    pub words: u64,
    /// When the process stopped, as a Unix time.
    pub stamp_unix_secs: u64,
    /// When the delayed flush is due, as a Unix time; 0: no flush is pending.
    pub due_unix_secs: u64,
    /// The address of the record of the delayed flush. `None` if it has no record, as in a cache.
    pub due_at: Option<Address>,
    /// The highest version of any item so far.
    pub version_max: u64,
    /// The CRC-32 of the body.
    pub checksum: u32,
}

impl SnapshotHeader {
    /// Returns page 0 of the file.
    pub fn encode(&self) -> Box<Page> {
        let mut page = zeroed_page();
        let bytes = page.bytes_mut();
        bytes[..8].copy_from_slice(&MAGIC);
        put_u32(bytes, 8, VERSION_PLAIN);
        bytes[16..32].copy_from_slice(&self.uuid.0);
        put_u32(bytes, 32, self.epoch);
        put_u32(bytes, 36, self.segments);
        put_u64(bytes, 40, self.words);
        put_u64(bytes, 48, self.stamp_unix_secs);
        put_u64(bytes, 56, self.due_unix_secs);
        put_u64(bytes, 64, self.version_max);
        put_u32(bytes, 72, self.checksum);
        put_u64(bytes, 80, self.due_at.map_or(0, Address::stored));
        let checksum = crc32fast::hash(bytes);
        put_u32(bytes, CHECKSUM_AT, checksum);
        page
    }

    /// Reads page 0. Returns `None` if its format differs or it is damaged.
    pub fn decode(page: &Page) -> Option<Self> {
        let mut bytes = *page.bytes();
        let checksum = u32_at(&bytes, CHECKSUM_AT);
        put_u32(&mut bytes, CHECKSUM_AT, 0);
        if bytes[..8] != MAGIC
            || u32_at(&bytes, 8) != VERSION_PLAIN
            || crc32fast::hash(&bytes) != checksum
        {
            return None;
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[16..32]);
        Some(Self {
            uuid: Uuid(uuid),
            epoch: u32_at(&bytes, 32),
            segments: u32_at(&bytes, 36),
            words: u64_at(&bytes, 40),
            stamp_unix_secs: u64_at(&bytes, 48),
            due_unix_secs: u64_at(&bytes, 56),
            due_at: Address::from_stored(u64_at(&bytes, 80)),
            version_max: u64_at(&bytes, 64),
            checksum: u32_at(&bytes, 72),
        })
    }

    /// Returns the number of pages in the file, or `None` if the header is invalid.
    pub fn pages(&self) -> Option<u64> {
        Some(1 + self.words.checked_mul(8)?.div_ceil(PAGE_BYTES as u64))
    }
}
