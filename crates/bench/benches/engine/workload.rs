//! The operations on the caches, and their times. In a *round* each of the compared caches has one
//! slice of time.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use larder_bench::{Draws, mix};
use larder_testkit::waited_for_processor;
use rand::SeedableRng;
use rand::distr::Distribution;
use rand::rngs::SmallRng;
use rand_distr::Zipf;

use crate::contender::Contender;

pub(crate) const KEY_BYTES: usize = 20;
pub(crate) const VALUE_BYTES: usize = 100;
/// Keys of a batch.
const BATCH: usize = 16;

/// The keys, and the number of operations.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    /// Number of items.
    pub(crate) items: u64,
    /// Operations of each thread in a round: few enough that a round is shorter than a time slice
    /// of the scheduler.
    pub(crate) operations: u64,
    pub(crate) rounds: u64,
    pub(crate) popularity: Popularity,
}

/// The distribution of keys.
#[derive(Clone, Copy)]
pub(crate) enum Popularity {
    /// Uniform.
    Even,
    /// Zipf's law with exponent 1: the first key is drawn twice as often as the second.
    Zipf,
    /// Uniform, with different keys for every thread.
    Own { threads: u64 },
}

#[derive(Clone, Copy)]
pub(crate) enum Operation {
    Get,
    /// Lookups of [`BATCH`] keys that are prefetched together.
    BatchedGet,
    /// A set of a value of this many bytes.
    Set(usize),
    /// A get, followed on a miss by a set of a value of this many bytes.
    GetOrSet(usize),
}

impl Operation {
    /// Returns the bytes of the values that the operation stores.
    fn value_bytes(self) -> usize {
        match self {
            Self::Get | Self::BatchedGet => 0,
            Self::Set(value_bytes) | Self::GetOrSet(value_bytes) => value_bytes,
        }
    }
}

impl Workload {
    /// Returns the numbers of the keys that a thread uses in a round.
    pub(crate) fn draw(&self, round: u64, thread: u64) -> Vec<u32> {
        let seed = round << 8 | thread;
        let mut draws = Draws::new(seed);
        let numbers = 0..self.operations;
        match self.popularity {
            Popularity::Even => numbers.map(|_| draws.below(self.items) as u32).collect(),
            Popularity::Own { threads } => {
                let share = self.items / threads;
                numbers.map(|_| (thread * share + draws.below(share)) as u32).collect()
            }
            Popularity::Zipf => {
                let zipf = Zipf::new(self.items as f64, 1.0).expect("the workload has items");
                let mut random = SmallRng::seed_from_u64(seed);
                numbers.map(|_| zipf.sample(&mut random) as u32 - 1).collect()
            }
        }
    }
}

/// The time of one thread's operations in a slice.
#[derive(Clone, Copy)]
pub(crate) struct Took {
    /// Nanoseconds of an operation.
    pub(crate) ns: f64,
    began: Instant,
    ended: Instant,
    /// The part of that time in which the thread was runnable but had no processor.
    waited: Duration,
}

/// The time of all threads' operations in a slice.
#[derive(Clone, Copy)]
pub(crate) struct Slice {
    /// Nanoseconds of an operation, averaged over the threads.
    pub(crate) ns: f64,
    /// True if all threads ran in parallel without waiting for a processor. Otherwise the slice
    /// measures other work on the machine, or misses the cost of contention.
    pub(crate) is_clean: bool,
}

impl Slice {
    fn of(threads: &[Took]) -> Self {
        let begins = || threads.iter().map(|took| took.began);
        let ends = || threads.iter().map(|took| took.ended);
        let span = |from: Option<Instant>, to: Option<Instant>| {
            from.zip(to).map_or(Duration::ZERO, |(from, to)| to.saturating_duration_since(from))
        };
        let all = span(begins().min(), ends().max());
        let together = span(begins().max(), ends().min());
        let dirty = all.mul_f64(DIRTY_MAX);
        Self {
            ns: threads.iter().map(|took| took.ns).sum::<f64>() / threads.len() as f64,
            is_clean: together + dirty >= all && threads.iter().all(|took| took.waited <= dirty),
        }
    }
}

/// The largest share of a clean slice in which only one thread runs, or a thread waits.
const DIRTY_MAX: f64 = 0.1;

/// Returns the median of the clean slices and their share; NaN if there are too few.
pub(crate) fn clean_ns(slices: &[Slice]) -> (f64, f64) {
    let clean: Vec<f64> =
        slices.iter().filter(|slice| slice.is_clean).map(|slice| slice.ns).collect();
    let share = clean.len() as f64 / slices.len() as f64;
    (if share < CLEAN_MIN { f64::NAN } else { median(clean.into_iter()) }, share)
}

