//! The load, second by second.

use std::collections::BTreeMap;
use std::time::Duration;

use larder::{Cache, Clock, Counter, Epoch};

use crate::cohort::{
    ITEMS_A_SECOND, ITEMS_A_SECOND_FOR_EVER, Schedule, TTLS, VALUE_BYTES_MAX, other_value_bytes,
    sampled_value_bytes,
};
use crate::held::{AFTER_SECS, Held};

pub(crate) struct Simulation {
    cache: Cache,
    schedule: Schedule,
    scale: Scale,
    stored: u64,
    value: Vec<u8>,
}

impl Simulation {
    /// Creates the load. The first of `samples` cohorts expires after the longest TTL has passed.
    pub(crate) fn new(memory_bytes: u64, samples: u32) -> Self {
        let cache = open(memory_bytes);
        let schedule = Schedule { begin: cache.now() + TTLS[TTLS.len() - 1] + 10, samples };
        let value = vec![0; VALUE_BYTES_MAX];
        Self { cache, schedule, scale: Scale::new(), stored: 0, value }
    }

    /// Runs until the last count of the last sample.
    pub(crate) fn run(&mut self) -> Held {
        let mut held = Held::default();
        let longest = AFTER_SECS[AFTER_SECS.len() - 1];
        let end = self.schedule.deadline(self.schedule.samples - 1) + longest;
        for second in self.cache.now() + 1..=end {
            self.pass(second);
            self.look(second, &mut held);
        }
        held
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.cache.counter(Counter::Evictions)
    }

    /// Advances one second: the clock, the maintenance, then the stores.
    fn pass(&mut self, second: u32) {
        self.cache.tick(second);
        self.cache.maintain();
        // Interleaves the TTLs, so that items of all TTLs share segments.
        for turn in 0..ITEMS_A_SECOND[0].max(ITEMS_A_SECOND_FOR_EVER) {
            for ttl in (0..TTLS.len()).filter(|ttl| turn < ITEMS_A_SECOND[*ttl]) {
                let bytes = self.schedule.value_bytes(second + TTLS[ttl], ttl, self.stored);
                self.store(bytes, Some(Duration::from_secs(u64::from(TTLS[ttl]))));
            }
            if turn < ITEMS_A_SECOND_FOR_EVER {
                self.store(other_value_bytes(self.stored), None);
            }
        }
    }

    fn store(&mut self, value_bytes: usize, ttl: Option<Duration>) {
        let value = &self.value[..value_bytes];
        self.cache.set(&key(self.stored), value, ttl).expect("old items make room");
        self.stored += 1;
    }

    /// Counts the items of sampled cohorts that expire in the next second, or expired
    /// [`AFTER_SECS`] ago. Counting does not change what the cache evicts, because neither the list
    /// of sizes nor the dump counts as a read of an item.
    fn look(&mut self, second: u32, held: &mut Held) {
        let mut sizes = None;
        for sample in 0..self.schedule.samples {
            let deadline = self.schedule.deadline(sample);
            let is_dying = second + 1 == deadline;
            let after = AFTER_SECS.iter().position(|secs| deadline + secs == second);
            if !is_dying && after.is_none() {
                continue;
            }
            let sizes = sizes.get_or_insert_with(|| self.cache.sizes());
            for (ttl, cohorts) in held.cohorts.iter_mut().enumerate() {
                let listed = self.scale.weigh(sampled_value_bytes(sample, ttl), true).listed_bytes;
                let items = sizes.get(&listed).copied().unwrap_or(0);
                match after {
                    None => cohorts.expired += items,
                    Some(after) => cohorts.still_held[after] += items,
                }
            }
            if is_dying {
                self.look_at_all(second, sizes, held);
            }
        }
    }

    /// Records the fraction of record bytes that are expired, and the fraction of segment memory
    /// that is live.
    fn look_at_all(&mut self, second: u32, sizes: &BTreeMap<u64, u64>, held: &mut Held) {
        let report = self.cache.report();
        assert_eq!(
            sizes.values().sum::<u64>(),
            report.items,
            "the list of sizes has dead items too"
        );
        let (scale, mut live_items, mut live_bytes) = (&mut self.scale, 0, 0);
        self.cache.dump(|dumped| {
            live_items += 1;
            let has_deadline = dumped.meta.deadline.0 != 0;
            live_bytes += scale.weigh(dumped.meta.value_bytes, has_deadline).record_bytes;
            true
        });
        if self.evictions() == 0 {
            assert_eq!(
                live_items,
                items_stored_and_live(second),
                "an item is lost, or outlives its deadline"
            );
        }
        held.expired_shares.push(1.0 - live_bytes as f64 / report.live_bytes as f64);
        let segment_bytes = report.segments_items * report.segment_bytes;
        held.live_shares.push(live_bytes as f64 / segment_bytes as f64);
    }
}

/// Returns how many of the stored items are live at a time, once the longest TTL has passed.
fn items_stored_and_live(second: u32) -> u32 {
    let with_ttl: u32 = TTLS.iter().zip(ITEMS_A_SECOND).map(|(secs, items)| secs * items).sum();
    with_ttl + (second - Epoch::FIRST_SECOND) * ITEMS_A_SECOND_FOR_EVER
}

/// The sizes of items, measured by storing one item in an empty cache.
struct Scale(BTreeMap<(usize, bool), Weight>);

#[derive(Clone, Copy)]
struct Weight {
    /// Bytes of the record according to the cache's statistics.
    record_bytes: u64,
    /// The item's step in the cache's list of sizes, in bytes.
    listed_bytes: u64,
}

impl Scale {
    fn new() -> Self {
        Self(BTreeMap::new())
    }

    fn weigh(&mut self, value_bytes: usize, has_deadline: bool) -> Weight {
        *self.0.entry((value_bytes, has_deadline)).or_insert_with(|| {
            let cache = open(1 << 20);
            let ttl = has_deadline.then_some(Duration::from_secs(10));
            cache.set(&key(0), &vec![0; value_bytes], ttl).expect("an empty cache has room");
            let listed_bytes = cache.sizes().into_keys().next().expect("it was stored");
            Weight { record_bytes: cache.report().live_bytes, listed_bytes }
        })
    }
}

fn open(memory_bytes: u64) -> Cache {
    let builder = Cache::builder().memory_bytes(memory_bytes).clock(Clock::Ticked);
    builder.open().expect("the machine has some memory")
}

fn key(number: u64) -> [u8; 20] {
    let mut key = *b"item................";
    key[12..].copy_from_slice(&number.to_be_bytes());
    key
}
