//! Chooses the next request: draws its key and kind at random, or takes them from a trace.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Result, ensure};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::mix::mix;
use crate::options::LoadArguments;
use crate::sizes::{Sizes, VALUE_BYTES_MAX};
use crate::skewed::{SkewedKeys, share};
use crate::trace::{Operation, Trace};

/// A request, with the number of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(crate) key: u32,
    pub(crate) is_get: bool,
    /// The size of the value that a set stores, in bytes.
    pub(crate) value_bytes: u32,
    pub(crate) ttl_secs: u32,
}

/// The data from which requests are chosen, read once for all threads.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    key_count: u32,
    /// The fraction of requests that are lookups, unless the trace determines it.
    gets: f64,
    skew: f64,
    seed: u64,
    /// The TTL of all sets; `None` for the TTLs of the trace.
    ttl_secs: Option<u32>,
    sizes: Sizes,
    /// The size of each key's value, if the sizes come from a trace.
    sizes_of_keys: Option<Arc<[u32]>>,
    trace: Option<Arc<Trace>>,
    /// True if the requests are those of the trace. Otherwise a trace only determines their keys.
    plays_trace: bool,
    /// The index of the trace's next request, which all threads share.
    cursor: Arc<AtomicU64>,
}

impl Pool {
    /// Reads the traces that the options name.
    ///
    /// # Errors
    /// A trace cannot be read, or has values that are too large.
    pub(crate) fn new(arguments: &LoadArguments) -> Result<Self> {
        let read = |path: &Path| Trace::read(path, None, 1);
        let trace = arguments.trace.as_deref().map(read).transpose()?;
        let sizes_of = arguments.sizes_of.as_deref().map(read).transpose()?;
        // A size on the command line overrides the sizes of the trace.
        let sized =
            sizes_of.as_ref().or(trace.as_ref()).filter(|_| arguments.value_bytes.is_none());
        let sizes_of_keys = sized.map(sizes_of_keys);
        let value_bytes_max = match sized {
            Some(trace) => trace
                .requests()
                .map(|(_, request)| value_bytes(request.item_bytes))
                .max()
                .unwrap_or(0),
            None => arguments.sizes().max(),
        };
        ensure!(
            value_bytes_max <= VALUE_BYTES_MAX,
            "the trace has a value of {value_bytes_max} bytes, expected at most {VALUE_BYTES_MAX} \
             (--value-bytes sets all sizes)"
        );
        Ok(Self {
            key_count: trace.as_ref().map_or(arguments.key_count(), Trace::key_count),
            gets: arguments.gets(),
            skew: arguments.skew.unwrap_or(0.0),
            seed: arguments.seed,
            ttl_secs: arguments.ttl,
            sizes: arguments.sizes(),
            sizes_of_keys,
            trace: trace.map(Arc::new),
            plays_trace: arguments.plays_trace(),
            cursor: Arc::default(),
        })
    }

    /// Returns a pool of `key_count` keys that are requested uniformly.
    #[cfg(test)]
    pub(crate) fn of_keys(key_count: u32) -> Self {
        Self {
            key_count,
            gets: 1.0,
            skew: 0.0,
            seed: 0,
            ttl_secs: None,
            sizes: Sizes::DEFAULT,
            sizes_of_keys: None,
            trace: None,
            plays_trace: false,
            cursor: Arc::default(),
        }
    }

    pub(crate) fn key_count(&self) -> u32 {
        self.key_count
    }

    /// True if the value of this key may have this size.
    pub(crate) fn is_size_of(&self, key: u32, value_bytes: usize) -> bool {
        // A trace may contain several sizes for a key, and a read may return a value of any of
        // these sizes.
        self.has_changing_sizes() || self.value_bytes(key) as usize == value_bytes
    }

    fn has_changing_sizes(&self) -> bool {
        self.plays_trace && self.sizes_of_keys.is_some()
    }

    /// Returns the set that stores this key.
    pub(crate) fn set(&self, key: u32) -> Drawn {
        let value_bytes = self.value_bytes(key);
        Drawn { key, is_get: false, value_bytes, ttl_secs: self.ttl_secs.unwrap_or(0) }
    }

    /// Returns the set that stores a key after a miss.
    pub(crate) fn fill(&self, key: u32, asked: Drawn) -> Drawn {
        match self.plays_trace {
            // In a trace, the line of the missed get also contains the size and the TTL of this
            // set.
            true => Drawn { is_get: false, ..asked },
            false => self.set(key),
        }
    }

    fn value_bytes(&self, key: u32) -> u32 {
        match &self.sizes_of_keys {
            Some(sizes) => sizes[key as usize % sizes.len()],
            None => self.sizes.of_key(key),
        }
    }
}

/// Returns the first size of each key in the trace.
fn sizes_of_keys(trace: &Trace) -> Arc<[u32]> {
    let mut sizes = Vec::with_capacity(trace.key_count() as usize);
    for (_, request) in trace.requests() {
        if request.id as usize == sizes.len() {
            sizes.push(value_bytes(request.item_bytes));
        }
    }
    sizes.into()
}

