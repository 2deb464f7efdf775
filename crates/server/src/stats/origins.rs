//! `stats origins`: the origins of a near cache, each with its share of the keys, its state and the
//! counters of its thread.

use larder_protocol::{Frame, render};
use larder_stats::{Counter, Counters};

use crate::near::Origin;
use crate::server::Server;
use crate::server::statistics::threads::Thread;

/// The figures of an origin.
pub(crate) struct OriginRow {
    /// The address, as in `--origin`.
    pub(crate) address: String,
    pub(crate) weight: u32,
    /// The part of the keys that the origin owns.
    pub(crate) share: f64,
    pub(crate) state: &'static str,
    /// True if its copies may be used now.
    pub(crate) is_fresh: bool,
    /// The values of [`COUNTERS`], since the start.
    pub(crate) counts: Vec<(&'static str, u64)>,
}

/// What the thread of each origin counts, by the names in `stats origins`.
pub(crate) const COUNTERS: [(&str, Counter, &str); 8] = [
    ("fetches", Counter::NearFetches, "Items that were fetched from the origin."),
    ("kept", Counter::NearKept, "Fetched items and absences that were kept as copies."),
    ("changes", Counter::NearChanges, "Changes that the origin reported."),
    ("dropped", Counter::NearDropped, "Copies that were dropped because of such a report."),
    ("flushes", Counter::NearFlushes, "Reports that every item may have changed."),
    ("streams_lost", Counter::NearStreamsLost, "Change streams that ended."),
    ("unreachable", Counter::NearUnreachable, "Requests that could not be sent to the origin."),
    ("unanswered", Counter::NearUnanswered, "Requests that the origin did not answer in time."),
];

/// Returns the figures of all origins; none for a server that owns its items.
pub(crate) fn rows(server: &Server) -> Vec<OriginRow> {
    let Some(near) = &server.near else { return Vec::new() };
    let ring = near.ring();
    let shares = ring.shares();
    let row = |(number, share): (usize, f64)| {
        let origin: &Origin = &near.origins()[number];
        let counters: &Counters = server.counters(Thread::Near(number));
        let count =
            |(name, counter, _): (&'static str, Counter, &str)| (name, counters.read(counter));
        OriginRow {
            address: origin.address.to_string(),
            weight: ring.weights().of(number),
            share,
            state: origin.state_name(),
            is_fresh: origin.is_fresh(),
            counts: COUNTERS.map(count).into(),
        }
    };
    shares.into_iter().enumerate().map(row).collect()
}

/// Appends the figures of all origins.
pub(super) fn show(server: &Server, frame: &Frame<'_>, out: &mut Vec<u8>) {
    for (number, row) in rows(server).into_iter().enumerate() {
        let OriginRow { address, weight, share, state, is_fresh, counts } = row;
        let mut stat = |name: &str, value: &dyn std::fmt::Display| {
            render::stat(out, format_args!("{number}:{name}"), value, frame);
        };
        stat("address", &address);
        stat("weight", &weight);
        stat("share", &format_args!("{share:.4}"));
        stat("state", &state);
        stat("fresh", &u8::from(is_fresh));
        for (name, count) in &counts {
            stat(name, count);
        }
    }
}
