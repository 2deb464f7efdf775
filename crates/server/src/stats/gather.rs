//! Statistics that visit items: a census, which counts the items by size class, or a list of keys.
//!
//! Such a response is gathered in slices, each of which visits some of the items. If the first
//! slice does not finish the response, the response becomes a state of the session. Each later turn
//! of the connection runs another slice, and other connections take their turns in between.

use std::sync::Arc;

use larder::{Dumped, Wait};
use larder_item::Deadline;
use larder_protocol::{Frame, text};
use larder_stats::Section;

use super::by_class::ByClass;
use super::prefixes::PrefixList;
use super::rows;
use crate::observe::census::Census;
use crate::observe::classes::ItemSize;
use crate::observe::listing::{ListStep, Listing};
use crate::server::Server;

/// The requested statistics.
#[derive(Clone, Copy, Debug)]
pub(super) enum ItemStatistics {
    /// `stats items`.
    Items,
    /// `stats slabs`.
    Slabs,
    /// `stats sizes`.
    Sizes,
}

/// A response that is being gathered.
#[derive(Debug)]
pub(crate) struct StatsResponse {
    server: Arc<Server>,
    what: What,
}

/// The outcome of one slice of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatherStep {
    /// The slice appended a part of the response.
    Some,
    /// The slice appended a part of the response, which needs the disk, like
    /// [`ListStep::NeedsDisk`].
    NeedsDisk,
    /// The response is complete except for its end.
    All,
}

#[derive(Debug)]
enum What {
    Census(ItemStatistics),
    Keys(Keys),
    /// The counts of commands by prefix. All prefixes up to this one have been shown.
    Prefixes(Option<Box<[u8]>>),
    /// The report on prefixes.
    Report(PrefixList),
}

/// The keys of the items of a class, as `stats cachedump` lists them.
#[derive(Debug)]
struct Keys {
    class: u8,
    listing: Listing,
    /// How many more items the response may show.
    items_left: u32,
    /// How many more items may be visited.
    looks_left: usize,
    /// How many more bytes the response may have.
    bytes_left: usize,
}

impl StatsResponse {
    pub(super) fn census(server: &Arc<Server>, counted: ItemStatistics) -> Self {
        Self { server: Arc::clone(server), what: What::Census(counted) }
    }

    /// Begins a list of at most `items_max` keys of a class; 0 means any number.
    pub(super) fn keys(server: &Arc<Server>, class: u8, items_max: u32) -> Self {
        let keys = Keys {
            class,
            listing: Listing::begin(&server.cache),
            items_left: if items_max == 0 { u32::MAX } else { items_max },
            looks_left: LOOKS_MAX,
            bytes_left: BYTES_MAX,
        };
        Self { server: Arc::clone(server), what: What::Keys(keys) }
    }

    /// Begins the counts of commands by prefix.
    pub(crate) fn prefixes(server: &Arc<Server>) -> Self {
        Self { server: Arc::clone(server), what: What::Prefixes(None) }
    }

    /// Begins the report on prefixes.
    pub(crate) fn prefix_report(server: &Arc<Server>) -> Self {
        let list = PrefixList::begin(server);
        Self { server: Arc::clone(server), what: What::Report(list) }
    }

    /// Runs one slice, and appends its results.
    pub(crate) fn step(
        &mut self,
        frame: &Frame<'_>,
        wait: Wait<'_>,
        out: &mut Vec<u8>,
    ) -> GatherStep {
        let is_complete = match &mut self.what {
            What::Keys(keys) => return keys.step(&self.server, wait, out),
            What::Prefixes(last) => {
                self.server.statistics.prefixes.dump(last, PREFIX_BYTES_PER_SLICE, out)
            }
            What::Report(list) => list.step(frame, out),
            What::Census(counted) => match self.server.upkeep.censuses.step() {
                Some(census) => {
                    counted.show(&self.server, &census, frame, out);
                    true
                }
                None => false,
            },
        };
        if is_complete { GatherStep::All } else { GatherStep::Some }
    }

    /// Returns the walk over the items; `None` if the response does not list items.
    pub(crate) fn listing(&mut self) -> Option<&mut Listing> {
        match &mut self.what {
            What::Keys(keys) => Some(&mut keys.listing),
            What::Census(_) | What::Prefixes(_) | What::Report(_) => None,
        }
    }

    /// Ends the response with the results so far, for a client that cannot receive a later part.
    pub(crate) fn finish(self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        match self.what {
            What::Census(counted) => {
                let census = self.server.upkeep.censuses.at_once();
                counted.show(&self.server, &census, frame, out);
            }
            What::Prefixes(mut last) => {
                self.server.statistics.prefixes.dump(&mut last, PREFIX_BYTES_PER_SLICE, out);
            }
            What::Keys(_) | What::Report(_) => {}
        }
    }

    /// Returns the memory that the response owns beyond its own size, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.what {
            What::Census(_) => 0,
            What::Report(list) => list.held_bytes(),
            What::Prefixes(last) => last.as_ref().map_or(0, |prefix| prefix.len()),
            What::Keys(keys) => keys.listing.held_bytes(),
        }
    }
}

impl ItemStatistics {
    fn show(self, server: &Server, census: &Census, frame: &Frame<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Items => ByClass { census, server }.show(Section::Items, frame, out),
            Self::Slabs => rows::slabs(server, census, frame, out),
            Self::Sizes => rows::sizes(census, frame, out),
        }
    }
}

impl Keys {
    fn step(&mut self, server: &Server, wait: Wait<'_>, out: &mut Vec<u8>) -> GatherStep {
        let (mut steps_left, mut slice_left) = (STEPS_PER_SLICE, LOOKS_PER_SLICE);
        while steps_left > 0 && slice_left > 0 {
            steps_left -= 1;
            let listed = self.listing.step(wait);
            slice_left = slice_left.saturating_sub(self.listing.found().len());
            let is_over = self.show(server, out) || listed == ListStep::Over;
            match listed {
                _ if is_over => return GatherStep::All,
                ListStep::NeedsDisk => return GatherStep::NeedsDisk,
                _ => {}
            }
        }
        GatherStep::Some
    }

    /// Shows the items of the last step. Returns true if the response has enough items.
    fn show(&mut self, server: &Server, out: &mut Vec<u8>) -> bool {
        for item in self.listing.found() {
            self.looks_left = self.looks_left.saturating_sub(1);
            let size = ItemSize::new(item.key.len(), &item.meta);
            if server.statistics.classes.class_of(size) == self.class {
                let start = out.len();
                show_key(server, item, out);
                self.items_left -= 1;
                self.bytes_left = self.bytes_left.saturating_sub(out.len() - start);
            }
            if self.items_left == 0 || self.looks_left == 0 || self.bytes_left == 0 {
                return true;
            }
        }
        false
    }
}

fn show_key(server: &Server, item: &Dumped, out: &mut Vec<u8>) {
    let exptime = match item.meta.deadline {
        Deadline::NEVER => 0,
        Deadline(second) => server.cache.epoch().unix_of(second),
    };
    text::render::dumped_item(out, &item.key, item.meta.value_bytes, exptime);
}

/// Bytes of prefix lines that one slice shows.
const PREFIX_BYTES_PER_SLICE: usize = 8 * 1024;

/// The maximum length of a list, as in memcached.
const BYTES_MAX: usize = 2 * 1024 * 1024;

/// Maximum number of items visited for one response …
const LOOKS_MAX: usize = 30_000;

/// … and of items or steps of the walk in one slice.
const LOOKS_PER_SLICE: usize = 500;
const STEPS_PER_SLICE: usize = 2_000;
