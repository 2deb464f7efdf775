//! A bulk load: one thread stores items that are new to an empty cache.
//!
//! A cache grows its tables during the load. The time of the slowest set shows whether a single set
//! pays for growth that many sets need. The bench measures the processor time of the thread, so
//! that other work on the machine does not add to it.

use nix::time::{ClockId, clock_gettime};

use crate::contender::{self, NAMES};
use crate::workload::{Measured, VALUE_BYTES};

/// The percentages of sets that take at most the printed time.
const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 99.99];

/// Loads every cache and prints the time of all sets together and the distribution of single sets.
pub(crate) fn print_loads(items: u64) {
    println!();
    println!("bulk load of {items} new items; processor time of a set in us");
    println!("all: ns/set without a clock around each set; over: sets of more than 1 ms");
    println!("bulk load    cache            all     p50     p99   p99.9  p99.99      max  over");
    for name in NAMES {
        let unclocked_ns = load(&*empty(name, items), items);
        let times = clocked_load(&*empty(name, items), items);
        let of = |percent: f64| times[((times.len() - 1) as f64 * percent / 100.0) as usize];
        let [p50, p99, p999, p9999] = PERCENTILES.map(|percent| f64::from(of(percent)) / 1000.0);
        let max = f64::from(of(100.0)) / 1000.0;
        let over = times.iter().filter(|ns| **ns > 1_000_000).count();
        println!(
            "bulk load    {name:<12} {:>7.1} {p50:>7.2} {p99:>7.2} {p999:>7.2} {p9999:>7.2} {max:>8.1} {over:>5}",
            unclocked_ns as f64 / items as f64
        );
    }
}

/// Returns an empty cache with space for a quarter more items, so that nothing is evicted.
fn empty(name: &str, items: u64) -> Box<dyn Measured> {
    let capacity = items * 5 / 4;
    match name {
        "larder" => Box::new(contender::larder(capacity * 192 + (4 << 20))),
        other => contender::other(other, capacity, VALUE_BYTES),
    }
}

/// Stores all items and returns the processor time in nanoseconds.
fn load(cache: &dyn Measured, items: u64) -> u64 {
    let begun = thread_ns();
    cache.fill(items, VALUE_BYTES);
    thread_ns() - begun
}

/// Stores all items and returns the processor times of the sets in nanoseconds, shortest first.
fn clocked_load(cache: &dyn Measured, items: u64) -> Vec<u32> {
    // Allocates its memory before the first set.
    let mut times = vec![1; items as usize];
    let mut before = thread_ns();
    for (number, time) in times.iter_mut().enumerate() {
        cache.fill_one(number as u64, &[0; VALUE_BYTES]);
        let after = thread_ns();
        *time = (after - before) as u32;
        before = after;
    }
    times.sort_unstable();
    times
}

/// Returns the processor time of this thread so far, in nanoseconds. A call costs a fraction of a
/// microsecond.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a thread has a clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}
