//! `lru_crawler crawl`: removes expired items now, before the expiry sweep reaches them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::Duration;

use larder::{Cache, Cursor};
use larder_item::Meta;
use larder_protocol::Refusal;
use larder_protocol::admin::CrawlScope;
use larder_stats::{Counter, Counters};

use crate::observe::classes::{Classes, ItemSize};
use crate::stop::Stop;

/// Holds whether clients may start crawls, and whether a crawl is in progress.
#[derive(Debug)]
pub(crate) struct Crawler {
    enabled: AtomicBool,
    crawling: AtomicBool,
    cache: Cache,
    classes: Arc<Classes>,
    /// A crawl ends early if the server must stop.
    stop: Arc<Stop>,
    /// Written by the thread that has set `crawling`.
    counters: Arc<Counters>,
}

impl Crawler {
    /// Creates a crawler, enabled or not.
    pub(crate) fn new(
        enabled: bool,
        cache: Cache,
        classes: Arc<Classes>,
        stop: Arc<Stop>,
        counters: Arc<Counters>,
    ) -> Self {
        let (enabled, crawling) = (AtomicBool::new(enabled), AtomicBool::new(false));
        Self { enabled, crawling, cache, classes, stop, counters }
    }

    /// True if clients may start crawls and dumps.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    /// Permits or forbids crawls. Returns whether they were permitted before.
    pub(crate) fn enable(&self, enabled: bool) -> bool {
        self.enabled.swap(enabled, Relaxed)
    }

    /// Starts a thread that removes the expired items of some classes.
    ///
    /// # Errors
    /// Fails if a crawl is already in progress, or if the thread cannot be started.
    pub(crate) fn crawl(self: &Arc<Self>, crawled: CrawlScope) -> Result<(), Refusal> {
        // The acquire here pairs with the release that clears the flag: each thread that sets the
        // flag observes the counts of the previous one.
        if self.crawling.swap(true, Acquire) {
            return Err(Refusal::Crawling);
        }
        self.counters.bump(Counter::CrawlersRunning);
        let crawler = Arc::clone(self);
        let spawned = thread::Builder::new().name("crawler".to_owned()).spawn(move || {
            crawler.sweep(crawled);
            crawler.end();
        });
        match spawned {
            Ok(_) => Ok(()),
            Err(_) => {
                self.end();
                Err(Refusal::NoSuchCrawl)
            }
        }
    }

    /// Removes the expired items of the classes.
    fn sweep(&self, crawled: CrawlScope) {
        let wanted = |key_bytes, meta: &Meta| {
            crawled.has(self.classes.class_of(ItemSize::new(key_bytes, meta)))
        };
        let (mut cursor, mut groups_left) = (Cursor::default(), GROUPS_PER_TURN);
        while self.cache.sweep_group(&mut cursor, wanted) {
            groups_left -= 1;
            if groups_left == 0 {
                if self.stop.requested().is_some() {
                    return;
                }
                thread::sleep(PAUSE);
                groups_left = GROUPS_PER_TURN;
            }
        }
    }

    fn end(&self) {
        self.counters.add(Counter::CrawlersRunning, 1u64.wrapping_neg());
        self.crawling.store(false, Release);
    }
}

/// How many groups of the index are visited without a pause: some thousand items, less than a
/// millisecond …
const GROUPS_PER_TURN: usize = 256;

/// … and the pause after them, which leaves the processor to other threads.
const PAUSE: Duration = Duration::from_micros(200);
