//! The stores to which changes are applied.

use anyhow::Result;
use larder_bench::mix;
use larder_tier::format::Record;

pub(super) const KEY_BYTES: usize = 16;
pub(super) const VALUE_BYTES: usize = 976;
/// Bytes of a put in Larder's log.
pub(super) const RECORD_BYTES: u64 = Record::item_bytes(KEY_BYTES, VALUE_BYTES) as u64;
/// Bytes of a removal in Larder's log.
pub(super) const TOMBSTONE_BYTES: u64 = Record::item_bytes(KEY_BYTES, 0) as u64;

/// A store of keys by their numbers.
pub(super) trait Target {
    fn put(&mut self, put: Put) -> Result<()>;
    /// Removes a key that has a value.
    fn remove(&mut self, key: u64) -> Result<()>;
    /// Advances the clock by a second.
    fn pass_second(&mut self) -> Result<()>;
    /// Waits until all changes are on the disk, and returns the bytes written since the beginning.
    fn written(&mut self) -> Result<Written>;
}

#[derive(Clone, Copy)]
pub(super) struct Put {
    pub(super) key: u64,
    /// True if the key has no value before this put.
    pub(super) is_new: bool,
    /// Seconds after which the value expires.
    pub(super) ttl_secs: Option<u32>,
}

#[derive(Clone, Copy)]
pub(super) struct Written {
    pub(super) bytes: u64,
    /// Written zeros, which are not included in `bytes`.
    pub(super) zeroed_bytes: u64,
}

/// Returns the text of a key. Adjacent numbers are far apart in the order of the texts.
pub(super) fn key_text(key: u64) -> String {
    format!("{:016x}", mix(key))
}
