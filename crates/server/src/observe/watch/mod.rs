//! `watch`: watchers, which are connections that receive a log of events.
//!
//! ```text
//! worker ── its ring ──┐
//! worker ── its ring ──┼─ collector ─┬─ log of a watcher ── worker of its connection
//! maintainer ── ring ──┘             └─ log of a watcher ── …
//! ```
//!
//! A thread writes the line of a watched event into its own ring (`-o worker_logbuf_size`). If the
//! ring is full, it drops the line: it never waits, not even while it evicts. The collector is a
//! thread that runs while there are watchers. It takes the lines out of the rings, sorts them by
//! number, and copies each line to the logs of the watchers of its topic (`-o
//! watcher_logbuf_size`). Then it wakes the workers of these connections, which send the lines.
//! Lines that do not fit into a log are counted, and the log shows their number instead.

mod rings;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use larder::{Leaving, Reason};
use larder_item::{Deadline, Meta, Second};
use larder_protocol::text::watched::{self, Size};
use larder_protocol::{Refusal, Topics};
use larder_stats::{Counter, Counters};

use crate::log::Log;
use crate::observe::classes::{Classes, ItemSize};
use crate::waker::Waker;
use rings::{Batch, Rings};

/// All watchers of a server.
#[derive(Debug)]
pub(crate) struct Watchers {
    /// The topics of all watchers together. Checked before a line is written.
    topics: AtomicU16,
    /// The log of `-v`. Its interest tells the workers which events to report, and must contain
    /// these topics.
    log: Arc<Log>,
    rings: Rings,
    logs: Mutex<Logs>,
}

#[derive(Debug)]
struct Logs {
    /// Written only under the lock.
    counters: Arc<Counters>,
    log_bytes_max: usize,
    /// The id of the next log.
    next_id: u64,
    list: Vec<Arc<WatcherLog>>,
    /// True while the collector runs.
    is_collecting: bool,
    batch: Batch,
}

/// The lines that wait for one watcher.
#[derive(Debug)]
struct WatcherLog {
    id: u64,
    topics: Topics,
    /// The number of the first line to show. Earlier lines were written before the watcher
    /// connected.
    first_number: u64,
    /// Wakes the worker of the watcher's connection.
    waker: Arc<Waker>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: VecDeque<u8>,
    /// Lines dropped since the last line that fit.
    skipped: u64,
    /// True if the worker has been woken since it last read everything.
    is_woken: bool,
}

/// A connection's subscription. Dropping it ends the subscription.
#[derive(Debug)]
pub(crate) struct Watch {
    watchers: Arc<Watchers>,
    log: Arc<WatcherLog>,
}

impl Watchers {
    /// Creates the state without watchers. Each log holds at most `log_bytes_max` bytes, and each
    /// ring at most `ring_bytes_max`. There is one ring for each of `threads` threads; further
    /// threads share these rings.
    pub(crate) fn new(
        log: Arc<Log>,
        counters: Arc<Counters>,
        threads: usize,
        ring_bytes_max: usize,
        log_bytes_max: usize,
    ) -> Self {
        let logs = Logs {
            counters,
            log_bytes_max,
            next_id: 0,
            list: Vec::new(),
            is_collecting: false,
            batch: Batch::default(),
        };
        Self {
            topics: AtomicU16::new(0),
            log,
            rings: Rings::new(threads, ring_bytes_max),
            logs: Mutex::new(logs),
        }
    }

    /// True if a watcher has subscribed to one of these topics.
    #[inline]
    pub(crate) fn want(&self, topics: Topics) -> bool {
        Topics::of_bits(self.topics.load(Relaxed)).meet(topics)
    }

    /// Writes a line for the watchers of its topic, or drops it if the thread's ring is full.
    /// `write` appends the text after the stamp.
    pub(crate) fn report(&self, topic: Topics, write: impl FnOnce(&mut Vec<u8>)) {
        if self.want(topic) {
            self.rings.write(topic, |line, number| {
                let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                watched::stamp(line, unix.unwrap_or(Duration::ZERO), number);
                write(line);
            });
        }
    }

