//! Compares gets and sets of `larder::Cache` with quick_cache, moka, foyer (its cache in memory)
//! and segcache.
//!
//! The part `memory` uses a million items with keys of 20 bytes and values of 100. Keys are drawn
//! uniformly, by one thread and then by two. A get copies the value into a buffer of the caller; a
//! set overwrites. The other parts are:
//!
//! - `overwriting`: sets of a few hot items;
//! - `eviction`: sets that evict, with keys drawn by Zipf's law, at equal entries and equal bytes;
//! - `hotkey`: one hot key, and its effect on writers of other keys;
//! - `sharing`: the cost of sharing a cache between threads;
//! - `threads`: the throughput of many threads;
//! - `peers`: a file that many processes share;
//! - `segments`: a cache of many segments;
//! - `footprint`: the memory of an item;
//! - `bulk`: a bulk load of ten million items.
//!
//! The caches take turns in short *slices* of time, so that a change of the machine's speed affects
//! all of them. `cargo bench -p larder-bench --bench engine -- sharing threads` prints only these
//! parts. `LARDER_ROUNDS` (1,000) is the number of slices for each cache and operation; parts with
//! expensive operations use a quarter of them. `LARDER_ITEMS` (1,000,000) is the number of items,
//! `LARDER_MEMORY_MIB` (2,048) the memory of the largest cache of `segments`, and `LARDER_THREADS`
//! (2,8,…) the numbers of threads of `threads`. Without `--bench`, which cargo bench adds, a
//! smaller run only tests that everything works.
//!
//! Files in reading order: [`contender`], [`workload`], [`rows`], [`overwriting`], [`eviction`],
//! [`hotkey`], [`sharing`], [`threads`], [`peers`], [`segments`], [`footprint`], [`bulk`].
#![forbid(unsafe_code)]

mod bulk;
mod contender;
mod eviction;
mod footprint;
mod hotkey;
mod overwriting;
mod peers;
mod rows;
mod segments;
mod sharing;
mod threads;
mod workload;

use std::time::Duration;

use larder_bench::{is_asked_for, setting};

use contender::NAMES;
use rows::{beside, compare, compare_batched, print_head};
use workload::{Measured, Operation, Popularity, VALUE_BYTES, Workload};

fn main() {
    if footprint::has_printed_one() || peers::has_been_one() {
        return;
    }
    let is_measuring = larder_bench::is_measuring();
    println!("{}", versions());
    let items = setting("LARDER_ITEMS", if is_measuring { 1_000_000 } else { 10_000 });
    let rounds = setting("LARDER_ROUNDS", if is_measuring { 1000 } else { 10 });
    let workload = Workload { items, operations: 5000, rounds, popularity: Popularity::Even };
    // For operations that take a microsecond or more, on six or eight caches.
    let fewer = Workload { rounds: rounds.div_ceil(4), ..workload };
    if is_asked_for("memory") {
        compare_in_memory(workload);
    }
    if is_asked_for("overwriting") {
        overwriting::compare_overwriting(workload);
    }
    if is_asked_for("eviction") {
        eviction::compare_evicting(if is_measuring { 64 << 20 } else { 2 << 20 }, fewer);
    }
    if is_asked_for("hotkey") {
        hotkey::print_hot_key(fewer, Duration::from_millis(if is_measuring { 30 } else { 1 }));
    }
    if is_asked_for("sharing") {
        sharing::print_sharing();
    }
    if is_asked_for("threads") {
        threads::print_threads(is_measuring);
    }
    if is_asked_for("peers") {
        peers::print_peers(fewer, is_measuring);
    }
    if is_asked_for("segments") {
        let mib = setting("LARDER_MEMORY_MIB", if is_measuring { 2048 } else { 32 });
        segments::print_segments(mib << 20, fewer);
    }
    if is_asked_for("footprint") {
        footprint::print_footprints(items);
    }
    if is_asked_for("bulk") {
        bulk::print_loads(10 * items);
    }
}

/// Returns the names and versions of the caches.
fn versions() -> String {
    let packages = ["larder", "quick_cache", "moka", "foyer-memory", "segcache"];
    packages.map(larder_bench::package).join(", ")
}

/// Prints the rows of caches with memory for twice the items, so that nothing is evicted.
fn compare_in_memory(workload: Workload) {
    let items = workload.items;
    let larder = contender::larder(MEMORY_BYTES);
    let others = contender::others(2 * items, VALUE_BYTES);
    let contenders = beside(&larder, &others);
    for (name, cache) in NAMES.iter().zip(contenders) {
        cache.fill(items, VALUE_BYTES);
        assert_eq!(cache.held(items, VALUE_BYTES), items, "{name} has evicted items");
    }

    println!("{items} items, keys of 20 bytes, values of {VALUE_BYTES}");
    print_head();
    compare("get", Operation::Get, &contenders, workload);
    compare_batched(&larder, workload);
    compare("set", Operation::Set(VALUE_BYTES), &contenders, workload);
    let held = larder.held(items, VALUE_BYTES);
    println!("items held after the sets: larder {held} of {items}");
}

/// About twice the bytes of the items, so that sets find free memory.
const MEMORY_BYTES: u64 = 256 << 20;
