//! The manifest: a small file with the identity, the mode and the size of a directory. [`Manifest`]
//! documents the fields.
//!
//! ```text
//! ┌─────────┬───────────┬────────┬─────────┬───────────┬─────────────┬────────────┬──────────────┬──────────────┐
//! │ magic 8 │ version 4 │ mode 4 │ uuid 16 │ extents 4 │ page 4      │ segment 4  │ epoch 4      │ clean 4      │
//! ├─────────┴──────┬────┴────────┴─────┬───┴────┬──────┴──┬────────┴──┬──────────┴─┬────────────┴──────────────┘
//! │ ahead 4        │ index seed 8      │ hash key 16      │ made 8    │ lease 8    │ durable 8 │ …
//! └────────────────┴───────────────────┴──────────────────┴───────────┴────────────┴───────────┴───────────
//! version 1                             version 2
//! ┌────────────┐                        ┌────────────────┬────────────┐
//! │ checksum 4 │                        │ dictionaries 4 │ checksum 4 │
//! └────────────┘                        └────────────────┴────────────┘
//! ```

use std::fmt;

use thiserror::Error;

use crate::disk::PAGE_BYTES;
use crate::format::bytes::{put_u32, put_u64, u32_at, u64_at};
use crate::format::{Address, SEGMENT_BYTES, SegmentNumber, Uuid, VERSION, VERSION_PLAIN, flip};

const MAGIC: [u8; 8] = *b"\x89LRDTIER";
/// Length of the fields that both versions have, in bytes.
const SHARED_BYTES: usize = 104;
const CHECKSUM_BYTES: usize = 4;
/// Length of the file in version 1, in bytes.
const PLAIN_BYTES: usize = SHARED_BYTES + CHECKSUM_BYTES;
/// Length of the file in version 2, in bytes.
const COMPRESSED_BYTES: usize = PLAIN_BYTES + 4;

const STORE: u32 = 1;
const CACHE: u32 = 2;

/// The purpose of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// A durable store: the disk has all items.
    Store,
    /// A cache: the disk has the items that memory evicts.
    Cache,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Store => "store",
            Self::Cache => "cache",
        })
    }
}

/// The identity and the settings of a directory. A change replaces the complete file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// The identity of the directory.
    pub uuid: Uuid,
    /// Store or cache.
    pub mode: Mode,
    /// The maximum number of segments in the log.
    pub extents: u32,
    /// The epoch, from 1. Every start without the memory of the previous process increments it.
    pub epoch: u32,
    /// The highest segment number that is leased; `None` before the first lease.
    pub lease: Option<SegmentNumber>,
    /// Everything below this address was durable at the last start or clean stop.
    pub durable: Option<Address>,
    /// True if the last stop was clean: all changes were written and synced before the process
    /// ended.
    pub clean: bool,
    /// The seed of the index hash.
    pub index_seed: u64,
    /// The key of the hash in summaries.
    pub hash_key: [u8; 16],
    /// When the directory was created, as a Unix time.
    pub made_unix_secs: u64,
    /// The number of seconds by which the log's time was ahead of the system clock at the last
    /// start or clean stop.
    pub ahead_secs: i32,
    /// The number of dictionaries that records may name, from 1 on. `None` for a directory without
    /// compressed values.
    pub dictionaries: Option<u8>,
}

/// The reason why this release cannot use the file as a manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ManifestError {
    /// The file is not a manifest.
    #[error("MANIFEST is not the manifest of a larder directory")]
    Foreign,
    /// A later release wrote the directory.
    #[error(
        "the directory has format {found}, this release reads formats up to {VERSION}: start the \
         release that wrote it, or export there and import here"
    )]
    Newer {
        /// The version in the file.
        found: u32,
    },
    /// The file is truncated or was changed.
    #[error(
        "MANIFEST is damaged: its checksum is wrong. Restore the whole directory from a backup: an \
         earlier MANIFEST does not fit the log"
    )]
    Damaged,
    /// The checksum is correct, but the file contains values that no release writes.
    #[error("MANIFEST is invalid: {0}. Restore the whole directory from a backup")]
    Senseless(&'static str),
}

