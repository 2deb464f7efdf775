//! `lru_crawler metadump` and `mgdump`: list all items, a little at a time.
//!
//! A dump is a state of its session instead of a command that runs to its end: in each turn it
//! appends as much as its connection may have waiting, or visits as many items as a turn's commands
//! would have, and other connections get their turns in between. It holds only a position in the
//! index.

use std::sync::Arc;

use larder::{Cache, Cursor, Dumped};
use larder_item::Deadline;
use larder_protocol::admin::{Crawled, DumpForm};
use larder_protocol::text::dump::{self, DumpedItem};
use larder_stats::{Counter, Counters};

use crate::admin::classes::{Classes, ItemSize};

/// A dump in progress.
#[derive(Debug)]
pub(crate) struct Dump {
    cache: Cache,
    classes: Arc<Classes>,
    counters: Arc<Counters>,
    form: DumpForm,
    crawled: Crawled,
    cursor: Cursor,
    found: Vec<Dumped>,
}

impl Dump {
    /// Begins a dump. `counters` belong to the thread that will drop it.
    pub(crate) fn begin(
        cache: &Cache,
        classes: &Arc<Classes>,
        counters: &Arc<Counters>,
        form: DumpForm,
        crawled: Crawled,
    ) -> Self {
        counters.bump(Counter::CrawlerStarts);
        counters.bump(Counter::CrawlersRunning);
        Self {
            cache: cache.clone(),
            classes: Arc::clone(classes),
            counters: Arc::clone(counters),
            form,
            crawled,
            cursor: Cursor::default(),
            found: Vec::new(),
        }
    }

    /// Visits the items of one more group of the index, and appends the lines of those requested.
    /// Returns how many items it visited, or `None` at the end, whose line it appends too.
    pub(crate) fn step(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        self.found.clear();
        if !self.cache.dump_group(&mut self.cursor, &mut self.found) {
            let end: &[u8] = match self.form {
                DumpForm::Meta => b"END\r\n",
                DumpForm::Get => b"EN\r\n",
            };
            out.extend_from_slice(end);
            return None;
        }
        for item in &self.found {
            self.show(item, out);
        }
        Some(self.found.len())
    }

    /// Returns the format of the lines.
    pub(crate) fn form(&self) -> DumpForm {
        self.form
    }

    /// Returns the memory it owns beyond its own size, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.found.capacity() * size_of::<Dumped>()
            + self.found.iter().map(|item| item.key.capacity()).sum::<usize>()
    }

    fn show(&self, item: &Dumped, out: &mut Vec<u8>) {
        let Dumped { key, meta } = item;
        let classes = &self.classes;
        let size = ItemSize::new(key.len(), meta);
        let class = classes.class_of(size);
        if !self.crawled.has(class) {
            return;
        }
        if self.form == DumpForm::Get {
            return dump::get(out, key);
        }
        let epoch = self.cache.epoch();
        let deadline_unix_secs = match meta.deadline {
            Deadline::NEVER => None,
            Deadline(second) => Some(epoch.unix_of(second)),
        };
        let shown = DumpedItem {
            key,
            deadline_unix_secs,
            seen_unix_secs: epoch.unix_of(meta.seen),
            cas: meta.cas,
            fetched: meta.fetched,
            class,
            item_bytes: classes.item_bytes(size),
            flags: meta.flags,
        };
        dump::meta(out, &shown);
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        self.counters.add(Counter::CrawlersRunning, 1u64.wrapping_neg());
    }
}