fn value_bytes(item_bytes: u32) -> u32 {
    item_bytes.saturating_sub(KEY_BYTES as u32)
}

/// Draws the requests of one thread.
pub(crate) struct Draw {
    pool: Pool,
    random: SmallRng,
    keys: SkewedKeys,
}

impl Draw {
    /// Seeds the generator with the pool's seed and the thread number, so that threads differ but a
    /// run with the same seed is repeatable.
    pub(crate) fn new(pool: &Pool, thread: u32) -> Self {
        let keys = SkewedKeys::new(pool.key_count, pool.skew);
        let random = SmallRng::seed_from_u64(mix(mix(pool.seed).wrapping_add(u64::from(thread))));
        Self { pool: pool.clone(), random, keys }
    }

    /// Draws the next request.
    pub(crate) fn next(&mut self) -> Drawn {
        let Some(trace) = &self.pool.trace else {
            let key = self.key();
            return self.of_mode(key);
        };
        let at = self.pool.cursor.fetch_add(1, Relaxed) % trace.request_count() as u64;
        let request = trace.request(at as usize);
        if !self.pool.plays_trace {
            return self.of_mode(request.id);
        }
        let value_bytes = match self.pool.sizes_of_keys {
            Some(_) => value_bytes(request.item_bytes),
            None => self.pool.sizes.of_key(request.id),
        };
        Drawn {
            key: request.id,
            is_get: request.operation == Operation::LookAside,
            value_bytes,
            ttl_secs: self.pool.ttl_secs.unwrap_or(request.ttl_secs),
        }
    }

    /// Draws a further key of the same get.
    pub(crate) fn next_key(&mut self) -> u32 {
        match &self.pool.trace {
            Some(trace) => {
                let at = self.pool.cursor.fetch_add(1, Relaxed) % trace.request_count() as u64;
                trace.request(at as usize).id
            }
            None => self.key(),
        }
    }

    fn of_mode(&mut self, key: u32) -> Drawn {
        let gets = self.pool.gets;
        let is_get = gets >= 1.0 || (gets > 0.0 && share(&mut self.random) < gets);
        Drawn { is_get, ..self.pool.set(key) }
    }

    fn key(&mut self) -> u32 {
        self.keys.draw(&mut self.random)
    }
}

/// The length of every key, in bytes.
pub(crate) const KEY_BYTES: usize = 20;

