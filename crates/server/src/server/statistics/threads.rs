//! The counters of each thread of a server.

use std::iter;
use std::sync::Arc;

use larder_stats::{Counter, Counters};

/// A thread that counts. Each thread has separate counters, which no other thread writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    /// A worker, counted from 0.
    Worker(usize),
    /// The threads that collect lines for watchers. Only one runs at a time.
    Watchers,
    /// The thread of `lru_crawler crawl`. Only one runs at a time.
    Crawler,
    /// The admin listener's thread.
    Admin,
    /// The thread that serves connections while the cache opens.
    Opening,
    Listener,
    /// The thread that has the connections to an origin, counted from 0.
    Near(usize),
    /// The thread that reads watched files again.
    Watched,
    /// The thread that resolves the name of `--cluster-dns`.
    Names,
    /// A thread that waits for the disk, counted from 0.
    Disk(usize),
}

/// The counters of all threads.
#[derive(Debug)]
pub(super) struct ThreadCounters {
    workers: Vec<Arc<Counters>>,
    watchers: Arc<Counters>,
    crawler: Arc<Counters>,
    admin: Arc<Counters>,
    opening: Arc<Counters>,
    listener: Arc<Counters>,
    near: Vec<Arc<Counters>>,
    watched: Arc<Counters>,
    names: Arc<Counters>,
    disk: Vec<Arc<Counters>>,
}

impl ThreadCounters {
    pub(super) fn new(worker_count: usize, origin_count: usize, disk_threads: usize) -> Self {
        let counters = |threads| (0..threads).map(|_| Arc::default()).collect();
        Self {
            workers: counters(worker_count),
            watchers: Arc::default(),
            crawler: Arc::default(),
            admin: Arc::default(),
            opening: Arc::default(),
            listener: Arc::default(),
            near: counters(origin_count),
            watched: Arc::default(),
            names: Arc::default(),
            disk: counters(disk_threads),
        }
    }

    /// Returns the counters of a thread.
    pub(super) fn of(&self, thread: Thread) -> &Arc<Counters> {
        match thread {
            Thread::Worker(number) => &self.workers[number],
            Thread::Watchers => &self.watchers,
            Thread::Crawler => &self.crawler,
            Thread::Admin => &self.admin,
            Thread::Opening => &self.opening,
            Thread::Listener => &self.listener,
            Thread::Near(number) => &self.near[number],
            Thread::Watched => &self.watched,
            Thread::Names => &self.names,
            Thread::Disk(number) => &self.disk[number],
        }
    }

    /// Adds the value of a counter in all threads to `value`.
    pub(super) fn add(&self, counter: Counter, value: u64) -> u64 {
        let Self { workers, watchers, crawler, admin, opening, listener, near, watched, .. } = self;
        let Self { names, disk, .. } = self;
        let singles = [watchers, crawler, admin, opening, listener, watched, names];
        let threads = iter::empty().chain(workers).chain(singles).chain(near).chain(disk);
        threads.map(|counters| counters.read(counter)).fold(value, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_counters_and_all_are_summed() {
        let threads = ThreadCounters::new(2, 2, 2);
        let named = [
            Thread::Worker(0),
            Thread::Worker(1),
            Thread::Watchers,
            Thread::Crawler,
            Thread::Admin,
            Thread::Opening,
            Thread::Listener,
            Thread::Near(0),
            Thread::Near(1),
            Thread::Watched,
            Thread::Names,
            Thread::Disk(0),
            Thread::Disk(1),
        ];
        for (at, thread) in named.into_iter().enumerate() {
            assert_eq!(threads.of(thread).read(Counter::CmdGet), 0, "{thread:?}");
            threads.of(thread).add(Counter::CmdGet, 1 << at);
        }
        assert_eq!(threads.add(Counter::CmdGet, 1000), 1000 + (1 << named.len()) - 1);
    }
}
