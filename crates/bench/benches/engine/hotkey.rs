//! One hot key: the cost for the threads that use it, and for threads that write other keys.
//!
//! Writers of one key take turns. If a waiting writer holds an appender or a lock that writers of
//! other keys need, those writers slow down as well. Their throughput is compared with a second
//! case, in which the hot key is written in another cache: this needs the same processor time, but
//! shares nothing. The two cases take turns, slice by slice, so that drift of the machine's speed
//! affects both.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use larder_bench::Draws;

use crate::contender::{self, NAMES};
use crate::rows::{Contenders, compare, print_head};
use crate::workload::{Measured, Operation, VALUE_BYTES, Workload, median};

/// Items in addition to the hot item, which has the number 0.
const OTHERS: u64 = 10_000;
const MEMORY_BYTES: u64 = 64 << 20;
/// Writers of the hot key, and as many writers of other keys. With 1 each writer has a processor.
/// With 4 there are more writers than processors, so that some lose their processor in the middle
/// of a set.
const WRITERS: [usize; 2] = [1, 4];
/// Sets between two checks for the end of the slice.
const BATCH: u64 = 32;

/// Sets per second of all writers of a kind in a slice.
#[derive(Clone, Copy)]
struct Rates {
    hot: f64,
    others: f64,
}

/// Prints the rows for one key, then the rows for writers of other keys.
pub(crate) fn print_hot_key(workload: Workload, slice: Duration) {
    let caches = NAMES.map(|name| [(); 2].map(|()| cache(name)));
    let contenders: Contenders<'_> = caches.each_ref().map(|[cache, _]| &**cache);
    println!();
    println!("one key, a value of {VALUE_BYTES}; as before");
    print_head();
    let one_key = Workload { items: 1, ..workload };
    compare("get, one key", Operation::Get, &contenders, one_key);
    compare("set, one key", Operation::Set(VALUE_BYTES), &contenders, one_key);

    println!();
    println!("writers of {OTHERS} other keys and as many writers of one hot key, million sets/s;");
    println!("others: beside writers of that key in their cache / in a cache of its own");
    println!("hot key  writers  cache         apart  beside  others  hot key alone  beside");
    for writers in WRITERS {
        let mut slices = NAMES.map(|_| [Vec::new(), Vec::new()]);
        for round in 0..workload.rounds.div_ceil(4) {
            for (caches, slices) in caches.iter().zip(&mut slices) {
                let [others, another] = caches.each_ref().map(|cache| &**cache);
                for (hot, slices) in [another, others].into_iter().zip(slices) {
                    slices.push(write(others, hot, (writers, round), slice));
                }
            }
        }
        for (name, slices) in NAMES.iter().zip(&slices) {
            print_row(name, writers, slices);
        }
    }
}

fn print_row(name: &str, writers: usize, slices: &[Vec<Rates>; 2]) {
    let of = |rate: fn(&Rates) -> f64| {
        slices.each_ref().map(|slices| median(slices.iter().map(rate)) / 1e6)
    };
    let ([apart, beside], [alone, hot]) = (of(|rates| rates.others), of(|rates| rates.hot));
    println!(
        "hot key  {writers:>7}  {name:<12} {apart:>6.2} {beside:>7.2} {:>7.3} {alone:>14.2} {hot:>7.2}",
        beside / apart
    );
}

fn cache(name: &str) -> Box<dyn Measured> {
    let capacity = 2 * OTHERS;
    let cache: Box<dyn Measured> = match name {
        "larder" => Box::new(contender::larder(MEMORY_BYTES)),
        other => contender::other(other, capacity, VALUE_BYTES),
    };
    cache.fill(OTHERS + 1, VALUE_BYTES);
    cache
}

/// Runs writers of other keys on one cache and as many writers of the hot key on another, or on the
/// same one, for a slice of time.
fn write(
    others: &dyn Measured,
    hot: &dyn Measured,
    (writers, round): (usize, u64),
    slice: Duration,
) -> Rates {
    let (is_on, ready) = (AtomicBool::new(true), Barrier::new(2 * writers + 1));
    let (is_on, ready) = (&is_on, &ready);
    let run = |cache: &dyn Measured, seed: u64, is_hot: bool| {
        let (mut draws, mut sets) = (Draws::new(round << 8 | seed), 0);
        ready.wait();
        while is_on.load(Relaxed) {
            for _ in 0..BATCH {
                let number = if is_hot { 0 } else { 1 + draws.below(OTHERS) };
                cache.fill_one(number, &[seed as u8; VALUE_BYTES]);
            }
            sets += BATCH;
        }
        sets
    };
    thread::scope(|scope| {
        let start = |cache, is_hot| {
            let run = &run;
            (0..writers as u64)
                .map(|seed| scope.spawn(move || run(cache, seed, is_hot)))
                .collect::<Vec<_>>()
        };
        let threads = [start(others, false), start(hot, true)];
        ready.wait();
        let begun = Instant::now();
        thread::sleep(slice);
        is_on.store(false, Relaxed);
        let took = begun.elapsed().as_secs_f64();
        let [others, hot] = threads.map(|threads| {
            let sets = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
            sets.sum::<u64>() as f64 / took
        });
        Rates { hot, others }
    })
}
