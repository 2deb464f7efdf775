//! What it costs two threads that their items lie in one cache.
//!
//! Each thread has items of its own, so few that hardly two lie in one group of the index. So whatever
//! gets, and sets of a byte, take longer on one cache than on a cache each is for lines that both write, or
//! that one writes and the other reads, without meaning to. Sets of more bytes also pay for memory that one
//! thread freed and the other writes to next, which no layout of the cache's own words avoids.
//!
//! It shows only while both have a processor: slices of time in which one had none are left out.

use std::time::{Duration, Instant};

use crate::contender;
use crate::workload::{Measured, Operation, Popularity, Workload, measure, median};

/// Items of each thread.
const ITEMS: u64 = 100;
const MEMORY_BYTES: u64 = 64 << 20;
/// Operations of each thread in a slice: a few milliseconds at most, within what the system lets a thread
/// run at once.
const OPERATIONS: u64 = 10_000;
/// How many slices are wanted of each kind, and how long they are waited for.
const SLICES: usize = 200;
const TIME_MAX: Duration = Duration::from_secs(20);

pub(crate) fn print_sharing() {
    let caches = [(); 3].map(|()| contender::larder(MEMORY_BYTES));
    let [shared, own, another] = &caches;
    let kinds =
        [[shared, shared], [own, another]].map(|caches| caches.map(|cache| cache as &dyn Measured));
    caches.iter().for_each(|cache| cache.fill(2 * ITEMS));
    println!();
    println!("two threads, {ITEMS} items each, ns/op; sharing: on one cache / on a cache each");
    println!("operation         on one  a cache each  sharing  slices");
    for (name, operation) in
        [("get", Operation::Get), ("set 1 B", Operation::SmallSet), ("set 100 B", Operation::Set)]
    {
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

/// Nanoseconds an operation took, in each slice that counts, for either kind of caches.
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
