//! The links to the origin: how many there are, and which jobs each accepts.

pub(in crate::near) mod dial;
mod fetched;
pub(in crate::near) mod link;
mod outgoing;
pub(in crate::near) mod reply;

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Range;

use self::dial::Role;
use super::job::Job;

/// The number of links.
pub(in crate::near) const LINKS: usize = REPORT + 1;

pub(in crate::near) const STREAM: usize = 0;
pub(in crate::near) const FETCH_LINKS: Range<usize> = 1..3;
const TEXT_LINKS: Range<usize> = 3..5;
const LARGE_LINKS: Range<usize> = 5..21;
const BINARY_LINKS: Range<usize> = 21..23;
const LARGE_BINARY_LINKS: Range<usize> = 23..31;
pub(in crate::near) const REPORT: usize = 31;

/// Returns the role of a link.
pub(in crate::near) fn role_of(link: usize) -> Role {
    match link {
        STREAM => Role::Stream,
        REPORT => Role::Report,
        _ if FETCH_LINKS.contains(&link) => Role::Fetch,
        _ if BINARY_LINKS.contains(&link) || LARGE_BINARY_LINKS.contains(&link) => Role::Binary,
        _ => Role::Text,
    }
}

/// The links of each class of jobs.
pub(in crate::near) const LINKS_OF: [Range<usize>; CLASSES] =
    [1..2, 2..3, TEXT_LINKS, LARGE_LINKS, BINARY_LINKS, LARGE_BINARY_LINKS];
pub(in crate::near) const CLASSES: usize = 6;

/// Returns the class of the jobs that a link accepts; `None` if it accepts none.
pub(in crate::near) fn class_of_link(link: usize) -> Option<usize> {
    LINKS_OF.iter().position(|links| links.contains(&link))
}
/// The first class of fetches. All fetches of a key are of one class, which has one link.
const FETCH: usize = 0;
const TEXT: usize = 2;
const LARGE: usize = 3;
const BINARY: usize = 4;
const LARGE_BINARY: usize = 5;

/// Returns the maximum number of requests in flight on a link of this class. Commands with large
/// values have a link for themselves, so that they hold up no other command.
pub(in crate::near) fn pending_max(class: usize) -> usize {
    if matches!(class, LARGE | LARGE_BINARY) { 1 } else { PENDING_MAX }
}

/// Returns the class of a job.
pub(in crate::near) fn class_of(job: &Job) -> usize {
    match job {
        Job::Fetch(flight) => {
            // Rule: FetchesInOrder
            // By the key alone: in another subscription it has another bucket.
            let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(flight.key());
            FETCH + hash as usize % FETCH_LINKS.len()
        }
        Job::Pass(_, request) => match (request.is_binary(), request.is_large()) {
            (false, false) => TEXT,
            (false, true) => LARGE,
            (true, false) => BINARY,
            (true, true) => LARGE_BINARY,
        },
    }
}

/// True if a link connects only when it is needed.
pub(in crate::near) fn is_lazy(link: usize) -> bool {
    link >= LARGE_LINKS.start
}

/// The requests in flight on a link that many share.
const PENDING_MAX: usize = 256;