/// Returns the key with this number.
pub(crate) fn key(number: u32) -> [u8; KEY_BYTES] {
    let mut key = *b"bench:00000000000000";
    let mut rest = number;
    for digit in key.iter_mut().rev().take(10) {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(key_count: u32, skew: f64, gets: f64) -> Pool {
        Pool { skew, gets, ..Pool::of_keys(key_count) }
    }

    fn times_drawn(pool: &Pool) -> [u32; 10] {
        let mut draw = Draw::new(pool, 0);
        let mut drawn = [0; 10];
        (0..10_000).for_each(|_| drawn[draw.next().key as usize] += 1);
        drawn
    }

    #[test]
    fn keys_have_twenty_bytes_and_their_number() {
        assert_eq!(&key(0), b"bench:00000000000000");
        assert_eq!(&key(u32::MAX), b"bench:00004294967295");
    }

    #[test]
    fn without_skew_the_draw_is_uniform_over_the_keys() {
        let drawn = times_drawn(&pool(10, 0.0, 1.0));
        assert!(drawn.iter().all(|times| (900..1100).contains(times)), "{drawn:?}");
    }

    #[test]
    fn with_skew_1_the_second_key_is_drawn_half_as_often_as_the_first() {
        let drawn = times_drawn(&pool(10, 1.0, 1.0));
        // The sum of 1/k up to 10 is 2.929.
        assert!((3214..3614).contains(&drawn[0]), "{drawn:?}");
        assert!((1557..1857).contains(&drawn[1]), "{drawn:?}");
        assert!((280..400).contains(&drawn[9]), "{drawn:?}");
    }

    #[test]
    fn another_seed_or_thread_draws_other_keys_and_the_same_draws_the_same() {
        let drawn = |seed, thread| {
            let mut draw = Draw::new(&Pool { seed, ..pool(1_000_000, 0.0, 1.0) }, thread);
            [(); 10].map(|()| draw.next().key)
        };
        assert_eq!(drawn(1, 0), drawn(1, 0));
        let all = [drawn(0, 0), drawn(0, 1), drawn(1, 0), drawn(1, 1)];
        let distinct: std::collections::BTreeSet<u32> = all.concat().into_iter().collect();
        assert_eq!(distinct.len(), 40, "{all:?}");
    }

    #[test]
    fn a_mix_has_its_share_of_gets() {
        let mut draw = Draw::new(&pool(10, 0.0, 0.8), 0);
        let gets = (0..10_000).filter(|_| draw.next().is_get).count();
        assert!((7800..8200).contains(&gets), "{gets}");
    }

    #[test]
    fn a_trace_is_drawn_in_its_order_with_its_sizes_and_begins_again() {
        let trace = Trace::of_lines("0,120,7\n1,50\n0,220,0,1\n").unwrap();
        let sizes_of_keys = Some(sizes_of_keys(&trace));
        let trace = Some(Arc::new(trace));
        let pool = Pool { trace, sizes_of_keys, plays_trace: true, ..pool(2, 0.0, 1.0) };
        let mut draw = Draw::new(&pool, 0);
        let drawn: Vec<_> = (0..4).map(|_| draw.next()).collect();
        let get = Drawn { key: 0, is_get: true, value_bytes: 100, ttl_secs: 7 };
        let other = Drawn { key: 1, is_get: true, value_bytes: 30, ttl_secs: 0 };
        let set = Drawn { key: 0, is_get: false, value_bytes: 200, ttl_secs: 0 };
        assert_eq!(drawn, [get, other, set, get]);
    }

    #[test]
    fn threads_share_a_trace_and_play_each_request_once() {
        let trace = Some(Arc::new(Trace::of_lines("0,30\n1,30\n2,30\n3,30\n").unwrap()));
        let pool = Pool { trace, plays_trace: true, ..pool(4, 0.0, 1.0) };
        let mut draws = [Draw::new(&pool, 0), Draw::new(&pool, 1)];
        let keys = [0, 1, 1, 0].map(|thread: usize| draws[thread].next().key);
        assert_eq!(keys, [0, 1, 2, 3]);
    }

    #[test]
    fn a_mode_takes_the_keys_of_a_trace_and_its_own_kind_of_requests() {
        let trace = Some(Arc::new(Trace::of_lines("0,30\n1,30,0,1\n").unwrap()));
        let pool = Pool { trace, ttl_secs: Some(9), ..pool(2, 0.0, 1.0) };
        let mut draw = Draw::new(&pool, 0);
        let drawn = [draw.next(), draw.next()];
        assert_eq!(drawn.map(|drawn| (drawn.key, drawn.is_get)), [(0, true), (1, true)]);
        assert_eq!((draw.next_key(), draw.next_key()), (0, 1), "a multiget goes on in the trace");
        let fill = pool.fill(1, drawn[0]);
        assert_eq!((fill.key, fill.is_get, fill.ttl_secs), (1, false, 9));
    }

    #[test]
    fn a_fill_of_a_trace_stores_what_the_line_of_the_get_says() {
        let trace = Some(Arc::new(Trace::of_lines("0,120,7\n").unwrap()));
        let sizes_of_keys = trace.as_deref().map(sizes_of_keys);
        let pool = Pool { trace, sizes_of_keys, plays_trace: true, ..pool(1, 0.0, 1.0) };
        let asked = Draw::new(&pool, 0).next();
        let fill = pool.fill(0, asked);
        let expected = Drawn { key: 0, is_get: false, value_bytes: 100, ttl_secs: 7 };
        assert_eq!(fill, expected);
        assert!(pool.is_size_of(0, 5), "a trace may store a key with several sizes");
    }

    #[test]
    fn the_pool_reads_the_traces_of_the_options() {
        use crate::fixtures::load;
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, lines: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, zstd::encode_all(lines.as_bytes(), 1).unwrap()).unwrap();
            path.display().to_string()
        };
        let path = file("trace", "0,120\n1,50\n2,70\n");
        let pool = |args: &[&str]| Pool::new(&load(args)).map_err(|error| format!("{error:#}"));
        let played = pool(&["--trace", &path]).unwrap();
        assert_eq!((played.key_count(), played.value_bytes(0)), (3, 100));
        let sized = pool(&["--sizes-of", &path, "--keys=9"]).unwrap();
        assert_eq!((sized.key_count(), sized.value_bytes(1), sized.value_bytes(4)), (9, 30, 30));
        assert!(sized.is_size_of(2, 50) && !sized.is_size_of(2, 51));
        let by_hand = pool(&["--trace", &path, "--value-bytes=7"]).unwrap();
        assert_eq!((by_hand.key_count(), by_hand.value_bytes(0)), (3, 7));
        let large = file("large", "0,1048597\n");
        let refused = pool(&["--trace", &large]).unwrap_err();
        assert!(
            refused.contains("a value of 1048577 bytes, expected at most 1048576"),
            "{refused}"
        );
        pool(&["--trace", &large, "--value-bytes=7"]).unwrap();
    }

    #[test]
    fn a_strong_skew_stays_within_the_keys() {
        for skew in [0.01, 1.0, 10.0] {
            for key_count in [1, 2, 1000] {
                let mut draw = Draw::new(&pool(key_count, skew, 1.0), 0);
                let keys = (0..1000).map(|_| draw.next().key);
                let largest = keys.max().unwrap();
                assert!(largest < key_count, "{largest} of {key_count} keys with skew {skew}");
            }
        }
    }
}
