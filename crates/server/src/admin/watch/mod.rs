//! `watch`: connections that are shown what happens.
//!
//! ```text
//! worker ── its ring ──┐
//! worker ── its ring ──┼─ collector ─┬─ log of a watcher ── worker of its connection
//! maintainer ── ring ──┘             └─ log of a watcher ── …
//! ```
//!
//! A thread that does something watched writes a line into a ring of its own (`-o worker_logbuf_size`), and drops it
//! where there is no room: it waits for nobody, also while it evicts. The collector, a thread that runs while anybody
//! watches, takes the lines out of the rings, puts them in the order of their numbers, and copies each to the logs of
//! those who watch its topic (`-o watcher_logbuf_size`). Then it wakes the workers of their connections, which send what
//! is there. What a log has no room for is counted, and the count is shown in its place.

mod rings;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use larder::{Leaving, Reason};
use larder_protocol::text::watched;
use larder_protocol::{Refusal, Topics};
use larder_stats::{Counter, Counters};

use crate::admin::classes::Classes;
use crate::net::worker::inbox::Inbox;
use crate::{Server, admin::observer};
use rings::{Batch, Rings};

/// All watchers of a server.
#[derive(Debug)]
pub(crate) struct Watchers {
    /// What is watched by anybody: looked at before a line is written.
    topics: AtomicU16,
    rings: Rings,
    logs: Mutex<Logs>,
}

#[derive(Debug)]
struct Logs {
    /// Written under the lock alone.
    counters: Arc<Counters>,
    log_bytes_max: usize,
    /// The name of the next log.
    next_id: u64,
    list: Vec<Arc<WatcherLog>>,
    /// True while the collector runs.
    is_collecting: bool,
    batch: Batch,
}

/// What waits for one watcher.
#[derive(Debug)]
struct WatcherLog {
    id: u64,
    topics: Topics,
    /// The first line that it shows: those before were written before it was there.
    first_number: u64,
    inbox: Arc<Inbox>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: VecDeque<u8>,
    /// Lines for which there was no room since the last for which there was.
    skipped: u64,
    /// True if its worker has been woken since it has last read all.
    is_told: bool,
}

/// A connection's part in it: it watches as long as this exists.
#[derive(Debug)]
pub(crate) struct Watch {
    server: Arc<Server>,
    log: Arc<WatcherLog>,
}

