//! The limit of `--restore-ttl`: items that a start has restored live no longer than this.
//!
//! A change that failed while the server was away has left an old value. Restored items are those
//! whose cas token the cache had assigned before the start. Tokens stay the same when an item moves
//! or is touched, so the limit also holds if a client extends the life of an old value.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use larder::{Cache, Cursor};

use crate::clock::unix_time;
use crate::log;
use crate::stop::Stop;
use crate::words::CountedNoun;

/// The items from before a start, and the end of their lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LifeLimit {
    /// The highest cas token of a restored item.
    cas_max: u64,
    until_unix_secs: u64,
}

impl LifeLimit {
    /// Creates the limit for the items that the cache has now. Later items have higher tokens.
    pub(crate) fn begin(cache: &Cache, ttl: Duration) -> Self {
        let limit = Self {
            cas_max: cache.end_tokens(),
            until_unix_secs: unix_time().as_secs().saturating_add(ttl.as_secs()),
        };
        limit.apply_to_disk(cache);
        limit
    }

    /// Parses the text of [`Self::text`]; `None` if it has another form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (cas_max, until) = text.split_once(' ')?;
        Some(Self { cas_max: cas_max.parse().ok()?, until_unix_secs: until.parse().ok()? })
    }

    /// Returns the limit as text, for a successor.
    pub(crate) fn text(self) -> String {
        format!("{} {}", self.cas_max, self.until_unix_secs)
    }

    /// Makes the limit count for the items on the disk.
    pub(crate) fn apply_to_disk(self, cache: &Cache) {
        cache.limit_lives_on_disk(self.cas_max, self.until_unix_secs);
    }

    /// Starts the thread that removes the restored items from memory when the limit is reached.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub(crate) fn watch(self, cache: &Cache, stop: &Arc<Stop>) -> io::Result<()> {
        let (cache, stop) = (cache.clone(), Arc::clone(stop));
        let watch = move || {
            while !self.is_reached() {
                if stop.requested().is_some() {
                    return;
                }
                thread::sleep(PAUSE);
            }
            self.remove_from(&cache);
        };
        thread::Builder::new().name("restore_ttl".to_owned()).spawn(watch).map(drop)
    }

    fn is_reached(self) -> bool {
        unix_time() >= Duration::from_secs(self.until_unix_secs)
    }

    /// Removes the restored items from memory.
    fn remove_from(self, cache: &Cache) {
        let began = Instant::now();
        let (mut removed, mut left) = (0, 0);
        let (mut cursor, mut found) = (Cursor::default(), Vec::new());
        while cache.dump_group("", &mut cursor, &mut found) {
            for dumped in found.drain(..).filter(|dumped| dumped.meta.cas <= self.cas_max) {
                match cache.delete_if(&dumped.key, Some(dumped.meta.cas)) {
                    Ok(larder::Deletion::Deleted(_)) => removed += 1,
                    Ok(_) => {}
                    Err(_) => left += 1,
                }
            }
        }
        log::info(format_args!(
            "larderd: --restore-ttl: removed {} from before the start in {:.1} s",
            CountedNoun(removed, "item"),
            began.elapsed().as_secs_f64(),
        ));
        if left > 0 {
            log::error(format_args!(
                "larderd: --restore-ttl: {} could not be removed and may be out of date: remove \
                 all items with flush_all",
                CountedNoun(left, "item"),
            ));
        }
    }
}

const PAUSE: Duration = Duration::from_millis(50);
