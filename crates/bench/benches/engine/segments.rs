//! The cost of a set that evicts, depending on the number of segments.
//!
//! A cache that was opened small and then grew keeps its small segments of 64 KiB. So it has as
//! many segments as a cache with 16 times the memory. A second cache with the same memory has
//! segments of the usual size. It shows the part of the cost that does not depend on the number of
//! segments: with more memory, a smaller part of it is in the processor's caches.

use larder::Cache;

use crate::contender;
use crate::workload::{KEY_BYTES, Measured, Operation, Popularity, Workload, clean_ns, measure};

/// The memory at opening that results in small segments.
const SMALL_MEMORY_BYTES: u64 = 16 << 20;
const SMALL_SEGMENT_BYTES: u64 = 64 << 10;
/// Large, so that a segment has few records and choosing a segment is a large part of the cost.
const VALUE_BYTES: usize = 1000;
/// Stored items divided by the items that the caches hold.
const PRESSURE: u64 = 4;

/// Prints the time of a set by number of segments, up to the number for `memory_bytes_max`.
pub(crate) fn print_segments(memory_bytes_max: u64, workload: Workload) {
    println!();
    println!(
        "sets of {VALUE_BYTES} bytes that evict, ns/set; of few: the time / that with the fewest"
    );
    println!("segments, of usual: / that with as much memory in segments of the usual size");
    println!("segments  MiB        ns/set  of few  usual ns/set  of usual  clean");
    let memories = [SMALL_MEMORY_BYTES, 16 * SMALL_MEMORY_BYTES, memory_bytes_max];
    let mut memories = memories.map(|bytes| bytes.min(memory_bytes_max)).to_vec();
    memories.dedup();
    let pairs: Vec<[Cache; 2]> = memories
        .iter()
        .map(|bytes| [in_small_segments(*bytes), contender::larder(*bytes)])
        .collect();
    let items = |memory_bytes| PRESSURE * memory_bytes / (KEY_BYTES + VALUE_BYTES) as u64;
    for (memory_bytes, pair) in memories.iter().zip(&pairs) {
        pair.iter().for_each(|cache| cache.fill(items(memory_bytes) / 2, VALUE_BYTES));
    }
    let mut slices: Vec<_> = pairs.iter().map(|_| [Vec::new(), Vec::new()]).collect();
    for round in 0..workload.rounds {
        for ((memory_bytes, pair), slices) in memories.iter().zip(&pairs).zip(&mut slices) {
            let items = items(memory_bytes);
            let workload = Workload { items, popularity: Popularity::Even, ..workload };
            for (cache, slices) in pair.iter().zip(slices) {
                slices.push(measure(&[cache], Operation::Set(VALUE_BYTES), workload, round));
            }
        }
    }
    let (few_ns, _) = clean_ns(&slices[0][0]);
    for (memory_bytes, slices) in memories.iter().zip(&slices) {
        let [(ns, clean), (usual_ns, _)] = slices.each_ref().map(|slices| clean_ns(slices));
        println!(
            "{:>8}  {:<8} {ns:>8.1} {:>7.3} {usual_ns:>13.1} {:>9.3}   {clean:.2}",
            memory_bytes / SMALL_SEGMENT_BYTES,
            memory_bytes >> 20,
            ns / few_ns,
            ns / usual_ns
        );
    }
}

fn in_small_segments(memory_bytes: u64) -> Cache {
    let builder = Cache::builder().memory_bytes(SMALL_MEMORY_BYTES.min(memory_bytes));
    let cache = builder.memory_bytes_max(memory_bytes).open();
    let cache = cache.expect("the machine has some memory");
    cache.set_memory_limit(memory_bytes).expect("the cache may grow to that");
    cache
}
