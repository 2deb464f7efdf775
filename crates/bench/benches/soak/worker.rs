//! The operations of one thread on the cache.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use larder::{Arithmetic, Cache, Deadline, Direction, StoreError, StoreMode, StoreRequest, Stored};
use larder_bench::Draws;
use larder_testkit::waited_for_processor;

use crate::tally::{Operation, Tally};
use crate::wave::Wave;
use crate::{MEMORY_BYTES, frame};

/// The largest number of keys that all threads share.
const KEYS_MAX: u64 = 4_000_000;
/// The values of all keys in use are this many times larger than the memory, for every size, so
/// that the cache must always evict.
const PRESSURE: u64 = 2;
/// Approximate bytes of an item in addition to its value.
const OVERHEAD_BYTES: u64 = 40;
/// Keys of large values.
const LARGE_KEYS: u64 = 48;
/// Counters of each thread. Only this thread changes them, so the expected number is known.
const COUNTERS: u64 = 1000;
const LARGE_BYTES: u64 = 1 << 20;
const APPENDED_BYTES: u64 = 200;
/// TTLs of items, in seconds; 0 for items that never expire.
const TTLS_SECS: [u64; 5] = [0, 0, 2, 10, 60];
/// Operations between two updates of the size and of the shared tally.
const BATCH: u32 = 256;

