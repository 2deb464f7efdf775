//! `lru_crawler crawl`: looking for expired items now, not when their turn comes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::Duration;

use larder::Cursor;
use larder_item::Meta;
use larder_protocol::Refusal;
use larder_protocol::admin::Crawled;
use larder_stats::{Counter, Counters};

use crate::Server;
use crate::admin::classes::ItemSize;

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

    /// Begins to look through all items for expired ones of some classes, on a thread of its own.
    ///
    /// # Errors
    /// That is under way already, or there is no thread for it.
    pub(crate) fn crawl(server: &Arc<Server>, crawled: Crawled) -> Result<(), Refusal> {
        // Acquire and release each other: of those who have the flag in turn, each sees what the one before counted.
        if server.crawler.crawling.swap(true, Acquire) {
            return Err(Refusal::Crawling);
        }
        server.crawler.counters.bump(Counter::CrawlersRunning);
        let crawling = Arc::clone(server);
        let spawned = thread::Builder::new().name("crawler".to_owned()).spawn(move || {
            crawl(&crawling, crawled);
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

/// Removes the dead items of the classes.
fn crawl(server: &Server, crawled: Crawled) {
    let wanted = |key_bytes, meta: &Meta| {
        crawled.has(server.classes.class_of(ItemSize::new(key_bytes, meta)))
    };
    let (mut cursor, mut groups_left) = (Cursor::default(), GROUPS_PER_TURN);
    while server.cache.sweep_group(&mut cursor, wanted) {
        groups_left -= 1;
        if groups_left == 0 {
            if server.stop.requested().is_some() {
                return;
            }
            thread::sleep(PAUSE);
            groups_left = GROUPS_PER_TURN;
        }
    }
}

/// Groups of the index that are looked at in one go: some thousand items, less than a millisecond …
const GROUPS_PER_TURN: usize = 256;

/// … and what others get of the processor then.
const PAUSE: Duration = Duration::from_micros(200);
