//! Gets and sets of `larder::Cache` beside quick_cache and moka.
//!
//! A million items with keys of 20 bytes and values of 100, keys drawn at random, all alike; one thread,
//! then two. A get copies the value into a buffer of the caller; a set overwrites. Caches take turns,
//! round by round, so that the drift of the machine's speed falls on all; what is printed is the median
//! of the rounds, and of their ratios.
//!
//! Without `--bench`, which cargo bench adds, a smaller run only shows that everything works.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::Instant;

/// A cache under measurement.
trait Contender: Sync {
    /// Replaces `value` by that of the key; false where there is none.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool;

    fn set(&self, key: &[u8], value: &[u8]);
}

/// What every contender can, compiled for each: its operations are inlined.
trait Measured {
    /// Stores all items.
    fn fill(&self, extent: Extent);

    /// How many of the items are there.
    fn hits(&self, extent: Extent) -> u64;

    /// Nanoseconds that an operation takes a thread, in one round; each round draws other keys.
    fn measure(&self, operation: Operation, thread_count: u64, extent: Extent, round: u64) -> f64;
}

impl<C: Contender> Measured for C {
    fn fill(&self, extent: Extent) {
        (0..extent.items).for_each(|number| self.set(&key(number), &[0; VALUE_BYTES]));
    }

    fn hits(&self, extent: Extent) -> u64 {
        let mut value = Vec::new();
        (0..extent.items).filter(|number| self.get(&key(*number), &mut value)).count() as u64
    }

    fn measure(&self, operation: Operation, thread_count: u64, extent: Extent, round: u64) -> f64 {
        let ready = Barrier::new(thread_count as usize);
        let thread = |seed| {
            ready.wait();
            let started = Instant::now();
            operate(self, operation, extent, round * thread_count + seed);
            started.elapsed().as_nanos() as f64 / extent.operations as f64
        };
        std::thread::scope(|scope| {
            let thread = &thread;
            let threads: Vec<_> =
                (0..thread_count).map(|seed| scope.spawn(move || thread(seed))).collect();
            let ended = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
            ended.sum::<f64>() / thread_count as f64
        })
    }
}

/// One thread's operations of a round.
fn operate(cache: &impl Contender, operation: Operation, extent: Extent, seed: u64) {
    let mut value = Vec::with_capacity(VALUE_BYTES);
    let stored = [seed as u8; VALUE_BYTES];
    for count in 0..extent.operations {
        let number = mix((seed << 32) | count) % extent.items;
        match operation {
            Operation::Get => {
                black_box(cache.get(&key(number), &mut value));
                black_box(&value);
            }
            Operation::Set => cache.set(&key(number), &stored),
        }
    }
}

/// The key with this number: 20 bytes of any kind.
fn key(number: u64) -> [u8; 20] {
    let mut key = *b"item................";
    key[4..12].copy_from_slice(&mix(number).to_le_bytes());
    key[12..].copy_from_slice(&number.to_le_bytes());
    key
}

/// The finaliser of splitmix64 after its increment.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl Contender for larder::Cache {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        value.clear();
        self.get_into(key, value).is_some()
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        Self::set(self, key, value, None).expect("there is memory, and the item is small");
    }
}

// The others share their values: a get that copied them while allocating would be slower.

impl Contender for quick_cache::sync::Cache<Box<[u8]>, Arc<[u8]>> {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        value.clear();
        Self::get(self, key).is_some_and(|found| {
            value.extend_from_slice(&found);
            true
        })
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.insert(key.into(), value.into());
    }
}

impl Contender for moka::sync::Cache<Box<[u8]>, Arc<[u8]>> {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        value.clear();
        Self::get(self, key).is_some_and(|found| {
            value.extend_from_slice(&found);
            true
        })
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.insert(key.into(), value.into());
    }
}

/// How much is measured.
#[derive(Clone, Copy)]
struct Extent {
    items: u64,
    /// Operations of each thread in a round.
    operations: u64,
    rounds: u64,
}

#[derive(Clone, Copy)]
enum Operation {
    Get,
    Set,
}

/// The caches with their names, ours first.
type Contenders<'a> = [(&'a str, &'a dyn Measured); 3];

fn main() {
    let extent = if std::env::args().any(|argument| argument == "--bench") {
        Extent { items: 1_000_000, operations: 1_000_000, rounds: 5 }
    } else {
        Extent { items: 10_000, operations: 10_000, rounds: 1 }
    };
    let larder = larder::Cache::builder()
        .memory_bytes(MEMORY_BYTES)
        .open()
        .expect("the machine has some memory");
    // Room for twice as many, so that nothing is evicted.
    let capacity = 2 * extent.items;
    let quick_cache = quick_cache::sync::Cache::new(capacity as usize);
    let moka = moka::sync::Cache::new(capacity);
    let contenders: Contenders<'_> =
        [("larder", &larder), ("quick_cache", &quick_cache), ("moka", &moka)];
    for (name, contender) in contenders {
        contender.fill(extent);
        assert_eq!(contender.hits(extent), extent.items, "{name} has evicted items already");
    }

    println!("{} items, keys of 20 bytes, values of {VALUE_BYTES}", extent.items);
    println!("ratio: larder's time / the cache's; scaling: throughput / that of one thread");
    println!("operation   threads  cache          ns/op    ratio  scaling");
    compare("get", Operation::Get, &contenders, extent);
    compare("set", Operation::Set, &contenders, extent);
    println!("items held after the sets: larder {} of {}", larder.hits(extent), extent.items);
}

/// Measures an operation with one thread and with two, and prints a line for each cache.
fn compare(name: &str, operation: Operation, contenders: &Contenders<'_>, extent: Extent) {
    let mut ns_alone = [0.0; 3];
    for thread_count in [1, 2] {
        let measure = |round| {
            contenders.map(|(_, cache)| cache.measure(operation, thread_count, extent, round))
        };
        let rounds: Vec<[f64; 3]> = (0..extent.rounds).map(measure).collect();
        for (index, (cache, _)) in contenders.iter().enumerate() {
            let ns = median(rounds.iter().map(|round| round[index]));
            let ratio = median(rounds.iter().map(|round| round[0] / round[index]));
            if thread_count == 1 {
                ns_alone[index] = ns;
            }
            let scaling = thread_count as f64 * ns_alone[index] / ns;
            println!(
                "engine {name}  {thread_count:>7}  {cache:<12} {ns:>7.1} {ratio:>8.3} {scaling:>8.2}"
            );
        }
    }
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

const VALUE_BYTES: usize = 100;
/// About twice what the items need, so that sets find memory to write to.
const MEMORY_BYTES: u64 = 256 << 20;