pub(crate) struct Worker<'a> {
    cache: &'a Cache,
    draws: Draws,
    number: u64,
    /// The number of each counter, if it is known.
    counters: Vec<Option<u64>>,
    /// The current size of values.
    bytes: u64,
    read: Vec<u8>,
    written: Vec<u8>,
    tally: Tally,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(cache: &'a Cache, number: u64) -> Self {
        Self {
            cache,
            draws: Draws::new(number),
            number,
            counters: vec![None; COUNTERS as usize],
            bytes: 0,
            read: Vec::new(),
            written: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Stores values of all sizes until `bytes_written` bytes have been written. After that, memory
    /// is full and every part of it has been used.
    pub(crate) fn warm_up(&mut self, wave: Wave, bytes_written: u64) {
        while self.cache.report().bytes_written < bytes_written {
            let time = wave.period.mul_f64(self.draws.below(1000) as f64 / 1000.0);
            self.bytes = wave.bytes(time);
            (0..BATCH).for_each(|_| self.set());
        }
        self.tally = Tally::default();
    }

    /// Runs operations until `done` is set, and adds its counts to `told` from time to time.
    pub(crate) fn work(mut self, wave: Wave, done: &AtomicBool, told: &Mutex<Tally>) {
        let started = Instant::now();
        while !done.load(Ordering::Relaxed) {
            self.bytes = wave.bytes(started.elapsed());
            let (began, waited) = (Instant::now(), waited_for_processor());
            (0..BATCH).for_each(|_| self.operate());
            self.tally.end_batch(began.elapsed(), waited_for_processor() - waited);
            told.lock().expect("no thread panics").add(&std::mem::take(&mut self.tally));
        }
    }

    fn operate(&mut self) {
        match self.draws.below(4000) {
            0..2000 => {
                let key = self.draw_key();
                self.get(key);
            }
            2000..3200 => self.set(),
            3200..3500 => self.append(),
            3500..3700 => self.delete(),
            3700..3990 => self.increment(),
            3990..3999 => {
                let key = LARGE | self.draws.below(LARGE_KEYS);
                self.get(key);
            }
            _ => {
                let key = LARGE | self.draws.below(LARGE_KEYS);
                self.store(key, LARGE_BYTES);
            }
        }
    }

    /// Draws a key; small numbers are more frequent.
    fn draw_key(&mut self) -> u64 {
        let keys = PRESSURE * MEMORY_BYTES / (self.bytes + OVERHEAD_BYTES);
        let below = 1 + self.draws.below(keys.min(KEYS_MAX));
        self.draws.below(below)
    }

    fn get(&mut self, key: u64) {
        self.read.clear();
        let now = self.cache.now();
        let started = Instant::now();
        let is_hit = self.cache.get_into(&key.to_le_bytes(), &mut self.read).is_some();
        let took = started.elapsed();
        match is_hit {
            true => {
                self.tally.count(Operation::Hit, self.read.len(), took);
                self.judge(frame::is_right(&self.read, key, now));
            }
            false => self.tally.count(Operation::Miss, 0, took),
        }
    }

    /// Stores a value of 0.5 to 1.5 times the current size.
    fn set(&mut self) {
        let key = self.draw_key();
        let bytes = self.bytes / 2 + self.draws.below(self.bytes);
        self.store(key, bytes);
    }

    fn store(&mut self, key: u64, bytes: u64) {
        let ttl_secs = TTLS_SECS[self.draws.below(TTLS_SECS.len() as u64) as usize];
        let deadline = match ttl_secs {
            0 => Deadline::NEVER,
            secs => Deadline::after(self.cache.now(), secs),
        };
        self.written.clear();
        frame::push(&mut self.written, key, deadline.0, self.draws.next_number(), bytes as usize);
        let name = key.to_le_bytes();
        let request = StoreRequest { deadline, ..StoreRequest::new(&name, StoreMode::Set) };
        let started = Instant::now();
        let stored = self.cache.store(&request, &self.written);
        self.tally.count(Operation::Set, self.written.len(), started.elapsed());
        self.judge_stored(stored);
    }

    fn append(&mut self) {
        let key = self.draw_key();
        let bytes = self.draws.below(APPENDED_BYTES) as usize;
        self.written.clear();
        frame::push(&mut self.written, key, 0, self.draws.next_number(), bytes);
        let (name, deadline) = (key.to_le_bytes(), Deadline::NEVER);
        let request = StoreRequest { deadline, ..StoreRequest::new(&name, StoreMode::Append) };
        let started = Instant::now();
        let stored = self.cache.store(&request, &self.written);
        let took = started.elapsed();
        // An append copies the existing value, whose size is about the current one.
        if stored != Ok(Stored::NotStored) {
            self.tally.count(Operation::Append, self.bytes as usize, took);
        }
        self.judge_stored(stored);
    }

    fn delete(&mut self) {
        let key = self.draw_key().to_le_bytes();
        let started = Instant::now();
        let is_deleted = self.cache.delete(&key).expect("the soak stops no process");
        let took = started.elapsed();
        if is_deleted {
            self.tally.count(Operation::Delete, 0, took);
        }
    }

    fn increment(&mut self) {
        let counter = self.draws.below(COUNTERS);
        let name = (COUNTER | self.number << 32 | counter).to_le_bytes();
        let started = Instant::now();
        let outcome = self.cache.arithmetic(&name, Direction::Increment, 1);
        let took = started.elapsed();
        let known = &mut self.counters[counter as usize];
        match outcome {
            Ok(Arithmetic::Number { number, .. }) => {
                let is_next = known.is_some_and(|known| known + 1 == number);
                *known = Some(number);
                self.tally.count(Operation::Increment, 0, took);
                self.judge(is_next);
            }
            Ok(Arithmetic::NotFound) => {
                // The counter was evicted or never stored: start at a number that no other counter
                // reaches.
                let first = counter << 32;
                *known = Some(first);
                if self.cache.set(&name, first.to_string().as_bytes(), None).is_err() {
                    self.tally.refused += 1;
                }
            }
            Ok(Arithmetic::NonNumeric | Arithmetic::Exists) => self.judge(false),
            Err(_) => {
                *known = None;
                self.tally.refused += 1;
            }
        }
    }

    fn judge(&mut self, is_right: bool) {
        self.tally.wrong_values += u64::from(!is_right);
    }

    /// Counts a store that fails for lack of memory. Counts any other error as a wrong value.
    fn judge_stored(&mut self, stored: Result<Stored, StoreError>) {
        match stored {
            Ok(_) => {}
            Err(StoreError::NoMemory) => self.tally.refused += 1,
            Err(_) => self.judge(false),
        }
    }
}

/// The highest bits of a number determine the kind of key.
const LARGE: u64 = 1 << 63;
const COUNTER: u64 = 1 << 62;
