//! Compressed values: zstd with a trained dictionary.
//!
//! Most values are short, and similar to each other. A *dictionary* contains what they have in
//! common, so that a compressed value need not repeat it. Each directory trains dictionaries from
//! its values and numbers them from 1. A record with a compressed value names its dictionary, so
//! dictionaries are never changed or removed. A newer one only serves newer records.

mod codec;
mod dictionaries;
mod training;

pub(crate) use codec::{Frame, VALUE_BYTES_MIN, compress};
pub use dictionaries::DictionaryDamage;
pub(crate) use dictionaries::{Dictionaries, write_copies};
pub(crate) use training::{SAMPLE_BYTES_MAX, train};

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
