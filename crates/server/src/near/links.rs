//! The links to the origin: how many there are, and which jobs each accepts.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Range;

use super::dial::Role;
use super::job::Job;

/// The roles of the links, by their number.
pub(super) const LINKS: [Role; 12] = [
    Role::Stream,
    Role::Fetch,
    Role::Fetch,
    Role::Text,
    Role::Text,
    Role::Text,
    Role::Text,
    Role::Text,
    Role::Text,
    Role::Binary,
    Role::Binary,
    Role::Report,
];

pub(super) const STREAM: usize = 0;
pub(super) const REPORT: usize = 11;
pub(super) const FETCH_LINKS: Range<usize> = 1..3;

/// The links of each class of jobs.
pub(super) const LINKS_OF: [Range<usize>; CLASSES] = [1..2, 2..3, 3..5, 5..9, 9..11];
pub(super) const CLASSES: usize = 5;
/// The first class of fetches. All fetches of a key are of one class, which has one link.
const FETCH: usize = 0;
const TEXT: usize = 2;
/// Commands of the text protocol with large values, one at a time on each link, so that they hold
/// up no other command.
pub(super) const LARGE: usize = 3;
const BINARY: usize = 4;

/// Returns the class of a job.
pub(super) fn class_of(job: &Job) -> usize {
    match job {
        Job::Fetch(flight) => {
            // Rule: FetchesInOrder
            // By the key alone: in another subscription it has another bucket.
            let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(flight.key());
            FETCH + hash as usize % FETCH_LINKS.len()
        }
        Job::Pass(pass) if pass.request.is_binary() => BINARY,
        Job::Pass(pass) if pass.request.is_large() => LARGE,
        Job::Pass(_) => TEXT,
    }
}

/// The links that connect only when they are needed.
pub(super) const LAZY_LINKS: Range<usize> = 5..12;
