//! `lru_crawler metadump` and `mgdump`: list all items, a few at a time.
//!
//! A dump is a state of its session, not a command that runs until it is done. It continues in each
//! turn of its connection, until it has appended as much as the connection may buffer, or has
//! visited as many items as commands could look up keys in one turn. Other connections take their
//! turns in between.

use std::sync::Arc;

use larder::{Cache, Dumped, Wait};
use larder_item::Deadline;
use larder_protocol::admin::{CrawlScope, DumpForm};
use larder_protocol::text::dump::{self, DumpedItem};
use larder_stats::{Counter, Counters};

use crate::observe::classes::{Classes, ItemSize};
use crate::observe::listing::{ListStep, Listing};

/// A dump in progress.
#[derive(Debug)]
pub(crate) struct Dump {
    cache: Cache,
    classes: Arc<Classes>,
    counters: Arc<Counters>,
    form: DumpForm,
    crawled: CrawlScope,
    listing: Listing,
}

/// The outcome of one step of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DumpStep {
    /// It has visited this many items.
    Visited(usize),
    /// The dump needs the disk, like [`ListStep::NeedsDisk`].
    NeedsDisk,
    /// The dump is complete.
    Over,
}

impl Dump {
    /// Begins a dump. `counters` belong to the thread that will drop it.
    pub(crate) fn begin(
        cache: &Cache,
        classes: &Arc<Classes>,
        counters: &Arc<Counters>,
        form: DumpForm,
        crawled: CrawlScope,
    ) -> Self {
        counters.bump(Counter::CrawlerStarts);
        counters.bump(Counter::CrawlersRunning);
        Self {
            cache: cache.clone(),
            classes: Arc::clone(classes),
            counters: Arc::clone(counters),
            form,
            crawled,
            listing: Listing::begin(cache),
        }
    }

    /// Visits a few more items, and appends the lines of those that match. Appends the end line
    /// after the last item.
    pub(crate) fn step(&mut self, wait: Wait<'_>, out: &mut Vec<u8>) -> DumpStep {
        let listed = self.listing.step(wait);
        self.listing.found().iter().for_each(|item| self.show(item, out));
        match listed {
            ListStep::Found => DumpStep::Visited(self.listing.found().len()),
            ListStep::NeedsDisk => DumpStep::NeedsDisk,
            ListStep::Over => {
                self.end(out);
                DumpStep::Over
            }
        }
    }

    fn end(&self, out: &mut Vec<u8>) {
        match (self.listing.unreadable(), self.form) {
            // If items are missing, the list must not end like a complete one.
            (lost @ 1.., _) => dump::unreadable(out, lost),
            (0, DumpForm::Meta) => out.extend_from_slice(b"END\r\n"),
            (0, DumpForm::Get) => out.extend_from_slice(b"EN\r\n"),
        }
    }

    /// Returns the walk over the items.
    pub(crate) fn listing(&mut self) -> &mut Listing {
        &mut self.listing
    }

    /// Returns the format of the lines.
    pub(crate) fn form(&self) -> DumpForm {
        self.form
    }

    /// Returns the memory that the dump owns beyond its own size, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.listing.held_bytes()
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
