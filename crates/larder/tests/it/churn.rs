//! All operations, by many threads at the same time, on several kinds of memory: no value is mixed
//! up, no count is lost, and all invariants hold afterwards. `CHURN_MS` sets the duration of each
//! test, in milliseconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use larder::{
    Builder, Cache, Clock, Deadline, Direction, LoadOptions, Read, StoreError, StoreMode,
    StoreRequest,
};
use larder_testkit::Random;

/// Number of keys that are counters. All bytes of the other values identify their key.
const COUNTERS: u64 = 8;

fn value_of(key: u64, bytes: usize) -> Vec<u8> {
    vec![key as u8 | 0x80; bytes]
}

fn assert_is_of(key: u64, value: &[u8]) {
    assert!(key < COUNTERS || value.iter().all(|byte| *byte == key as u8 | 0x80), "{key}");
}

fn name_of(key: u64) -> Vec<u8> {
    // Some keys have the maximum length.
    let long = if key.is_multiple_of(5) { 242 } else { 0 };
    [&key.to_le_bytes()[..], &[b'k'; 242][..long]].concat()
}

/// A thread that performs random operations.
struct Player<'a> {
    cache: &'a Cache,
    random: Random,
    keys: u64,
    value_bytes_max: usize,
    out: Vec<u8>,
}

impl Player<'_> {
    /// Returns a random length, biased towards the limits between storage forms.
    fn any_length(&mut self) -> usize {
        let inline = self.cache.upload_bytes_min();
        let length = match self.random.below(16) {
            0 => 0,
            1 => inline - 1 + self.random.below(3) as usize,
            2 => inline + 272 + self.random.below(16) as usize,
            3 | 4 => self.random.below(self.value_bytes_max as u64) as usize,
            5 | 6 => self.random.below(inline as u64) as usize,
            _ => self.random.below(200) as usize,
        };
        length.min(self.value_bytes_max)
    }

    fn any_deadline(&mut self) -> Deadline {
        match self.random.below(6) {
            0..3 => Deadline::NEVER,
            3 => Deadline::after(self.cache.now(), self.random.below(4)),
            4 => Deadline::after(self.cache.now(), self.random.below(100_000)),
            _ => Deadline(u32::MAX - self.random.below(2) as u32),
        }
    }

    /// Performs one random operation. The cache may refuse it at any time for memory or size.
    fn play(&mut self) {
        let key = self.random.below(self.keys);
        let name = name_of(key);
        match self.random.below(20) {
            0..5 => self.get(key, &name),
            5..10 => self.store(key, &name),
            10 => drop(self.cache.delete(&name)),
            11 | 12 => drop(self.cache.touch_until(&name, self.any_deadline())),
            13 | 14 => {
                let direction = self.random.one_of(&[Direction::Increment, Direction::Decrement]);
                let delta = self.random.one_of(&[1, 1_000, u64::MAX]);
                let _ = self.cache.arithmetic(&name, direction, delta);
            }
            15 => self.read(key, &name),
            16 => self.upload(key, &name),
            17 => self.load(key, &name),
            18 => self.remove_many(&name),
            _ => self.cache.maintain(),
        }
    }

    fn get(&mut self, key: u64, name: &[u8]) {
        self.out.clear();
        if self.cache.get_into(name, &mut self.out).is_some() {
            assert_is_of(key, &self.out);
        }
    }

    fn any_request<'k>(&mut self, key: &'k [u8]) -> StoreRequest<'k> {
        use StoreMode::{Add, Append, Prepend, Replace, Set};
        let mode = self.random.one_of(&[Set, Add, Replace, Append, Prepend]);
        let flags = self.random.below(2) as u32;
        StoreRequest { flags, deadline: self.any_deadline(), ..StoreRequest::new(key, mode) }
    }

    fn store(&mut self, key: u64, name: &[u8]) {
        let mut request = self.any_request(name);
        if self.random.below(4) == 0 {
            request.cas = self.cache.get_into(name, &mut self.out).map(|meta| meta.cas);
        }
        let value = match key {
            0..COUNTERS => self.random.one_of(&[u64::MAX, 9, 99, 0]).to_string().into_bytes(),
            _ => value_of(key, self.any_length()),
        };
        let _ = self.cache.store(&request, &value);
    }

    /// Reads some pieces of a large value; another thread may drop it.
    fn read(&mut self, key: u64, name: &[u8]) {
        if let Read::Large(_, mut large) = self.cache.read(name, &mut self.out, |_, _| ()) {
            for _ in 0..self.random.below(4) {
                if let Ok(Some(piece)) = large.take_piece() {
                    assert_is_of(key, &piece);
                }
            }
            if self.random.below(4) == 0 {
                thread::scope(|scope| drop(scope.spawn(move || drop(large))));
            }
        }
    }

    /// Uploads a value in two parts, or only the first part.
    fn upload(&mut self, key: u64, name: &[u8]) {
        let bytes = self.any_length();
        let first = self.random.below(bytes as u64 + 1) as usize;
        let request = self.any_request(name);
        let Ok(mut upload) = self.cache.upload(name, bytes) else { return };
        if upload.push(&value_of(key, first)).is_err() || self.random.below(3) == 0 {
            return;
        }
        thread::yield_now();
        if upload.push(&value_of(key, bytes - first)).is_ok() {
            let _ = upload.store(&request);
        }
    }

    fn load(&mut self, key: u64, name: &[u8]) {
        let options = LoadOptions::new().ttl(Duration::from_secs(1 + self.random.below(3)));
        let value = value_of(key, self.any_length());
        let loaded = self.cache.get_or_load(name, &options, || Ok::<_, StoreError>(value));
        assert_is_of(key, &loaded.unwrap());
    }

    fn remove_many(&mut self, name: &[u8]) {
        match self.random.below(600) {
            0 => self.cache.clear(),
            1 => self.cache.clear_at(self.cache.now() + 1),
            2 => drop(self.cache.remove_prefix(&name[..1])),
            3..20 => {
                for item in self.cache.iterate().take(200) {
                    let key = u64::from_le_bytes(item.key[..8].try_into().unwrap());
                    assert_is_of(key, &item.value);
                }
            }
            _ => {}
        }
    }
}

