//! Sets with memory for a quarter of the stored items.
//!
//! Larder limits bytes, the other caches limit entries. So the comparison is made twice, with
//! different limits for the other caches: as many entries as Larder held when it was full (equal
//! entries), and as many entries as fit in Larder's memory (equal bytes). The second limit follows
//! from the memory of an entry, which a separate process measures for each cache by storing far
//! more items than the cache may hold.

use crate::contender::{self, NAMES};
use crate::footprint::{self, Load};
use crate::rows::{Contenders, beside, compare, print_head};
use crate::workload::{KEY_BYTES, Measured, Operation, Popularity, VALUE_BYTES, Workload};

/// Stored items divided by the items that the caches hold.
const PRESSURE: u64 = 4;
/// The size of a large value: a record spans several pages, but the value is still stored in one
/// piece.
const LARGE_VALUE_BYTES: usize = 10 << 10;

/// The bound that all caches of a table share.
#[derive(Clone, Copy)]
enum Equal {
    Entries,
    Bytes,
}

/// Prints the rows of sets that evict, and the hit ratio afterwards, because speed is useless if
/// the wrong items are evicted.
pub(crate) fn compare_evicting(memory_bytes: u64, workload: Workload) {
    compare_full(memory_bytes, VALUE_BYTES, Equal::Entries, workload);
    compare_full(memory_bytes, VALUE_BYTES, Equal::Bytes, workload);
    // Keeps a slice at a few milliseconds.
    let large = Workload { operations: workload.operations / 5, ..workload };
    compare_full(memory_bytes * 4, LARGE_VALUE_BYTES, Equal::Bytes, large);
}

fn compare_full(memory_bytes: u64, value_bytes: usize, equal: Equal, workload: Workload) {
    let larder_held = held_by_larder(memory_bytes, value_bytes);
    let entries = |name| match equal {
        Equal::Entries => larder_held,
        Equal::Bytes => {
            let load = Load::Overflowing(PRESSURE);
            let bytes = footprint::bytes_per_item(name, larder_held, value_bytes, load);
            (memory_bytes as f64 / bytes) as u64
        }
    };
    let larder = contender::larder(memory_bytes);
    let of_others = std::array::from_fn(|index| entries(NAMES[index + 1]));
    let others = std::array::from_fn(|index| {
        contender::other(NAMES[index + 1], of_others[index], value_bytes)
    });
    let contenders = beside(&larder, &others);

    let items = PRESSURE * larder_held;
    let workload = Workload { items, popularity: Popularity::Zipf, ..workload };
    println!();
    println!(
        "{items} items by Zipf's law, values of {value_bytes}; as before, and what is held then"
    );
    match equal {
        Equal::Entries => println!("equal entries: each cache has room for {larder_held}"),
        Equal::Bytes => println!(
            "equal bytes: {} MiB are {larder_held} entries of larder, {}",
            memory_bytes >> 20,
            entries_of(&of_others)
        ),
    }
    print_head();
    contenders.iter().for_each(|cache| cache.fill(items, value_bytes));
    compare("set, evicting", Operation::Set(value_bytes), &contenders, workload);
    print_held("evicting", &contenders, value_bytes, workload);
    if let Equal::Bytes = equal {
        compare("get or set", Operation::GetOrSet(value_bytes), &contenders, workload);
        print_held("get or set", &contenders, value_bytes, workload);
    }
}

/// Returns the numbers of entries with the names of the other caches.
fn entries_of(others: &[u64; NAMES.len() - 1]) -> String {
    let named =
        others.iter().zip(&NAMES[1..]).map(|(entries, name)| format!("{entries} of {name}"));
    named.collect::<Vec<_>>().join(", ")
}

/// Returns how many items a full cache holds. The cache is not used for other measurements, because
/// this function reads the items, so that the cache would keep them longer than others.
fn held_by_larder(memory_bytes: u64, value_bytes: usize) -> u64 {
    let larder = contender::larder(memory_bytes);
    let stored = PRESSURE * memory_bytes / (KEY_BYTES + value_bytes) as u64;
    larder.fill(stored, value_bytes);
    larder.held(stored, value_bytes)
}

/// Prints how many items each cache holds, and the fraction of lookups that would hit.
fn print_held(after: &str, contenders: &Contenders<'_>, value_bytes: usize, workload: Workload) {
    let asked = Workload { operations: workload.items / 4, ..workload };
    for (name, cache) in NAMES.iter().zip(contenders) {
        let hit_ratio = cache.hit_ratio(asked, workload.rounds);
        println!(
            "held, {after:<17} {name:<12} {} items, {hit_ratio:.4} of gets hit",
            cache.held(workload.items, value_bytes)
        );
    }
}