impl Watchers {
    /// Nobody watches. At most `log_bytes_max` bytes wait for each who will, and `ring_bytes_max` in each of the rings:
    /// one for each of `threads` threads, which more of them share.
    pub(crate) fn new(
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
            rings: Rings::new(threads, ring_bytes_max),
            logs: Mutex::new(logs),
        }
    }

    /// True if anybody watches this.
    #[inline]
    pub(crate) fn want(&self, topics: Topics) -> bool {
        Topics::of_bits(self.topics.load(Relaxed)).meet(topics)
    }

    /// Writes a line for those who watch its topic, or drops it where the thread's ring is full. `write` appends what
    /// comes behind the stamp.
    pub(crate) fn tell(&self, topic: Topics, write: impl FnOnce(&mut Vec<u8>)) {
        if self.want(topic) {
            self.rings.write(topic, |line, number| {
                let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                watched::stamp(line, unix.unwrap_or(Duration::ZERO), number);
                write(line);
            });
        }
    }

    /// Copies the lines of all rings to the logs of those who watch. Returns how many there were, or `None` where
    /// nobody watches: the collector ends then.
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
            // What the rings had, and the buffers that they got for it.
            self.rings.take(&mut logs.batch);
            logs.batch = Batch::default();
        }
        logs.is_collecting.then_some(taken.lines)
    }

    fn logs(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the collector does: it looks often while there are lines, and is woken where a ring becomes half full.
fn collect(watchers: &Watchers) {
    let mut pause = PAUSE_MIN;
    while let Some(lines) = watchers.collect() {
        pause = if lines > 0 { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
        thread::park_timeout(pause);
    }
}

impl Logs {
    /// What is watched by anybody.
    fn topics(&self) -> Topics {
        self.list.iter().fold(Topics::NONE, |topics, log| topics | log.topics)
    }
}

impl WatcherLog {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the lines of its topics. Returns for how many there was room, and for how many there was none.
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
        if !queue.bytes.is_empty() && !queue.is_told {
            queue.is_told = true;
            self.inbox.waker().wake();
        }
        (sent, skipped)
    }
}

impl Queue {
    /// Adds a line, if there is room for it and for the count of those that had none before.
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
    /// Begins to watch: the worker that `inbox` belongs to is woken when there is something to read.
    ///
    /// # Errors
    /// There are too many watchers, or there is no thread for the collector.
    pub(crate) fn begin(
        server: &Arc<Server>,
        topics: Topics,
        inbox: &Arc<Inbox>,
    ) -> Result<Self, Refusal> {
        let watchers = &server.watchers;
        let mut logs = watchers.logs();
        if logs.list.len() >= WATCHERS_MAX {
            return Err(Refusal::TooManyWatchers);
        }
        if !logs.is_collecting {
            let watchers = Arc::clone(watchers);
            let collector = thread::Builder::new()
                .name("watch".to_owned())
                .spawn(move || collect(&watchers))
                .map_err(|_| Refusal::CannotWatch)?;
            server.watchers.rings.wake_when_half_full(collector.thread());
            logs.is_collecting = true;
        }
        let log = Arc::new(WatcherLog {
            id: logs.next_id,
            topics,
            first_number: watchers.rings.next_number(),
            inbox: Arc::clone(inbox),
            queue: Mutex::default(),
        });
        logs.next_id += 1;
        logs.list.push(Arc::clone(&log));
        logs.counters.bump(Counter::LogWatchers);
        pay_attention(server, &logs);
        drop(logs);
        Ok(Self { server: Arc::clone(server), log })
    }

    /// Appends what waits to `out`, until that has `out_bytes_max` bytes. True where there is more.
    pub(crate) fn read(&self, out: &mut Vec<u8>, out_bytes_max: usize) -> bool {
        let mut queue = self.log.queue();
        let bytes = queue.bytes.len().min(out_bytes_max.saturating_sub(out.len()));
        out.extend(queue.bytes.drain(..bytes));
        queue.is_told = !queue.bytes.is_empty();
        if !queue.is_told {
            queue.bytes.shrink_to(LOG_BYTES_KEPT);
        }
        queue.is_told
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut logs = self.server.watchers.logs();
        logs.list.retain(|log| log.id != self.log.id);
        logs.counters.add(Counter::LogWatchers, 1u64.wrapping_neg());
        pay_attention(&self.server, &logs);
    }
}

/// What shows evictions to those who watch them, for [`larder::Cache::set_departure_hook`].
pub(crate) fn evictions(
    watchers: &Arc<Watchers>,
    classes: Classes,
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
    let size = observer::size(classes, key.len(), &meta);
    let ttl_secs = observer::ttl_secs(meta.deadline, leaving.now());
    let idle_secs = leaving.now().saturating_sub(meta.seen);
    watchers.tell(Topics::EVICTIONS, |out| {
        watched::eviction(out, &key, meta.fetched, ttl_secs, idle_secs, size);
    });
}

/// Lets be noticed what is watched now. Under the lock, so that the last change is the last word.
fn pay_attention(server: &Server, logs: &Logs) {
    let topics = logs.topics();
    server.watchers.topics.store(topics.bits(), Relaxed);
    server.log.set_topics(topics);
}

/// memcached's limit.
const WATCHERS_MAX: usize = 20;

/// The memory of a log that is kept when all of it has been read.
const LOG_BYTES_KEPT: usize = 4 * 1024;

/// How long the collector waits while there are lines, …
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// … and while there are none.
const PAUSE_MAX: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use larder_options::Options;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn server() -> Arc<Server> {
        let (mut options, _) = Options::from_map([("memory_limit", "8")]).unwrap();
        options.watcher_log_bytes = 100;
        options.worker_log_bytes = 2000;
        Arc::new(Server::new(options).unwrap())
    }

    fn read(watch: &Watch) -> Vec<String> {
        watch.server.watchers.collect();
        let mut out = Vec::new();
        while watch.read(&mut out, 1 << 20) {}
        let lines = String::from_utf8(out).unwrap();
        let behind_stamp = |line: &str| line.split(' ').next_back().unwrap_or(line).to_owned();
        lines.lines().map(behind_stamp).collect()
    }

    #[test]
    fn each_watcher_reads_the_lines_of_its_topics_in_their_order() {
        let (server, inbox) = (server(), Arc::new(Inbox::new().unwrap()));
        let gets = Watch::begin(&server, Topics::FETCHERS, &inbox).unwrap();
        let both = Watch::begin(&server, Topics::FETCHERS | Topics::MUTATIONS, &inbox).unwrap();
        server.watchers.tell(Topics::MUTATIONS, |out| out.extend_from_slice(b"set\n"));
        server.watchers.tell(Topics::FETCHERS, |out| out.extend_from_slice(b"get\n"));
        server.watchers.tell(Topics::EVICTIONS, |_| panic!("nobody wants this"));
        assert_eq!(read(&gets), ["get"]);
        assert_eq!(read(&both), ["set", "get"]);
        assert_eq!(server.log.interest().topics(), Topics::FETCHERS | Topics::MUTATIONS);
        drop((gets, both));
        assert!(server.log.interest().is_none());
        assert!(!server.watchers.want(Topics::MUTATIONS));
    }

    #[test]
    fn a_slow_watcher_is_told_how_much_it_missed() {
        let (server, inbox) = (server(), Arc::new(Inbox::new().unwrap()));
        let watch = Watch::begin(&server, Topics::FETCHERS, &inbox).unwrap();
        let tell = || server.watchers.tell(Topics::FETCHERS, |out| out.extend_from_slice(b"l\n"));
        for _ in 0..10 {
            tell();
        }
        let first = read(&watch);
        assert!((1..10).contains(&first.len()), "{first:?}");
        tell();
        assert_eq!(read(&watch), [format!("skipped={}", 10 - first.len()), "l".to_owned()]);
        assert_eq!(server.counter(Counter::LogWatcherSkipped), 10 - first.len() as u64);
        assert_eq!(server.counter(Counter::LogWatcherSent), first.len() as u64 + 1);
        assert_eq!(server.counter(Counter::LogWorkerWritten), 11);
    }

    #[test]
    fn a_full_ring_drops_lines_and_counts_them_and_holds_up_nobody() {
        let (server, inbox) = (server(), Arc::new(Inbox::new().unwrap()));
        let _watch = Watch::begin(&server, Topics::FETCHERS, &inbox).unwrap();
        // The collector, and all who read or begin to watch, wait meanwhile: who writes does not.
        let held = server.watchers.logs();
        let lines = 1000;
        for _ in 0..lines {
            server.watchers.tell(Topics::FETCHERS, |out| out.extend_from_slice(&[b'l'; 90]));
        }
        drop(held);
        server.watchers.collect();
        let dropped = server.counter(Counter::LogWorkerDropped);
        assert_eq!(server.counter(Counter::LogWorkerWritten) + dropped, lines);
        assert!((900..lines).contains(&dropped), "{dropped}");
    }

    #[test]
    fn a_watcher_sees_nothing_that_was_before_it_and_a_thread_has_its_own_ring() {
        let (server, inbox) = (server(), Arc::new(Inbox::new().unwrap()));
        let first = Watch::begin(&server, Topics::FETCHERS, &inbox).unwrap();
        let held = server.watchers.logs();
        server.watchers.tell(Topics::FETCHERS, |out| out.extend_from_slice(b"before\n"));
        drop(held);
        let second = Watch::begin(&server, Topics::FETCHERS, &inbox).unwrap();
        let telling = Arc::clone(&server);
        let tell = move || telling.watchers.tell(Topics::FETCHERS, |out| out.extend(b"else\n"));
        thread::spawn(tell).join().unwrap();
        server.watchers.tell(Topics::FETCHERS, |out| out.extend_from_slice(b"here\n"));
        assert_eq!(read(&first), ["before", "else", "here"], "in the order of their numbers");
        assert_eq!(read(&second), ["else", "here"]);
    }

    #[test]
    fn the_worker_of_a_watcher_is_woken_by_the_collector() {
        let (server, inbox) = (server(), Arc::new(Inbox::new().unwrap()));
        let watch = Watch::begin(&server, Topics::FETCHERS, &inbox).unwrap();
        server.watchers.tell(Topics::FETCHERS, |out| out.extend_from_slice(b"l\n"));
        let mut ready = [PollFd::new(inbox.waker(), PollFlags::IN)];
        let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(poll(&mut ready, Some(&limit)), Ok(1));
        assert_eq!(read(&watch), ["l"]);
    }

    #[test]
    fn twenty_may_watch_and_one_who_goes_makes_room() {
        let (server, inbox) = (server(), Arc::new(Inbox::new().unwrap()));
        let begin = || Watch::begin(&server, Topics::FETCHERS, &inbox);
        let mut watches: Vec<_> = (0..20).map(|_| begin().unwrap()).collect();
        assert_eq!(begin().unwrap_err(), Refusal::TooManyWatchers);
        assert_eq!(server.counter(Counter::LogWatchers), 20);
        watches.pop();
        begin().unwrap();
        assert_eq!(server.counter(Counter::LogWatchers), 19);
    }
}