    /// Copies the lines of all rings to the logs of their watchers. Returns the number of lines.
    /// Returns `None` without watchers, which ends the collector.
    fn collect(&self) -> Option<usize> {
        let mut logs = self.logs();
        let logs = &mut *logs;
        let taken = self.rings.take(&mut logs.batch);
        logs.counters.add(Counter::LogWorkerWritten, taken.lines as u64);
        logs.counters.add(Counter::LogWorkerDropped, taken.dropped);
        for log in &logs.list {
            let (sent, skipped) = log.add(&logs.batch, logs.log_bytes_max);
            logs.counters.add(Counter::LogWatcherSent, sent);
            logs.counters.add(Counter::LogWatcherSkipped, skipped);
        }
        logs.is_collecting = !logs.list.is_empty();
        if !logs.is_collecting {
            // The lines of the rings, and the buffers that replaced them.
            self.rings.take(&mut logs.batch);
            logs.batch = Batch::default();
        }
        logs.is_collecting.then_some(taken.lines)
    }

    /// Makes the log's interest contain the topics of the current watchers. The caller holds the
    /// lock of the watchers, so that two changes cannot overtake each other.
    fn update_interest(&self, logs: &Logs) {
        let topics = logs.topics();
        self.topics.store(topics.bits(), Relaxed);
        self.log.set_topics(topics);
    }

