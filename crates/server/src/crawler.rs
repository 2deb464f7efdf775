//! `lru_crawler crawl`: looking for expired items now, not when their turn comes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::Duration;

use larder_protocol::Refusal;
use larder_stats::{Counter, Counters};

use crate::Server;

/// Whether clients may crawl, and whether one does.
#[derive(Debug)]
pub(crate) struct Crawler {
    enabled: AtomicBool,
    crawling: AtomicBool,
    /// Written by whoever has set `crawling`.
    counters: Arc<Counters>,
}

impl Crawler {
    /// A crawler that is enabled, or not.
    pub(crate) fn new(enabled: bool, counters: Arc<Counters>) -> Self {
        let (enabled, crawling) = (AtomicBool::new(enabled), AtomicBool::new(false));
        Self { enabled, crawling, counters }
    }

    /// May clients crawl and dump?
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    /// Lets clients crawl, or not. Says whether they could before.
    pub(crate) fn enable(&self, enabled: bool) -> bool {
        self.enabled.swap(enabled, Relaxed)
    }

    /// Begins to look through all memory for expired items, on a thread of its own.
    ///
    /// # Errors
    /// That is under way already, or there is no thread for it.
    pub(crate) fn crawl(server: &Arc<Server>) -> Result<(), Refusal> {
        // Acquire and release each other: of those who have the flag in turn, each sees what the one before counted.
        if server.crawler.crawling.swap(true, Acquire) {
            return Err(Refusal::Crawling);
        }
        server.crawler.counters.count(Counter::CrawlersRunning);
        let crawling = Arc::clone(server);
        let spawned = thread::Builder::new().name("crawler".to_owned()).spawn(move || {
            crawl(&crawling);
            crawling.crawler.end();
        });
        match spawned {
            Ok(_) => Ok(()),
            Err(_) => {
                server.crawler.end();
                Err(Refusal::NoSuchCrawl)
            }
        }
    }

    fn end(&self) {
        self.counters.add(Counter::CrawlersRunning, 1u64.wrapping_neg());
        self.crawling.store(false, Release);
    }
}

fn crawl(server: &Server) {
    for _ in 0..8u64.max(server.cache.memory_limit() / CALL_BYTES) {
        if server.stop.requested().is_some() {
            return;
        }
        server.cache.maintain();
        thread::sleep(PAUSE);
    }
}

/// [`larder::Cache::maintain`] looks through all memory in eight calls, or in as many as it has so many bytes.
const CALL_BYTES: u64 = 128 << 20;

/// What others get of the processor between two calls.
const PAUSE: Duration = Duration::from_millis(1);
