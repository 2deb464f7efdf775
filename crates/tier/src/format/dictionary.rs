//! The file of a dictionary, with which zstd compresses the values of a directory. The directory
//! has two copies of each file.
//!
//! ```text
//! ┌─────────┬───────────┬──────────┬─────────┬─────────┬────────────┬────────────┐
//! │ magic 8 │ version 4 │ number 4 │ uuid 16 │ bytes 4 │ dictionary │ checksum 4 │
//! └─────────┴───────────┴──────────┴─────────┴─────────┴────────────┴────────────┘
//! ```

use thiserror::Error;

use crate::format::bytes::{put_u32, u32_at};
use crate::format::{Uuid, VERSION, flip};

const MAGIC: [u8; 8] = *b"\x89LRDDICT";
const UUID_AT: usize = 16;
const LENGTH_AT: usize = 32;
const HEADER_BYTES: usize = 36;
const CHECKSUM_BYTES: usize = 4;
/// The maximum length of a dictionary, in bytes.
pub const DICTIONARY_BYTES_MAX: usize = 1 << 16;

/// The content of the file of a dictionary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DictionaryFile {
    /// The identity of the directory.
    pub uuid: Uuid,
    /// The number of the dictionary in the directory, from 1.
    pub number: u8,
    /// The dictionary, in the format of zstd.
    pub dictionary: Vec<u8>,
}

/// The reason why a file is not the file of a dictionary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DictionaryFault {
    /// The file is truncated or was changed.
    #[error("its checksum is wrong")]
    Damaged,
    /// The file was written for another directory, or is another dictionary of this one.
    #[error("it is another dictionary")]
    Foreign,
}

impl DictionaryFile {
    /// Returns the content of the file.
    pub fn encode(&self) -> Vec<u8> {
        let end = HEADER_BYTES + self.dictionary.len();
        let mut bytes = vec![0; end + CHECKSUM_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        put_u32(&mut bytes, 8, VERSION);
        put_u32(&mut bytes, 12, self.number.into());
        bytes[UUID_AT..UUID_AT + 16].copy_from_slice(&self.uuid.0);
        put_u32(&mut bytes, LENGTH_AT, self.dictionary.len() as u32);
        bytes[HEADER_BYTES..end].copy_from_slice(&self.dictionary);
        let checksum = crc32fast::hash(&bytes[..end]);
        put_u32(&mut bytes, end, checksum);
        bytes
    }

    /// Reads the content of the file of dictionary `number`.
    ///
    /// # Errors
    ///
    /// [`DictionaryFault`].
    pub fn decode(uuid: Uuid, number: u8, bytes: &[u8]) -> Result<Self, DictionaryFault> {
        let (content, checksum) = split(bytes).ok_or(DictionaryFault::Damaged)?;
        if crc32fast::hash(content) != checksum {
            return Err(DictionaryFault::Damaged);
        }
        let dictionary = content[HEADER_BYTES..].to_vec();
        let file = Self { uuid, number, dictionary };
        // The other fields have only one valid content.
        if file.encode() == bytes { Ok(file) } else { Err(DictionaryFault::Foreign) }
    }

    /// Same as [`DictionaryFile::decode`], but repairs one flipped bit first. Returns `None` if a
    /// single flipped bit does not explain the damage.
    pub fn decode_flipped(uuid: Uuid, number: u8, bytes: &[u8]) -> Option<Self> {
        let (content, stored) = split(bytes)?;
        let mut mended = content.to_vec();
        if !flip::mend(&mut mended, crc32fast::hash(content), stored) {
            return None;
        }
        let checksum = crc32fast::hash(&mended);
        mended.extend_from_slice(&checksum.to_le_bytes());
        Self::decode(uuid, number, &mended).ok()
    }
}

/// Splits the content from the checksum. Returns `None` if the length of the file is impossible.
fn split(bytes: &[u8]) -> Option<(&[u8], u32)> {
    let at = bytes.len().checked_sub(CHECKSUM_BYTES)?;
    let is_possible = (HEADER_BYTES..=HEADER_BYTES + DICTIONARY_BYTES_MAX).contains(&at);
    is_possible.then(|| (&bytes[..at], u32_at(bytes, at)))
}