    fn logs(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the collector's loop: polls often while there are lines, and is woken when a ring is half
/// full.
fn collect(watchers: &Watchers) {
    let mut pause = PAUSE_MIN;
    while let Some(lines) = watchers.collect() {
        pause = if lines > 0 { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
        thread::park_timeout(pause);
    }
}

impl Logs {
    /// Returns the topics of all watchers.
    fn topics(&self) -> Topics {
        self.list.iter().fold(Topics::NONE, |topics, log| topics | log.topics)
    }
}

impl WatcherLog {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the lines of the watcher's topics. Returns how many fit, and how many did not.
    fn add(&self, batch: &Batch, bytes_max: usize) -> (u64, u64) {
        let mut queue = self.queue();
        let (mut sent, mut skipped) = (0, 0);
        for line in batch.lines() {
            if line.number < self.first_number || !line.topics.meet(self.topics) {
                continue;
            }
            match queue.push(line.bytes, bytes_max) {
                true => sent += 1,
                false => skipped += 1,
            }
        }
        if !queue.bytes.is_empty() && !queue.is_woken {
            queue.is_woken = true;
            self.waker.wake();
        }
        (sent, skipped)
    }
}

impl Queue {
    /// Adds a line, if it fits together with the count of lines dropped before it.
    fn push(&mut self, line: &[u8], bytes_max: usize) -> bool {
        let mut skipped = Vec::new();
        if self.skipped > 0 {
            watched::skipped(&mut skipped, self.skipped);
        }
        if self.bytes.len() + skipped.len() + line.len() > bytes_max {
            self.skipped += 1;
            return false;
        }
        self.bytes.extend(skipped.iter().chain(line));
        self.skipped = 0;
        true
    }
}

impl Watch {
    /// Begins to watch. The collector wakes `waker` when there are lines to read.
    ///
    /// # Errors
    /// Fails if there are too many watchers, or if the collector's thread cannot be started.
    pub(crate) fn begin(
        watchers: &Arc<Watchers>,
        topics: Topics,
        waker: &Arc<Waker>,
    ) -> Result<Self, Refusal> {
        let mut logs = watchers.logs();
        if logs.list.len() >= WATCHERS_MAX {
            return Err(Refusal::TooManyWatchers);
        }
        if !logs.is_collecting {
            let collecting = Arc::clone(watchers);
            let collector = thread::Builder::new()
                .name("watch".to_owned())
                .spawn(move || collect(&collecting))
                .map_err(|_| Refusal::CannotWatch)?;
            watchers.rings.wake_when_half_full(collector.thread());
            logs.is_collecting = true;
        }
        let log = Arc::new(WatcherLog {
            id: logs.next_id,
            topics,
            first_number: watchers.rings.next_number(),
            waker: Arc::clone(waker),
            queue: Mutex::default(),
        });
        logs.next_id += 1;
        logs.list.push(Arc::clone(&log));
        logs.counters.bump(Counter::LogWatchers);
        watchers.update_interest(&logs);
        drop(logs);
        Ok(Self { watchers: Arc::clone(watchers), log })
    }

    /// Appends waiting lines to `out`, until it has `out_bytes_max` bytes. Returns true if there
    /// are more.
    pub(crate) fn read(&self, out: &mut Vec<u8>, out_bytes_max: usize) -> bool {
        let mut queue = self.log.queue();
        let bytes = queue.bytes.len().min(out_bytes_max.saturating_sub(out.len()));
        out.extend(queue.bytes.drain(..bytes));
        queue.is_woken = !queue.bytes.is_empty();
        if !queue.is_woken {
            queue.bytes.shrink_to(LOG_BYTES_KEPT);
        }
        queue.is_woken
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut logs = self.watchers.logs();
        logs.list.retain(|log| log.id != self.log.id);
        logs.counters.add(Counter::LogWatchers, 1u64.wrapping_neg());
        self.watchers.update_interest(&logs);
    }
}

/// Returns the hook that reports evictions to watchers, for [`larder::Cache::set_departure_hook`].
pub(crate) fn evictions(
    watchers: &Arc<Watchers>,
    classes: Arc<Classes>,
) -> impl Fn(&Leaving<'_>) + Send + Sync + 'static {
    let watchers = Arc::clone(watchers);
    move |leaving| {
        if watchers.want(Topics::EVICTIONS) && leaving.reason() == Reason::Evicted {
            evicted(&watchers, &classes, leaving);
        }
    }
}

#[cold]
fn evicted(watchers: &Watchers, classes: &Classes, leaving: &Leaving<'_>) {
    let mut key = Vec::new();
    leaving.read_key(&mut key);
    let meta = leaving.meta();
    let size = size(classes, key.len(), &meta);
    let ttl_secs = ttl_secs(meta.deadline, leaving.now());
    let idle_secs = leaving.now().saturating_sub(meta.seen);
    watchers.report(Topics::EVICTIONS, |out| {
        watched::eviction(out, &key, meta.fetched, ttl_secs, idle_secs, size);
    });
}

/// Returns an item's size as watch lines show it.
pub(crate) fn size(classes: &Classes, key_bytes: usize, meta: &Meta) -> Size {
    Size { class: classes.class_of(ItemSize::new(key_bytes, meta)), value_bytes: meta.value_bytes }
}

/// Returns the remaining time to live in seconds; `None` if the item does not expire.
pub(crate) fn ttl_secs(deadline: Deadline, now: Second) -> Option<u32> {
    (deadline != Deadline::NEVER).then(|| deadline.0.saturating_sub(now))
}

/// The maximum number of watchers, as in memcached.
const WATCHERS_MAX: usize = 20;

/// Memory of a log that is kept after all of it was read.
const LOG_BYTES_KEPT: usize = 4 * 1024;

/// The collector's pause while there are lines, …
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// … and while there are none.
const PAUSE_MAX: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// Watchers of a server with one thread, and the waker of their worker.
    fn watchers() -> (Arc<Watchers>, Arc<Waker>) {
        let (log, counters) = (Arc::new(Log::new(0)), Arc::default());
        let waker = Arc::new(Waker::new().unwrap());
        (Arc::new(Watchers::new(log, counters, 4, 2000, 100)), waker)
    }

    fn counter(watchers: &Watchers, counter: Counter) -> u64 {
        watchers.logs().counters.read(counter)
    }

    fn read(watch: &Watch) -> Vec<String> {
        watch.watchers.collect();
        let mut out = Vec::new();
        while watch.read(&mut out, 1 << 20) {}
        let lines = String::from_utf8(out).unwrap();
        let behind_stamp = |line: &str| line.split(' ').next_back().unwrap_or(line).to_owned();
        lines.lines().map(behind_stamp).collect()
    }

    #[test]
    fn each_watcher_reads_the_lines_of_its_topics_in_their_order() {
        let (watchers, waker) = watchers();
        let gets = Watch::begin(&watchers, Topics::FETCHERS, &waker).unwrap();
        let both = Watch::begin(&watchers, Topics::FETCHERS | Topics::MUTATIONS, &waker).unwrap();
        watchers.report(Topics::MUTATIONS, |out| out.extend_from_slice(b"set\n"));
        watchers.report(Topics::FETCHERS, |out| out.extend_from_slice(b"get\n"));
        watchers.report(Topics::EVICTIONS, |_| panic!("no watcher wants this topic"));
        assert_eq!(read(&gets), ["get"]);
        assert_eq!(read(&both), ["set", "get"]);
        assert_eq!(watchers.log.interest().topics(), Topics::FETCHERS | Topics::MUTATIONS);
        drop((gets, both));
        assert!(watchers.log.interest().is_none());
        assert!(!watchers.want(Topics::MUTATIONS));
    }

    #[test]
    fn a_slow_watcher_receives_the_number_of_missed_lines() {
        let (watchers, waker) = watchers();
        let watch = Watch::begin(&watchers, Topics::FETCHERS, &waker).unwrap();
        let report = || watchers.report(Topics::FETCHERS, |out| out.extend_from_slice(b"l\n"));
        for _ in 0..10 {
            report();
        }
        let first = read(&watch);
        assert!((1..10).contains(&first.len()), "{first:?}");
        report();
        assert_eq!(read(&watch), [format!("skipped={}", 10 - first.len()), "l".to_owned()]);
        assert_eq!(counter(&watchers, Counter::LogWatcherSkipped), 10 - first.len() as u64);
        assert_eq!(counter(&watchers, Counter::LogWatcherSent), first.len() as u64 + 1);
        assert_eq!(counter(&watchers, Counter::LogWorkerWritten), 11);
    }

    #[test]
    fn a_full_ring_drops_lines_and_counts_them_and_blocks_no_thread() {
        let (watchers, waker) = watchers();
        let _watch = Watch::begin(&watchers, Topics::FETCHERS, &waker).unwrap();
        // The lock blocks the collector and all watchers, but not the threads that write lines.
        let held = watchers.logs();
        let lines = 1000;
        for _ in 0..lines {
            watchers.report(Topics::FETCHERS, |out| out.extend_from_slice(&[b'l'; 90]));
        }
        drop(held);
        watchers.collect();
        let dropped = counter(&watchers, Counter::LogWorkerDropped);
        assert_eq!(counter(&watchers, Counter::LogWorkerWritten) + dropped, lines);
        assert!((900..lines).contains(&dropped), "{dropped}");
    }

    #[test]
    fn a_watcher_sees_no_earlier_lines_and_each_thread_has_its_own_ring() {
        let (watchers, waker) = watchers();
        let first = Watch::begin(&watchers, Topics::FETCHERS, &waker).unwrap();
        let held = watchers.logs();
        watchers.report(Topics::FETCHERS, |out| out.extend_from_slice(b"before\n"));
        drop(held);
        let second = Watch::begin(&watchers, Topics::FETCHERS, &waker).unwrap();
        let reporting = Arc::clone(&watchers);
        let report = move || reporting.report(Topics::FETCHERS, |out| out.extend(b"else\n"));
        thread::spawn(report).join().unwrap();
        watchers.report(Topics::FETCHERS, |out| out.extend_from_slice(b"here\n"));
        assert_eq!(read(&first), ["before", "else", "here"], "in the order of their numbers");
        assert_eq!(read(&second), ["else", "here"]);
    }

    #[test]
    fn the_worker_of_a_watcher_is_woken_by_the_collector() {
        let (watchers, waker) = watchers();
        let watch = Watch::begin(&watchers, Topics::FETCHERS, &waker).unwrap();
        watchers.report(Topics::FETCHERS, |out| out.extend_from_slice(b"l\n"));
        let mut ready = [PollFd::new(&waker, PollFlags::IN)];
        let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(poll(&mut ready, Some(&limit)), Ok(1));
        assert_eq!(read(&watch), ["l"]);
    }

    #[test]
    fn twenty_watchers_are_allowed_and_a_leaving_one_frees_its_place() {
        let (watchers, waker) = watchers();
        let begin = || Watch::begin(&watchers, Topics::FETCHERS, &waker);
        let mut watches: Vec<_> = (0..20).map(|_| begin().unwrap()).collect();
        assert_eq!(begin().unwrap_err(), Refusal::TooManyWatchers);
        assert_eq!(counter(&watchers, Counter::LogWatchers), 20);
        watches.pop();
        begin().unwrap();
        assert_eq!(counter(&watchers, Counter::LogWatchers), 19);
    }
}
