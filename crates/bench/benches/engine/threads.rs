//! Throughput by number of threads, up to many more than the machine has processors.
//!
//! Each number of threads has a separate cache; both together are a *scene*. The threads live until
//! the bench ends, like the threads of Go's runtime, and stay registered with the cache. An idle
//! thread makes one call, which registers it, and then only waits. The numbers of threads take
//! turns, slice by slice, so that drift of the machine's speed affects all of them. The kinds of
//! caches are measured one after another, because each is compared only with itself. The other
//! caches do not register threads, and show the cost of the threads themselves.

use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use larder_bench::Draws;

use crate::contender::{self, Contender, Moka, NAMES, QuickCache};
use crate::workload::{VALUE_BYTES, key, median};

const ITEMS: u64 = 10_000;
const MEMORY_BYTES: u64 = 64 << 20;
/// Operations between two checks for the end of the slice.
const BATCH: u64 = 64;

/// Numbers of busy and of idle threads.
const COUNTS: [(usize, usize); 11] = [
    (2, 0),
    (8, 0),
    (16, 0),
    (62, 0),
    (80, 0),
    (200, 0),
    (400, 0),
    (1000, 0),
    (2, 62),
    (2, 1000),
    (16, 1000),
];

#[derive(Clone, Copy)]
enum Load {
    Gets,
    Sets,
    /// Nine lookups, then a set.
    Mixed,
}

const LOADS: [(&str, Load); 3] =
    [("gets", Load::Gets), ("sets", Load::Sets), ("mixed", Load::Mixed)];

/// A counter that does not share its cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Done(AtomicU64);

/// The state that the threads wait for.
#[derive(Default)]
struct Order {
    /// The number of slices so far.
    slices: u64,
    /// The load of the current slice; `None` after the last slice.
    load: Option<Load>,
    /// Threads that have not finished the current slice, or their single call.
    active: usize,
}

/// A cache with its threads.
struct Scene {
    name: &'static str,
    /// The numbers of busy and of idle threads.
    counts: (usize, usize),
    cache: Box<dyn Batches>,
    order: Mutex<Order>,
    changed: Condvar,
    /// True while the threads run the current slice.
    is_on: AtomicBool,
    /// The operations of each busy thread.
    done: Vec<Done>,
    /// Operations per second of each slice, by load.
    rates: Mutex<[Vec<f64>; LOADS.len()]>,
}

/// The operations, compiled for each cache.
trait Batches: Sync {
    fn fill(&self);
    fn run(&self, load: Load, draws: &mut Draws, value: &mut Vec<u8>);
}

impl<C: Contender> Batches for C {
    fn fill(&self) {
        (0..ITEMS).for_each(|number| self.set(&key(number), &[0; VALUE_BYTES]));
    }

    fn run(&self, load: Load, draws: &mut Draws, value: &mut Vec<u8>) {
        for number in 0..BATCH {
            let key = key(draws.below(ITEMS));
            let is_set = match load {
                Load::Gets => false,
                Load::Sets => true,
                Load::Mixed => number % 10 == 9,
            };
            if is_set {
                self.set(&key, &[number as u8; VALUE_BYTES]);
            } else {
                black_box(self.get(&key, value));
            }
        }
    }
}

impl Scene {
    fn new(name: &'static str, counts: (usize, usize)) -> Self {
        let cache: Box<dyn Batches> = match name {
            "larder" => Box::new(contender::larder(MEMORY_BYTES)),
            "quick_cache" => Box::new(QuickCache::new(2 * ITEMS as usize)),
            "moka" => Box::new(Moka::new(2 * ITEMS)),
            "foyer" => Box::new(contender::foyer(2 * ITEMS)),
            "segcache" => Box::new(contender::segcache(2 * ITEMS, VALUE_BYTES)),
            other => panic!("unknown cache {other}"),
        };
        cache.fill();
        let (busy, idle) = counts;
        Self {
            name,
            counts,
            cache,
            order: Mutex::new(Order { active: busy + idle, ..Order::default() }),
            changed: Condvar::new(),
            is_on: AtomicBool::new(true),
            done: (0..busy).map(|_| Done::default()).collect(),
            rates: Mutex::default(),
        }
    }

    /// Runs one thread until the bench is over.
    fn work(&self, thread: usize) {
        let mut draws = Draws::new(thread as u64);
        let mut value = Vec::with_capacity(VALUE_BYTES);
        self.cache.run(Load::Gets, &mut draws, &mut value);
        let mut slices = 0;
        while let Some(load) = self.next_load(&mut slices, self.done.get(thread).is_none()) {
            let done = &self.done[thread].0;
            while self.is_on.load(Relaxed) {
                self.cache.run(load, &mut draws, &mut value);
                done.store(done.load(Relaxed) + BATCH, Relaxed);
            }
        }
    }

