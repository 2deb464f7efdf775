//! A build without the feature `zstd`, which neither compresses nor opens a directory with
//! compressed values.

use crate::format::RecordFault;

/// Shorter values are not compressed.
pub(crate) const VALUE_BYTES_MIN: usize = 64;
/// The length of the samples for training.
pub(crate) const SAMPLE_BYTES_MAX: usize = 0;

/// A dictionary, which nothing uses.
pub(crate) struct Dictionary(Vec<u8>);

impl Dictionary {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A compressed value, of which there is none.
pub(crate) enum Frame {}

impl Frame {
    pub(crate) fn stored(&self) -> &[u8] {
        match *self {}
    }
}

/// Does not compress.
pub(crate) fn compress(_value: &[u8], _dictionary: Option<&Dictionary>) -> Option<Frame> {
    None
}

/// Fails. Only a damaged record reaches this, because a directory with compressed values is not
/// opened.
pub(super) fn decompress(
    _stored: &[u8],
    _dictionary: Option<&Dictionary>,
) -> Result<Vec<u8>, RecordFault> {
    Err(RecordFault::Value)
}

/// Does not train.
pub(crate) fn train(
    _samples: &[Vec<u8>],
    _dictionary_bytes: usize,
    _number: u8,
    _current: Option<&Dictionary>,
) -> Option<Vec<u8>> {
    None
}
