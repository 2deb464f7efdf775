//! The cost of sharing one cache for two threads.
//!
//! Each thread uses different items, so few that two rarely share a group of the index. If lookups,
//! or sets of one byte, take longer with one cache for both threads than with one cache for each,
//! the threads contend for cache lines (false sharing). Larger sets are also slower because one
//! thread reuses memory that the other has freed. No layout of the cache's metadata can avoid that.
//!
//! The cost is visible only while both threads run. Slices of time in which one thread did not have
//! a processor are left out.

use std::time::{Duration, Instant};

use crate::contender;
use crate::workload::{Measured, Operation, Popularity, VALUE_BYTES, Workload, measure, median};

/// Items of each thread.
const ITEMS: u64 = 100;
const MEMORY_BYTES: u64 = 64 << 20;
/// Operations of each thread in a slice: a few milliseconds at most, within a scheduler time slice.
const OPERATIONS: u64 = 10_000;
/// The number of clean slices to collect for each case, and the time limit for that.
const SLICES: usize = 200;
const TIME_MAX: Duration = Duration::from_secs(20);

pub(crate) fn print_sharing() {
    let caches = [(); 3].map(|()| contender::larder(MEMORY_BYTES));
    let [shared, own, another] = &caches;
    let kinds =
        [[shared, shared], [own, another]].map(|caches| caches.map(|cache| cache as &dyn Measured));
    caches.iter().for_each(|cache| cache.fill(2 * ITEMS, VALUE_BYTES));
    println!();
    println!("two threads, {ITEMS} items each, ns/op; sharing: on one cache / on a cache each");
    println!("operation         on one  a cache each  sharing  slices");
    for (name, operation) in [
        ("get", Operation::Get),
        ("set 1 B", Operation::Set(1)),
        ("set 100 B", Operation::Set(VALUE_BYTES)),
    ] {
        let [on_one, on_own] = measure_in_turn(kinds, operation);
        let slices = on_one.len().min(on_own.len());
        if slices < SLICES / 10 {
            println!(
                "sharing {name:<9}      -             -        -  {slices:>6}: the machine has other work"
            );
            continue;
        }
        let [on_one, on_own] = [on_one, on_own].map(|slices| median(slices.into_iter()));
        println!(
            "sharing {name:<9} {on_one:>6.1} {on_own:>13.1} {:>8.2}  {slices:>6}",
            on_one / on_own
        );
    }
}

/// Returns the nanoseconds of an operation in each clean slice, for both cases.
fn measure_in_turn(kinds: [[&dyn Measured; 2]; 2], operation: Operation) -> [Vec<f64>; 2] {
    let workload = Workload {
        items: 2 * ITEMS,
        operations: OPERATIONS,
        rounds: 0,
        popularity: Popularity::Own { threads: 2 },
    };
    let (started, mut slices) = (Instant::now(), [Vec::new(), Vec::new()]);
    for round in 0.. {
        for (caches, slices) in kinds.iter().zip(&mut slices) {
            let slice = measure(caches, operation, workload, round);
            if slice.is_clean {
                slices.push(slice.ns);
            }
        }
        if slices.iter().all(|slices| slices.len() >= SLICES) || started.elapsed() > TIME_MAX {
            break;
        }
    }
    slices
}