    /// Ends a slice and waits for the next one. Idle threads wait for the end of the bench.
    fn next_load(&self, slices: &mut u64, is_idle: bool) -> Option<Load> {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        order.active -= 1;
        if order.active == 0 {
            self.changed.notify_all();
        }
        while order.slices == *slices || (is_idle && order.load.is_some()) {
            order = self.changed.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
        *slices = order.slices;
        order.load
    }

    fn start(&self, load: Option<Load>) {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        while order.active > 0 {
            order = self.changed.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
        self.is_on.store(true, Relaxed);
        let slices = order.slices + 1;
        *order = Order { slices, load, active: self.counts.0 };
        self.changed.notify_all();
    }

    fn done(&self) -> u64 {
        self.done.iter().map(|done| done.0.load(Relaxed)).sum()
    }

    /// Returns the operations per second in a slice of time that begins when all threads run.
    fn measure(&self, load: Load, slice: Duration) -> f64 {
        self.start(Some(load));
        thread::sleep(slice / 4);
        let (began, before) = (Instant::now(), self.done());
        thread::sleep(slice);
        let (took, done) = (began.elapsed(), self.done() - before);
        self.is_on.store(false, Relaxed);
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        while order.active > 0 {
            order = self.changed.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
        done as f64 / took.as_secs_f64()
    }

    fn rate(&self, load: usize) -> f64 {
        median(self.rates.lock().unwrap_or_else(PoisonError::into_inner)[load].iter().copied())
    }
}

/// Returns the numbers of busy threads in `LARDER_THREADS`, such as `1,2,4`, without idle ones.
fn asked_counts() -> Option<Vec<(usize, usize)>> {
    let asked = std::env::var("LARDER_THREADS").ok()?;
    let number = |word: &str| word.parse().expect("LARDER_THREADS has numbers with commas");
    Some(asked.split(',').map(|word| (number(word), 0)).collect())
}

/// Prints the throughput of each cache for each number of threads.
pub(crate) fn print_threads(is_measuring: bool) {
    let (rounds, slice, counts) = match is_measuring {
        true => (5, Duration::from_millis(60), &COUNTS[..]),
        false => (1, Duration::from_millis(1), &COUNTS[..3]),
    };
    let counts = asked_counts().unwrap_or_else(|| counts.to_vec());
    println!();
    println!("many threads, {ITEMS} items, {} MiB: million operations/s, and", MEMORY_BYTES >> 20);
    println!("of best: throughput / that of the best number of threads");
    print!("cache         busy  idle");
    LOADS.iter().for_each(|(name, _)| print!("  {name:>8}  of best"));
    println!();
    for name in NAMES {
        let scenes: Vec<Scene> = counts.iter().map(|counts| Scene::new(name, *counts)).collect();
        run(&scenes, rounds, slice);
        print_rows(&scenes);
    }
}

/// Measures each scene under each load, in turn.
fn run(scenes: &[Scene], rounds: usize, slice: Duration) {
    thread::scope(|scope| {
        for scene in scenes {
            for thread in 0..scene.counts.0 + scene.counts.1 {
                scope.spawn(move || scene.work(thread));
            }
        }
        for _ in 0..rounds {
            for (at, (_, load)) in LOADS.iter().enumerate() {
                for scene in scenes {
                    let rate = scene.measure(*load, slice);
                    scene.rates.lock().unwrap_or_else(PoisonError::into_inner)[at].push(rate);
                }
            }
        }
        scenes.iter().for_each(|scene| scene.start(None));
    });
}

/// Prints a line for each number of threads of a cache: millions of operations per second, and
/// their ratio to the best.
fn print_rows(scenes: &[Scene]) {
    let best = |load| scenes.iter().map(|scene| scene.rate(load)).fold(f64::MIN_POSITIVE, f64::max);
    let bests: Vec<f64> = (0..LOADS.len()).map(best).collect();
    for scene in scenes {
        let (busy, idle) = scene.counts;
        print!("{:<12} {busy:>5} {idle:>5}", scene.name);
        for (load, best) in bests.iter().enumerate() {
            let rate = scene.rate(load);
            print!("  {:>8.2}  {:>7.2}", rate / 1e6, rate / best);
        }
        println!();
    }
}