/// Runs the threads while the clock advances and falls back, and the memory limit rises and falls.
fn churn(builder: Builder, threads: u64, keys: u64, item_bytes_max: u64, limit_max: u64) {
    let time = std::env::var("CHURN_MS").map_or(250, |ms| ms.parse().unwrap());
    let end = Instant::now() + Duration::from_millis(time);
    let builder = builder.item_bytes_max(item_bytes_max).clock(Clock::Ticked);
    let cache = &builder.memory_bytes_max(limit_max).open().unwrap();
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let value_bytes_max = item_bytes_max as usize - 400;
                let (random, out) = (Random::with_seed(thread + 1), Vec::new());
                let mut player = Player { cache, random, keys, value_bytes_max, out };
                while Instant::now() < end {
                    (0..20).for_each(|_| player.play());
                }
            });
        }
        let mut random = Random::with_seed(77);
        while Instant::now() < end {
            cache.tick(cache.now() + random.below(3) as u32);
            cache.tick(cache.now().saturating_sub(5));
            if limit_max > 0 {
                // A limit that is too low is refused.
                let _ = cache.set_memory_limit((1 << 20) + random.below(limit_max));
            }
            thread::sleep(Duration::from_millis(5));
        }
    });
    cache.validate().unwrap();
}

fn memory(mebibytes: u64) -> Builder {
    Cache::builder().memory_bytes(mebibytes << 20)
}

#[test]
fn a_tiny_memory_with_items_of_half_its_size() {
    churn(memory(1).cas(true), 4, 60, 1 << 19, 0);
    churn(memory(1).maintainer(true), 4, 60, 1 << 19, 0);
}

#[test]
fn a_tiny_memory_that_evicts_nothing() {
    churn(memory(1).evict(false), 4, 60, 1 << 19, 0);
    churn(memory(1).evict(false).cas(true), 4, 300, 20_000, 0);
}

#[test]
fn more_threads_than_segments_and_thread_slots() {
    churn(memory(1), 24, 2_000, 9_000, 0);
}

#[test]
fn limits_that_rise_and_fall() {
    churn(memory(4).cas(true), 4, 500, 1 << 19, 64 << 20);
    churn(memory(4).maintainer(true), 4, 500, 1 << 20, 64 << 20);
    churn(memory(4).evict(false), 4, 500, 1 << 20, 64 << 20);
    churn(memory(64).maintainer(true), 6, 3_000, 1 << 20, 128 << 20);
}

#[test]
fn small_items_that_make_the_index_grow_and_are_evicted() {
    churn(memory(8), 6, 200_000, 1_000, 0);
}

#[test]
fn counts_and_parts_are_kept_while_their_records_are_moved() {
    const ROUNDS: usize = 10_000;
    for cas in [false, true] {
        let cache = &memory(2).evict(false).cas(cas).open().unwrap();
        cache.set("count", "0", None).unwrap();
        cache.set("log", "", None).unwrap();
        cache.set("large", vec![b'.'; 20_000], None).unwrap();
        let done = &AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut random = Random::with_seed(1);
                while !done.load(Ordering::Relaxed) {
                    let key = random.below(400).to_le_bytes();
                    // The store may be refused: nothing is evicted.
                    let _ = cache.set(key, vec![0; random.below(3_000) as usize], None);
                    cache.delete(random.below(400).to_le_bytes()).unwrap();
                    if random.below(64) == 0 {
                        cache.maintain();
                    }
                }
            });
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        for round in 0..ROUNDS {
                            cache.increment("count", 1).unwrap().unwrap();
                            let ttl = round.is_multiple_of(2).then_some(Duration::from_secs(1_000));
                            assert!(cache.touch("count", ttl).unwrap());
                            if round.is_multiple_of(16) {
                                assert!(cache.append("log", ".").unwrap());
                                assert!(cache.append("large", "...").unwrap());
                                assert!(cache.prepend("large", [b'.'; 50]).unwrap());
                            }
                        }
                    })
                })
                .collect();
            let ends: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            done.store(true, Ordering::Relaxed);
            ends.into_iter().for_each(|end| end.unwrap());
        });
        cache.validate().unwrap();
        let lengths = ["log", "large"].map(|key| cache.get(key).unwrap().len());
        assert_eq!(lengths, [ROUNDS / 16 * 3, 20_000 + ROUNDS / 16 * 3 * 53]);
        let count = String::from_utf8(cache.get("count").unwrap()).unwrap();
        assert_eq!(count.trim().parse(), Ok(ROUNDS * 3));
        assert!(cache.report().bytes_relocated > 0, "the test did not compact segments");
    }
}
