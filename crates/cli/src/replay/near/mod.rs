//! `larder replay --near F`: plays a trace on near caches in front of an origin, all of them in
//! this process.
//!
//! ```text
//! play ─▶ Cluster ─▶ NearCache: larder::copies over a cache ─▶ Origin: a cache, and interest
//!            └◀─ messages, without delay ─────────────────────────┘
//! ```
//!
//! The near caches and the origin are larder's caches, and the copies those of larderd. What is
//! simulated is the network: a fetch returns at once, and a message arrives before the set that
//! caused it returns.

mod bound;
mod cluster;
mod copies;
mod origin;
mod store;

use anyhow::{Context, Result};
use larder::{Cache, Clock, Counter};
use larder_loadgen::trace::Trace;

use self::cluster::{Cluster, Routes};
use self::copies::NearCache;
use self::origin::Origin;
use super::Arguments;
use super::key::Key;
use super::pace::Pace;
use super::play::{Target, play};
use super::report::{Report, ratio};

/// Replays a trace on a cluster of `near_count` near caches, and compares it with its origin alone.
///
/// # Errors
/// A cache cannot be opened.
pub(super) fn replay(trace: Trace, near_count: u32, arguments: &Arguments) -> Result<Report> {
    let memory_bytes = arguments.near_memory.context("--near-memory BYTES is required")?;
    let request_count = trace.request_count();
    let trace = if arguments.memory.is_none() { trace.with_stores_first() } else { trace };
    // The second half of the requests is counted.
    let counted_from = trace.request_count() - request_count.div_ceil(2);
    let routes = Routes { seed: arguments.drawn.seed, near_count: near_count as usize };
    let open = || open_origin(&trace, arguments);

    let origin = Origin::new(open()?, arguments.drawn.seed);
    let capacity = capacity(&trace, Origin::new(open()?, arguments.drawn.seed), memory_bytes)?;
    let bound = bound::hit_ratio(&trace, routes, &origin, capacity, counted_from);
    let cache = origin.cache.clone();
    let mut cluster = Cluster::open(origin, routes, memory_bytes, counted_from)?;
    let pace = Pace::new(1);
    let counts = play(&trace, &pace.walker(0), &mut cluster)?;
    let mut alone = Alone { cache: open()?, counted_from, absent: 0 };
    play(&trace, &Pace::new(1).walker(0), &mut alone)?;

    let near = &cluster.counts;
    let mut report = Report::of(&counts, request_count);
    report.push("near_caches", near_count);
    report.push("near_capacity", capacity);
    report.push("near_copies", cluster.copies_mean());
    report.push("near_gets", near.gets);
    report.push("near_hits", near.hits);
    report.push("near_hit_ratio", ratio(near.hits, near.gets));
    report.push("near_hit_ratio_fifo", format!("{bound:.4}"));
    report.push("near_writes", near.writes);
    report.push("messages", near.messages);
    report.push("messages_per_write", ratio(near.messages, near.writes));
    report.push("copies_dropped", near.dropped);
    report.push("origin_fetches", near.fetches);
    report.push("origin_misses", near.absent);
    report.push("origin_misses_alone", alone.absent);
    report.push("origin_evictions", cache.counter(Counter::Evictions));
    Ok(report)
}

/// Opens a cache with the memory of `--memory`, or with more than all items need.
fn open_origin(trace: &Trace, arguments: &Arguments) -> Result<Cache> {
    let ample = || {
        let mut sizes = vec![0; trace.key_count() as usize];
        for (_, request) in trace.requests() {
            let size = &mut sizes[request.id as usize];
            *size = request.item_bytes.max(*size);
        }
        let bytes: u64 = sizes.iter().map(|bytes| u64::from(*bytes) + AROUND_ITEM_BYTES).sum();
        (bytes * 2).max(AMPLE_BYTES_MIN)
    };
    let memory_bytes = arguments.memory.unwrap_or_else(ample);
    let cache = Cache::builder()
        .memory_bytes(memory_bytes)
        .item_bytes_max(arguments.item_bytes_max.unwrap_or(memory_bytes / 2))
        .cas(true)
        .clock(Clock::Ticked)
        .open()?;
    Ok(cache)
}

/// Returns the number of items of the trace that a near cache holds after each was read once.
fn capacity(trace: &Trace, mut origin: Origin, memory_bytes: u64) -> Result<usize> {
    let mut near = NearCache::open(memory_bytes, 0)?;
    let (mut value, mut read) = (Vec::new(), Vec::new());
    let mut is_stored = vec![false; trace.key_count() as usize];
    for (_, request) in trace.requests() {
        if !std::mem::replace(&mut is_stored[request.id as usize], true) {
            let key = Key::of(request.id);
            value.resize((request.item_bytes as usize).saturating_sub(Key::BYTES), 0);
            origin.set(&key, &value, 0)?;
            near.get(&mut origin, &key, &mut read);
        }
    }
    Ok(usize::try_from(near.len())?)
}

/// The origin without near caches.
struct Alone {
    cache: Cache,
    counted_from: usize,
    /// The gets of items that it does not have, among the counted requests.
    absent: u64,
}

impl Target for Alone {
    fn begin_request(&mut self, index: usize) {
        if index == self.counted_from {
            self.absent = 0;
        }
    }

    fn begin_second(&mut self, second: u32) {
        Target::begin_second(&mut self.cache, second);
    }

    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool> {
        let is_there = Target::get(&mut self.cache, key, value)?;
        self.absent += u64::from(!is_there);
        Ok(is_there)
    }

    fn set(&mut self, key: &Key, value: &[u8], ttl_secs: u32) -> Result<bool> {
        Target::set(&mut self.cache, key, value, ttl_secs)
    }
}

/// An origin with all items has at least this memory.
const AMPLE_BYTES_MIN: u64 = 64 << 20;

/// More than an item and its entry in the index use beside key and value.
const AROUND_ITEM_BYTES: u64 = 64;
