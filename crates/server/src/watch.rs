//! `watch`: connections that are shown what happens.
//!
//! Whoever does something that is watched writes the line for it into the log of each watcher, under one lock, so that lines
//! come in the order of their numbers. The worker of the watching connection is woken when its log was empty, and sends
//! what is there. A log is bounded: lines beyond are counted in their stead.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use larder::{Leaving, Reason};
use larder_protocol::text::watched;
use larder_protocol::{Refusal, Topics};
use larder_stats::{Counter, Counters};

use crate::classes::Classes;
use crate::inbox::Inbox;
use crate::{Server, notice};

/// All watchers of a server.
#[derive(Debug)]
pub(crate) struct Watchers {
    /// What is watched by anybody: looked at before a line is written.
    topics: AtomicU16,
    lines: Mutex<Lines>,
}

#[derive(Debug)]
struct Lines {
    /// Written under the lock alone.
    counters: Arc<Counters>,
    log_bytes_max: usize,
    /// The number of the last line.
    number: u64,
    /// The name of the next log.
    next_id: u64,
    logs: Vec<WatcherLog>,
    /// The line being written.
    line: Vec<u8>,
}

/// What waits for one watcher.
#[derive(Debug)]
struct WatcherLog {
    id: u64,
    topics: Topics,
    bytes: VecDeque<u8>,
    /// Lines for which there was no room since the last for which there was.
    skipped: u64,
    inbox: Arc<Inbox>,
    /// Has its worker been woken since it has last read all?
    is_told: bool,
}

/// A connection's part in it: it watches as long as this exists.
#[derive(Debug)]
pub(crate) struct Watch {
    server: Arc<Server>,
    id: u64,
}

impl Watchers {
    /// Nobody watches. At most `log_bytes_max` bytes wait for each who will.
    pub(crate) fn new(counters: Arc<Counters>, log_bytes_max: usize) -> Self {
        let lines = Lines {
            counters,
            log_bytes_max,
            number: 0,
            next_id: 0,
            logs: Vec::new(),
            line: Vec::new(),
        };
        Self { topics: AtomicU16::new(0), lines: Mutex::new(lines) }
    }

    /// Does anybody watch this?
    #[inline]
    pub(crate) fn want(&self, topics: Topics) -> bool {
        Topics::of_bits(self.topics.load(Relaxed)).meet(topics)
    }

    /// Writes a line for those who watch its topic. `write` appends what comes behind the stamp; it must not block.
    pub(crate) fn tell(&self, topic: Topics, write: impl FnOnce(&mut Vec<u8>)) {
        if self.want(topic) {
            self.lines().tell(topic, write);
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn tell(&mut self, topic: Topics, write: impl FnOnce(&mut Vec<u8>)) {
        self.number += 1;
        self.line.clear();
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        watched::stamp(&mut self.line, unix.unwrap_or(Duration::ZERO), self.number);
        write(&mut self.line);
        self.counters.count(Counter::LogWorkerWritten);
        for log in self.logs.iter_mut().filter(|log| log.topics.meet(topic)) {
            let counter = if log.push(&self.line, self.log_bytes_max) {
                Counter::LogWatcherSent
            } else {
                Counter::LogWatcherSkipped
            };
            self.counters.count(counter);
        }
    }

    /// What is watched by anybody.
    fn topics(&self) -> Topics {
        self.logs.iter().fold(Topics::NONE, |topics, log| topics | log.topics)
    }
}

impl WatcherLog {
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
        if !self.is_told {
            self.is_told = true;
            self.inbox.waker().wake();
        }
        true
    }
}

impl Watch {
    /// Begins to watch: the worker that `inbox` belongs to is woken when there is something to read.
    ///
    /// # Errors
    /// There are too many watchers.
    pub(crate) fn begin(
        server: &Arc<Server>,
        topics: Topics,
        inbox: &Arc<Inbox>,
    ) -> Result<Self, Refusal> {
        let mut lines = server.watchers.lines();
        if lines.logs.len() >= WATCHERS_MAX {
            return Err(Refusal::TooManyWatchers);
        }
        let id = lines.next_id;
        lines.next_id += 1;
        lines.logs.push(WatcherLog {
            id,
            topics,
            bytes: VecDeque::new(),
            skipped: 0,
            inbox: Arc::clone(inbox),
            is_told: false,
        });
        lines.counters.count(Counter::LogWatchers);
        pay_attention(server, &lines);
        drop(lines);
        Ok(Self { server: Arc::clone(server), id })
    }

    /// Appends what waits to `out`, until that has `out_bytes_max` bytes. True where there is more.
    pub(crate) fn read(&self, out: &mut Vec<u8>, out_bytes_max: usize) -> bool {
        let mut lines = self.server.watchers.lines();
        let Some(log) = lines.logs.iter_mut().find(|log| log.id == self.id) else {
            return false;
        };
        let bytes = log.bytes.len().min(out_bytes_max.saturating_sub(out.len()));
        out.extend(log.bytes.drain(..bytes));
        log.is_told = !log.bytes.is_empty();
        if !log.is_told {
            log.bytes.shrink_to(LOG_BYTES_KEPT);
        }
        log.is_told
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut lines = self.server.watchers.lines();
        lines.logs.retain(|log| log.id != self.id);
        lines.counters.add(Counter::LogWatchers, 1u64.wrapping_neg());
        pay_attention(&self.server, &lines);
    }
}

/// What shows evictions to those who watch them, for [`larder::Cache::show_departures`].
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
    let size = notice::size(classes, key.len(), &meta);
    let ttl_secs = notice::ttl_secs(meta.deadline, leaving.now());
    let idle_secs = leaving.now().saturating_sub(meta.seen);
    watchers.tell(Topics::EVICTIONS, |out| {
        watched::eviction(out, &key, meta.fetched, ttl_secs, idle_secs, size);
    });
}

/// Lets be noticed what is watched now. Under the lock, so that the last change is the last word.
fn pay_attention(server: &Server, lines: &Lines) {
    let topics = lines.topics();
    server.watchers.topics.store(topics.bits(), Relaxed);
    server.log.set_topics(topics);
}

/// memcached's limit.
const WATCHERS_MAX: usize = 20;

/// The memory of a log that is kept when all of it has been read.
const LOG_BYTES_KEPT: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use larder_options::Options;

    use super::*;

    fn server() -> Arc<Server> {
        let (mut options, _) = Options::from_map([("memory_limit", "8")]).unwrap();
        options.watcher_log_bytes = 100;
        Arc::new(Server::new(options).unwrap())
    }

    fn read(watch: &Watch) -> Vec<String> {
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
        assert_eq!(server.log.attention().topics(), Topics::FETCHERS | Topics::MUTATIONS);
        drop((gets, both));
        assert!(server.log.attention().is_none());
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
