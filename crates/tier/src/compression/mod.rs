//! Compressed values: zstd with a trained dictionary.
//!
//! Most values are short, and similar to each other. A *dictionary* contains what they have in
//! common, so that a compressed value need not repeat it. Each directory trains dictionaries from
//! its values and numbers them from 1. A record with a compressed value names its dictionary, so
//! dictionaries are never changed or removed. A newer one only serves newer records.

#[cfg(not(feature = "zstd"))]
mod absent;
#[cfg(feature = "zstd")]
mod codec;
mod dictionaries;
#[cfg(feature = "zstd")]
mod training;

#[cfg(not(feature = "zstd"))]
use absent as codec;
#[cfg(not(feature = "zstd"))]
pub(crate) use absent::{SAMPLE_BYTES_MAX, train};
pub(crate) use codec::{Frame, VALUE_BYTES_MIN, compress};
pub use dictionaries::DictionaryDamage;
pub(crate) use dictionaries::{Dictionaries, write_copies};
#[cfg(feature = "zstd")]
pub(crate) use training::{SAMPLE_BYTES_MAX, train};

/// True if this build can compress and decompress values.
pub const IS_BUILT: bool = cfg!(feature = "zstd");

/// The settings of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The length of a dictionary, in bytes, at most
    /// [`DICTIONARY_BYTES_MAX`](crate::format::DICTIONARY_BYTES_MAX).
    pub dictionary_bytes: usize,
    /// The length of the log at which the first dictionary is trained, in bytes.
    pub train_after_bytes: u64,
}

impl Default for Compression {
    /// Dictionaries of 16 KiB. The first one is trained when the log has 16 MiB.
    fn default() -> Self {
        Self { dictionary_bytes: 16 << 10, train_after_bytes: 16 << 20 }
    }
}
