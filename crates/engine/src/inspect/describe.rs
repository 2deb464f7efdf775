//! What is in a region, segment by segment and peer by peer, for people.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::Second;

use crate::inspect::validate::{Broken, Reached};
use crate::segment::header::{State, begun};
use crate::segment::stream::Pool;
use crate::{Engine, ThreadSlot};

/// A segment at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its number.
    pub number: u32,
    /// What it is used for: `free`, `reserved`, `active`, `sealed`, `emptying`, `index`, `overflow`, `ghost`.
    pub state: &'static str,
    /// Is it just somebody's alone?
    pub is_taken: bool,
    /// Does it hold items of the small pool, through which new ones pass? Else those of the main pool.
    pub is_small: bool,
    /// Which TTL class its items are of.
    pub ttl_class: u32,
    /// The second in which it was begun; none where it holds no items.
    pub begun: Option<Second>,
    /// Bytes of records in it, dead ones included.
    pub filled_bytes: usize,
    /// Items that can be reached.
    pub items: u64,
    /// Bytes of records that can be reached.
    pub live_bytes: usize,
    /// Do the last two say too much, perhaps, until they are counted again?
    pub is_suspect: bool,
}

/// A process that is, or was, attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerReport {
    /// Its row in the table of peers.
    pub row: u32,
    /// Its process id, as it said.
    pub process_id: u64,
    /// How many segments it keeps from other use.
    pub pinned_segments: u64,
    /// The byte of the region's file that it has locked while it lives.
    pub lock_byte: u64,
}

impl Engine {
    /// All segments that have ever been used.
    pub fn segment_reports(&self) -> impl Iterator<Item = SegmentReport> {
        self.segments().take(self.used_segments() as usize).map(|segment| {
            let state = self.state(segment);
            let holds_items = matches!(state, State::Active | State::Sealed | State::Emptying);
            let stream = self.stream(segment);
            let account = self.account(segment);
            let of_items = |number: usize| if holds_items { number } else { 0 };
            SegmentReport {
                number: segment,
                state: state.name(),
                is_taken: self.segment_owner(segment) != 0,
                is_small: holds_items && stream.pool == Pool::Small,
                ttl_class: stream.ttl_class,
                begun: holds_items.then(|| begun(self.sequence(segment).load(Relaxed))),
                filled_bytes: of_items(self.filled(segment)),
                items: if holds_items { account.items } else { 0 },
                live_bytes: of_items(account.bytes),
                is_suspect: self.is_suspect(segment),
            }
        })
    }

    /// Checks a region that others use: group by group, each under its lock, what its slots name. [`Engine::validate`]
    /// checks more, but only where nothing is under way. Gives the number of items seen.
    ///
    /// # Errors
    /// The first invariant found broken, in words; also that a process has been stopped which holds a group.
    pub fn validate_in_use(&self, thread: &ThreadSlot) -> Result<u64, Broken> {
        let mut items = 0;
        let mut group = 0;
        while group < self.groups() {
            let locked =
                self.lock_group(thread, group).map_err(|stuck| Broken::new(stuck.to_string()))?;
            let mut reached = Reached::default();
            self.validate_items(group, locked.control().level(), &mut reached)?;
            items += reached.items();
            group += 1;
        }
        Ok(items)
    }
}
