//! The input of a search: the programs of the clients, and a budget of events.

use super::client::Op;
use super::rules::Rule;

/// How often each event may happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Budget {
    pub(crate) evictions: u8,
    pub(crate) reclaims: u8,
    pub(crate) kills: u8,
    pub(crate) power_losses: u8,
    pub(crate) failed_syncs: u8,
    pub(crate) failed_writes: u8,
    pub(crate) summaries: u8,
    pub(crate) stops: u8,
    pub(crate) trainings: u8,
    pub(crate) strike: bool,
    /// True if the clock may be set back between two processes.
    pub(crate) set_back: bool,
}

impl Budget {
    pub(crate) const NONE: Self = Self {
        evictions: 0,
        reclaims: 0,
        kills: 0,
        power_losses: 0,
        failed_syncs: 0,
        failed_writes: 0,
        summaries: 0,
        stops: 0,
        trainings: 0,
        strike: false,
        set_back: false,
    };
}

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) programs: &'static [&'static [Op]],
    pub(crate) keys: u8,
    pub(crate) extents: u8,
    /// The number of units in a segment.
    pub(crate) units: u8,
    /// True if responses wait until they are durable: the level `sync`.
    pub(crate) waits: bool,
    pub(crate) budget: Budget,
    /// Rules without which a promise breaks in this scenario.
    pub(crate) breaks_without: &'static [Rule],
}

impl Scenario {
    /// One key, three segments of two units, the level `sync`, and no failures.
    pub(crate) const BASE: Self = Self {
        name: "",
        programs: &[],
        keys: 1,
        extents: 3,
        units: 2,
        waits: true,
        budget: Budget::NONE,
        breaks_without: &[],
    };
}