impl Manifest {
    /// Returns the content of the file.
    pub fn encode(&self) -> Vec<u8> {
        let (version, len) = match self.dictionaries {
            Some(_) => (VERSION, COMPRESSED_BYTES),
            None => (VERSION_PLAIN, PLAIN_BYTES),
        };
        let mut bytes = vec![0; len];
        bytes[..8].copy_from_slice(&MAGIC);
        put_u32(&mut bytes, 8, version);
        put_u32(&mut bytes, 12, if self.mode == Mode::Store { STORE } else { CACHE });
        bytes[16..32].copy_from_slice(&self.uuid.0);
        put_u32(&mut bytes, 32, self.extents);
        put_u32(&mut bytes, 36, PAGE_BYTES as u32);
        put_u32(&mut bytes, 40, SEGMENT_BYTES as u32);
        put_u32(&mut bytes, 44, self.epoch);
        put_u32(&mut bytes, 48, u32::from(self.clean));
        put_u32(&mut bytes, 52, self.ahead_secs.cast_unsigned());
        put_u64(&mut bytes, 56, self.index_seed);
        bytes[64..80].copy_from_slice(&self.hash_key);
        put_u64(&mut bytes, 80, self.made_unix_secs);
        put_u64(&mut bytes, 88, self.lease.map_or(0, SegmentNumber::stored));
        put_u64(&mut bytes, 96, self.durable.map_or(0, Address::stored));
        if let Some(dictionaries) = self.dictionaries {
            put_u32(&mut bytes, SHARED_BYTES, dictionaries.into());
        }
        let checksum = crc32fast::hash(&bytes[..len - CHECKSUM_BYTES]);
        put_u32(&mut bytes, len - CHECKSUM_BYTES, checksum);
        bytes
    }

    /// Reads the content of the file.
    ///
    /// # Errors
    ///
    /// [`ManifestError`] if the file is not a valid manifest.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(ManifestError::Foreign);
        }
        let version = bytes.get(8..12).map_or(0, |version| u32_at(version, 0));
        if version > VERSION {
            return Err(ManifestError::Newer { found: version });
        }
        let is_whole = |at: usize| crc32fast::hash(&bytes[..at]) == u32_at(bytes, at);
        match checksum_at(bytes).is_some_and(is_whole) {
            true => Self::of_whole(bytes),
            false => Err(ManifestError::Damaged),
        }
    }

    /// Reads the content of a file after repairing one flipped bit. Returns `None` if a single
    /// flipped bit does not explain the damage.
    pub fn decode_flipped(bytes: &[u8]) -> Option<Self> {
        let (at, mut mended) = (checksum_at(bytes)?, bytes.to_vec());
        let (content, checksum) = mended.split_at_mut(at);
        let (found, stored) = (crc32fast::hash(content), u32_at(checksum, 0));
        if !flip::mend(content, found, stored) {
            return None;
        }
        let checksum = crc32fast::hash(&mended[..at]);
        put_u32(&mut mended, at, checksum);
        Self::decode(&mended).ok()
    }

    fn of_whole(bytes: &[u8]) -> Result<Self, ManifestError> {
        let dictionaries = match (u32_at(bytes, 8), bytes.len()) {
            (VERSION_PLAIN, PLAIN_BYTES) => None,
            (VERSION, COMPRESSED_BYTES) => match u8::try_from(u32_at(bytes, SHARED_BYTES)) {
                Ok(dictionaries) => Some(dictionaries),
                Err(_) => return Err(ManifestError::Senseless("it has too many dictionaries")),
            },
            _ => return Err(ManifestError::Senseless("its length does not fit its version")),
        };
        let mode = match u32_at(bytes, 12) {
            STORE => Mode::Store,
            CACHE => Mode::Cache,
            _ => return Err(ManifestError::Senseless("its mode is neither store nor cache")),
        };
        if u32_at(bytes, 36) != PAGE_BYTES as u32 || u32_at(bytes, 40) != SEGMENT_BYTES as u32 {
            return Err(ManifestError::Senseless("its pages or segments have another length"));
        }
        let (extents, epoch) = (u32_at(bytes, 32), u32_at(bytes, 44));
        if extents == 0 || epoch == 0 {
            return Err(ManifestError::Senseless("it has no segments or no epoch"));
        }
        let array = |at: usize| {
            let mut array = [0; 16];
            array.copy_from_slice(&bytes[at..at + 16]);
            array
        };
        Ok(Self {
            uuid: Uuid(array(16)),
            mode,
            extents,
            epoch,
            lease: SegmentNumber::from_stored(u64_at(bytes, 88)),
            durable: Address::from_stored(u64_at(bytes, 96)),
            clean: u32_at(bytes, 48) == 1,
            index_seed: u64_at(bytes, 56),
            hash_key: array(64),
            made_unix_secs: u64_at(bytes, 80),
            ahead_secs: u32_at(bytes, 52).cast_signed(),
            dictionaries,
        })
    }
}

/// Returns the position of the checksum. Returns `None` if no version has this length.
fn checksum_at(bytes: &[u8]) -> Option<usize> {
    let is_known = matches!(bytes.len(), PLAIN_BYTES | COMPRESSED_BYTES);
    is_known.then(|| bytes.len() - CHECKSUM_BYTES)
}