const CLEAN_MIN: f64 = 0.02;

/// The operations of a contender, compiled separately for each contender so that they are inlined.
pub(crate) trait Measured: Sync {
    /// Stores all items, with values of this many bytes.
    fn fill(&self, items: u64, value_bytes: usize);

    /// Stores the item with this number.
    fn fill_one(&self, number: u64, value: &[u8]);

    /// Returns how many of the items are in the cache with a complete value of this many bytes.
    fn held(&self, items: u64, value_bytes: usize) -> u64;

    /// Returns the hit ratio of the lookups of a round.
    fn hit_ratio(&self, workload: Workload, round: u64) -> f64;

    /// Runs one thread's operations on the keys with these numbers. Returns the time of one.
    fn operate(&self, operation: Operation, numbers: &[u32]) -> Took;
}

impl<C: Contender> Measured for C {
    fn fill(&self, items: u64, value_bytes: usize) {
        let value = vec![0; value_bytes];
        (0..items).for_each(|number| self.set(&key(number), &value));
        self.settle();
    }

    fn fill_one(&self, number: u64, value: &[u8]) {
        self.set(&key(number), value);
    }

    fn held(&self, items: u64, value_bytes: usize) -> u64 {
        let mut value = Vec::new();
        let is_held =
            |number: &u64| self.get(&key(*number), &mut value) && is_whole(&value, value_bytes);
        (0..items).filter(is_held).count() as u64
    }

    fn hit_ratio(&self, workload: Workload, round: u64) -> f64 {
        let mut value = Vec::new();
        let numbers = workload.draw(round, 0);
        let hits = numbers.iter().filter(|number| self.get(&key(u64::from(**number)), &mut value));
        hits.count() as f64 / workload.operations as f64
    }

    fn operate(&self, operation: Operation, numbers: &[u32]) -> Took {
        let mut value = Vec::with_capacity(VALUE_BYTES);
        let stored = vec![numbers[0] as u8; operation.value_bytes()];
        let (waited, began) = (waited_for_processor(), Instant::now());
        match operation {
            Operation::Get => {
                for number in numbers {
                    black_box(self.get(&key(u64::from(*number)), &mut value));
                    black_box(&value);
                }
            }
            Operation::BatchedGet => {
                for numbers in numbers.as_chunks::<BATCH>().0 {
                    let keys = numbers.map(|number| key(u64::from(number)));
                    self.prefetch(keys.iter().map(|key| &key[..]));
                    for key in &keys {
                        black_box(self.get(key, &mut value));
                        black_box(&value);
                    }
                }
            }
            Operation::Set(_) => {
                numbers.iter().for_each(|number| self.set(&key(u64::from(*number)), &stored));
            }
            Operation::GetOrSet(_) => {
                for number in numbers {
                    let key = key(u64::from(*number));
                    if !self.get(&key, &mut value) {
                        self.set(&key, &stored);
                    }
                    black_box(&value);
                }
            }
        }
        let ended = Instant::now();
        Took {
            ns: (ended - began).as_nanos() as f64 / numbers.len() as f64,
            began,
            ended,
            waited: waited_for_processor() - waited,
        }
    }
}

/// Measures a slice, which has the operations of one round. Thread `n` uses `caches[n]`.
pub(crate) fn measure(
    caches: &[&dyn Measured],
    operation: Operation,
    workload: Workload,
    round: u64,
) -> Slice {
    let ready = Barrier::new(caches.len());
    let thread = |(thread, cache): (usize, &&dyn Measured)| {
        let numbers = workload.draw(round, thread as u64);
        ready.wait();
        cache.operate(operation, &numbers)
    };
    let took: Vec<Took> = std::thread::scope(|scope| {
        let thread = &thread;
        let caches = caches.iter().enumerate();
        let threads: Vec<_> = caches.map(|cache| scope.spawn(move || thread(cache))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    Slice::of(&took)
}

/// Returns the key with this number: arbitrary bytes.
pub(crate) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"item................";
    key[4..12].copy_from_slice(&mix(number).to_le_bytes());
    key[12..].copy_from_slice(&number.to_le_bytes());
    key
}

/// True if a complete value was copied. Every set stores one repeated byte.
fn is_whole(value: &[u8], value_bytes: usize) -> bool {
    value.len() == value_bytes && value.iter().all(|byte| *byte == value[0])
}

pub(crate) fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
