//! A judge of histories: whether near caches kept their promises, according to recorded commands of
//! clients.
//!
//! Clients of several *places* (near caches, and the origin itself) read and change a few keys at
//! the same time, and record when they sent each command and when its answer was complete. The
//! origin is assumed to be a linearizable register for each key. The judge checks
//! (docs/decisions/0043-the-near-cache-is-modelled-first.md):
//!
//! 1. *At rest a copy is current*: a near cache answers the item of the origin.
//! 2. *Reads never go back*: a read at a place returns nothing older than what the place answered
//!    before the read began.
//! 3. *Staleness is bounded*: a read that begins later than the staleness bound of its place after
//!    a change was acknowledged, at any place, returns that change or a later one. The bound of the
//!    origin is 0, so promises 2 and 3 also check that it is a register.
//!
//! It also reports a version that no client wrote, and a write that was executed twice.
//!
//! # How it orders versions
//!
//! Each write stores a unique value, a *version*. A version was stored between the beginning of its
//! write and the earliest answer that showed it: the answer to the write, or to a read. The judge
//! reports only contradictions that hold for every order within these intervals. A version is older
//! than another one if one of these is certain:
//!
//! - Its interval ends before the interval of the other begins.
//! - Both are counts of one counter, and it is the lower count.
//! - It has the lower cas token, and nothing can have removed the item between them. The origin
//!   gives an item that replaces another a higher token. After a removal tokens may be lower.
//!
//! A miss is an absence since some removal. Every removal counts that may have been executed before
//! the miss was answered, and that is not certainly older than what the place has answered before.
//! So a miss is judged, and a read after a miss is judged by the earliest of these removals.
//!
//! # What it does not judge
//!
//! - Orders of concurrent writes with a possible removal between them. Therefore some keys of a
//!   history should never be removed.
//! - A write without an answer counts from the first answer that shows it. A removal without an
//!   answer is possible until its [`Event::answered`], which the recorder sets to the latest moment
//!   at which the network of the test can deliver it.
//! - The answers of conditional commands (`add`, `cas`) beyond the version that they store.
//! - Expiry and eviction: items must not expire, and memory must suffice.
//! - Client flags, times to live, and the text of an appended value except its last part.

mod explain;
mod judge;
mod record;
#[cfg(test)]
mod tests;
mod versions;

pub use explain::{Promise, Violation};
pub use record::{Did, Event, History, Place, Resting, Shown, Version};
