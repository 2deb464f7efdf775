//! Finding the item of a key on the disk.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use super::catalog::{Filed, Location};
use super::error::FindError;
use super::shared::Shared;
use crate::disk::{File, Page};
use crate::format::{Address, Item, RECORD_HEADER_BYTES, Record};
use crate::log::ReadError;

/// An item that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredItem {
    /// Its value.
    pub value: Vec<u8>,
    /// Bits that the client stored with the item.
    pub flags: u32,
    /// The item's version.
    pub version: u64,
    /// The second from which it is expired, as a Unix time; `None`: never.
    pub deadline_unix_secs: Option<u64>,
    /// The value is out of date.
    pub stale: bool,
}

impl StoredItem {
    fn of(item: &Item<'_>) -> Self {
        Self {
            value: item.value.to_vec(),
            flags: item.flags,
            version: item.version,
            deadline_unix_secs: item.deadline_unix_secs,
            stale: item.stale,
        }
    }

    /// True if it is expired at a Unix time.
    pub fn is_expired(&self, now_unix_secs: u64) -> bool {
        self.deadline_unix_secs.is_some_and(|deadline| deadline <= now_unix_secs)
    }
}

/// What the disk was found to have of a key: for a change that was refused with
/// [`Refusal::AskDisk`](super::Refusal::AskDisk).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The key's record.
    pub own: Option<Address>,
    /// Records of other keys that the catalog cannot tell from it.
    pub others: Vec<Address>,
}

/// What a look at one record shows.
enum Seen {
    Own(StoredItem),
    Other,
    /// The record was moved meanwhile.
    Moved,
}

/// Finds the item of a key, and which records are of other keys.
pub(super) fn find<F: File>(
    shared: &Shared<F>,
    filed: Filed,
    key: &[u8],
) -> Result<(Known, Option<StoredItem>), FindError> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    loop {
        before.clear();
        shared.catalog.candidates(filed, &mut before);
        if before.is_empty() {
            return Ok((Known::default(), None));
        }
        if let Some(found) = look_at_all(shared, &before, key)? {
            // A record that was moved while others were looked at may have been missed.
            after.clear();
            shared.catalog.candidates(filed, &mut after);
            if found.1.is_some() || before == after {
                return Ok(found);
            }
        }
        thread::yield_now();
    }
}

fn look_at_all<F: File>(
    shared: &Shared<F>,
    candidates: &[Location],
    key: &[u8],
) -> Result<Option<(Known, Option<StoredItem>)>, FindError> {
    let (mut known, mut item) = (Known::default(), None);
    for location in candidates {
        let Some(at) = shared.extents.address(*location) else { return Ok(None) };
        match look(shared, *location, at, key)? {
            Seen::Moved => return Ok(None),
            Seen::Other => known.others.push(at),
            Seen::Own(own) => {
                known.own = Some(at);
                item = Some(own);
            }
        }
    }
    Ok(Some((known, item)))
}

fn look<F: File>(
    shared: &Shared<F>,
    location: Location,
    at: Address,
    key: &[u8],
) -> Result<Seen, FindError> {
    let seen_of = |record: &Record<'_>| match record {
        Record::Item(item) if item.key == key => Seen::Own(StoredItem::of(item)),
        _ => Seen::Other,
    };
    if !shared.is_synced(at)
        && let Some(seen) = shared.head().pending(at, seen_of)
    {
        return Ok(seen);
    }
    shared.counts.reads.fetch_add(1, Relaxed);
    let extent = location.extent();
    // Most records are about as long as the others of their segment.
    let guess = shared.extents.mean_bytes(extent).saturating_sub(RECORD_HEADER_BYTES);
    let mut pages: Vec<Page> = Vec::new();
    let read = shared.log.fetch(extent, at, guess, &mut pages);
    if !shared.extents.holds(extent, at.number()) {
        return Ok(Seen::Moved);
    }
    match read {
        Ok(record) => Ok(seen_of(&record)),
        Err(ReadError::Disk(error)) => Err(error.into()),
        Err(ReadError::Damaged { at, damage }) => Err(FindError::Damaged { at, damage }),
    }
}
