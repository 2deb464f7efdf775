//! The part of a replay that one thread runs.

use std::io::{IsTerminal, Write};
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::replay::key::Key;
use crate::replay::pace::Walker;
use larder_loadgen::trace::{Operation, Request, Trace};
use larder_loadgen::value::write_value;

/// The cache on which a trace is replayed.
pub(crate) trait Target {
    /// Tells the target that the request with this index of the trace follows. A get that misses is
    /// followed by a set of the same request.
    fn begin_request(&mut self, _index: usize) {}

    /// Tells the cache that the trace has reached this second.
    fn begin_second(&mut self, second: u32);

    /// Replaces `value` by the value of the key. Returns false on a miss.
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool>;

    /// Stores an item. Returns false if the target refuses it. A `ttl_secs` of 0 means that the
    /// item never expires.
    fn set(&mut self, key: &Key, value: &[u8], ttl_secs: u32) -> Result<bool>;
}

/// The counts of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Look-aside lookups.
    pub(crate) gets: u64,
    /// Lookups that found an item.
    pub(crate) hits: u64,
    /// Bytes of the keys and values of the misses.
    pub(crate) missed_bytes: u64,
    /// Hits with a value that is not the last one stored.
    pub(crate) wrong_values: u64,
    /// All sets: the sets of the trace, and the sets after misses.
    pub(crate) sets: u64,
    /// Sets that the target refused.
    pub(crate) sets_refused: u64,
}

impl Counts {
    pub(crate) fn misses(&self) -> u64 {
        self.gets - self.hits
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.gets += other.gets;
        self.hits += other.hits;
        self.missed_bytes += other.missed_bytes;
        self.wrong_values += other.wrong_values;
        self.sets += other.sets;
        self.sets_refused += other.sets_refused;
    }
}

/// Plays the requests of the trace whose keys belong to the walker's thread, in their order.
///
/// # Errors
/// The errors of the target.
pub(crate) fn play(trace: &Trace, walker: &Walker<'_>, target: &mut impl Target) -> Result<Counts> {
    let mut player = Player {
        stored: vec![Stored::default(); trace.key_count() as usize],
        read: Vec::new(),
        expected: Vec::new(),
        counts: Counts::default(),
        target,
    };
    let mut progress = Progress::new(walker.thread() == 0, trace.request_count());
    let mut now = None;
    for (index, (second, request)) in trace.requests().enumerate() {
        walker.reach(index);
        if now != Some(second) {
            now = Some(second);
            player.target.begin_second(second);
        }
        let key = Key::of(request.id);
        if key.thread(walker.thread_count()) == walker.thread() {
            player.target.begin_request(index);
            player.play(&key, request)?;
        }
        progress.show(index);
    }
    Ok(player.counts)
}

/// The last stored value of a key; the value follows from this and the key's number.
#[derive(Clone, Copy, Default)]
struct Stored {
    /// The number of stores of the key.
    version: u32,
    value_bytes: u32,
}

struct Player<'a, T> {
    /// The last stored value of each key.
    stored: Vec<Stored>,
    /// The last value read and the expected one, kept to reuse their memory.
    read: Vec<u8>,
    expected: Vec<u8>,
    counts: Counts,
    target: &'a mut T,
}

impl<T: Target> Player<'_, T> {
    fn play(&mut self, key: &Key, request: &Request) -> Result<()> {
        if request.operation == Operation::Set {
            return self.set(key, request);
        }
        self.counts.gets += 1;
        if !self.target.get(key, &mut self.read)? {
            self.counts.missed_bytes += u64::from(request.item_bytes);
            return self.set(key, request);
        }
        self.counts.hits += 1;
        self.expect(request.id);
        self.counts.wrong_values += u64::from(self.read != self.expected);
        Ok(())
    }

    fn set(&mut self, key: &Key, request: &Request) -> Result<()> {
        let stored = &mut self.stored[request.id as usize];
        stored.version += 1;
        // A trace may change an item's size at a get. The next set uses the new size.
        stored.value_bytes = request.item_bytes.saturating_sub(Key::BYTES as u32);
        self.expect(request.id);
        let stored = self.target.set(key, &self.expected, request.ttl_secs)?;
        self.counts.sets += 1;
        self.counts.sets_refused += u64::from(!stored);
        Ok(())
    }

    /// Generates the last stored value of the key.
    fn expect(&mut self, id: u32) {
        let stored = self.stored[id as usize];
        let seed = u64::from(id) << 32 | u64::from(stored.version);
        write_value(seed, stored.value_bytes as usize, &mut self.expected);
    }
}

/// The progress of a replay on a terminal.
struct Progress {
    request_count: usize,
    /// The time of the last display; `None` without a terminal.
    shown: Option<Instant>,
}

impl Progress {
    fn new(wanted: bool, request_count: usize) -> Self {
        let shown = (wanted && std::io::stderr().is_terminal()).then(Instant::now);
        Self { request_count, shown }
    }

    fn show(&mut self, index: usize) {
        // Does not read the clock at every request, because that costs as much as a get.
        let Some(shown) = self.shown.filter(|_| index.is_multiple_of(1024)) else { return };
        if shown.elapsed() > Duration::from_millis(200) {
            let percent = index * 100 / self.request_count;
            eprint!("\r{percent:3} %, request {index} of {}", self.request_count);
            self.shown = Some(Instant::now());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            // Clears the line for the output that follows.
            eprint!("\r\x1b[K");
            std::io::stderr().flush().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::replay::pace::Pace;

    /// A target that keeps the first value of each key forever.
    #[derive(Default)]
    struct Stale(HashMap<Vec<u8>, Vec<u8>>);

    impl Target for Stale {
        fn begin_second(&mut self, _second: u32) {}

        fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool> {
            let found = self.0.get(key.text());
            found.into_iter().for_each(|found| value.clone_from(found));
            Ok(found.is_some())
        }

        fn set(&mut self, key: &Key, value: &[u8], _ttl_secs: u32) -> Result<bool> {
            self.0.entry(key.text().to_vec()).or_insert_with(|| value.to_vec());
            Ok(true)
        }
    }

    #[test]
    fn a_stale_value_is_counted_as_wrong() {
        let play = |lines| {
            let trace = Trace::of_lines(lines).unwrap();
            play(&trace, &Pace::new(1).walker(0), &mut Stale::default())
        };
        let right = play("0,50\n0\n1,50\n0\n1,60\n").unwrap();
        assert_eq!((right.hits, right.sets, right.wrong_values), (3, 2, 0));
        assert_eq!(right.missed_bytes, 100);
        let wrong = play("0,50\n0\n0,50,0,1\n0\n0\n").unwrap();
        assert_eq!((wrong.hits, wrong.sets, wrong.wrong_values), (3, 2, 2));
    }

    #[test]
    fn threads_share_the_keys_without_overlap() {
        let lines: String = (0..100).map(|id| format!("{id},50\n")).collect();
        let trace = Trace::of_lines(&lines).unwrap();
        let pace = Pace::new(3);
        let gets = |thread| play(&trace, &pace.walker(thread), &mut Stale::default()).unwrap().gets;
        let shares = [gets(0), gets(1), gets(2)];
        assert_eq!(shares.iter().sum::<u64>(), 100);
        assert!(shares.iter().all(|share| *share > 20), "{shares:?}");
    }
}
