//! The memcached-compatible cache as a library. (signatures; bodies are being written)
#![forbid(unsafe_code)]
#![allow(missing_docs, clippy::todo, unused_variables)]

pub use larder_item::{Deadline, Direction, Epoch, KEY_BYTES_MAX, Meta, Second, StoreMode};
use larder_stats::Counter;

#[derive(Clone)]
pub struct Cache {}

/// Who moves the cache's clock.
pub enum Clock {
    /// Every operation reads the system's (coarse) clock: the default of the library.
    System,
    /// The owner calls [`Cache::tick`]: larderd once per loop turn, tests, trace replays.
    Ticked,
}

#[derive(Clone, Debug)]
pub struct Builder {}
impl Builder {
    /// All memory of the cache, everything included, in bytes. Default 64 MiB.
    pub fn memory_bytes(self, bytes: u64) -> Self { todo!() }
    /// Largest item (key + value + overhead) accepted. Default 1 MiB.
    pub fn item_bytes_max(self, bytes: u64) -> Self { todo!() }
    /// Keep cas tokens (16 bytes... 8 bytes an item). Default off in the library, on in larderd.
    pub fn cas(self, on: bool) -> Self { todo!() }
    /// Evict when full; otherwise stores fail with NoMemory. Default on.
    pub fn evict(self, on: bool) -> Self { todo!() }
    pub fn clock(self, clock: Clock) -> Self { todo!() }
    pub fn open(self) -> Result<Cache, OpenError> { todo!() }
}
#[derive(Debug, thiserror::Error)]
pub enum OpenError { #[error("no")] Placeholder }

/// Everything of a store but the value.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub key: &'a [u8],
    pub mode: StoreMode,
    /// Store only over the item with this token.
    pub cas: Option<u64>,
    pub flags: u32,
    pub deadline: Deadline,
}
/// Outcome of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored { Stored { cas: u64 }, NotStored, Exists, NotFound }
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("too large")] TooLarge, #[error("no memory")] NoMemory, #[error("bad key")] Key(larder_item::KeyError),
}
/// Why there was nothing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss { Absent, Expired, Flushed }
/// Outcome of a read.
#[derive(Debug)]
pub enum Read {
    /// The value is in the buffer.
    Hit(Meta),
    /// The value is kept in pieces: only the head was written, take the pieces one by one.
    Large(Meta, LargeValue),
    Miss(Miss),
}
/// A large value being read piece by piece; holds nothing in the cache.
#[derive(Debug)]
pub struct LargeValue {}
impl LargeValue {
    /// Appends the next piece to `out`. Ok(false) when all have been read. Err when the value was evicted meanwhile.
    pub fn next_piece(&mut self, cache: &Cache, out: &mut Vec<u8>) -> Result<bool, Evicted> { todo!() }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("evicted")]
pub struct Evicted;
/// A large value arriving in parts. Dropping it gives everything back. Memory held outside the region: at most one piece.
#[derive(Debug)]
pub struct Upload {}
impl Upload {
    /// Takes the next bytes of the value.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), StoreError> { todo!() }
    /// Publishes the value; `value_bytes` announced must have been pushed.
    pub fn store(self, request: &Request<'_>) -> Result<Stored, StoreError> { todo!() }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic { Number { number: u64, cas: u64 }, NotFound, NonNumeric }

impl Cache {
    pub fn builder() -> Builder { todo!() }
    /// Reads an item: `head` appends whatever shall stand before the value (it may be called again when the read had to be
    /// repeated; `out` is then back at its first length), then the value is appended to `out`.
    pub fn read(&self, key: &[u8], out: &mut Vec<u8>, head: impl FnMut(&mut Vec<u8>, &Meta)) -> Read { todo!() }
    /// The same, giving the item a new deadline first.
    pub fn read_and_touch(&self, key: &[u8], deadline: Deadline, out: &mut Vec<u8>, head: impl FnMut(&mut Vec<u8>, &Meta)) -> Result<Read, StoreError> { todo!() }
    pub fn store(&self, request: &Request<'_>, value: &[u8]) -> Result<Stored, StoreError> { todo!() }
    /// Values longer than this arrive by `upload`, shorter ones by `store` (a store also takes longer ones).
    pub fn upload_bytes_min(&self) -> usize { todo!() }
    /// Begins a store of `value_bytes` that arrive in parts. Err(TooLarge) at once if such an item is not accepted.
    pub fn upload(&self, key: &[u8], value_bytes: usize) -> Result<Upload, StoreError> { todo!() }
    /// Is an item of this size accepted? (key, value) bytes against item_bytes_max.
    pub fn accepts(&self, key_bytes: usize, value_bytes: usize) -> bool { todo!() }
    pub fn delete(&self, key: &[u8]) -> bool { todo!() }
    pub fn touch(&self, key: &[u8], deadline: Deadline) -> Result<bool, StoreError> { todo!() }
    pub fn arithmetic(&self, key: &[u8], direction: Direction, delta: u64) -> Result<Arithmetic, StoreError> { todo!() }
    /// flush_all now.
    pub fn clear(&self) { todo!() }
    /// flush_all when the clock reaches `at`.
    pub fn clear_at(&self, at: Second) { todo!() }
    pub fn now(&self) -> Second { todo!() }
    pub fn epoch(&self) -> Epoch { todo!() }
    /// Moves a ticked clock forward (never back).
    pub fn tick(&self, now: Second) { todo!() }
    /// The engine's share of the counters (those that larder-server does not keep itself), summed over threads.
    pub fn counter(&self, counter: Counter) -> u64 { todo!() }
    /// A snapshot for people and for the `stats` sections.
    pub fn report(&self) -> Report { todo!() }
    /// What stands in the cache, by item size rounded up to 32 bytes: (bytes, count), ascending. Walks every segment.
    pub fn sizes(&self) -> Vec<(u64, u64)> { todo!() }
    /// Sets all counters that are no gauges back to 0.
    pub fn reset_counters(&self) { todo!() }
}
/// Sizes of the parts of the cache.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub memory_bytes: u64, pub segment_bytes: u64, pub segments: u64, pub segments_free: u64, pub segments_index: u64, pub segments_items: u64,
    pub items: u64, pub live_bytes: u64, pub groups: u64, pub overflow_groups: u64, pub index_bytes: u64, pub bytes_written: u64, pub bytes_relocated: u64,
    /// Second in which the oldest item's segment was begun.
    pub oldest: Second,
}
