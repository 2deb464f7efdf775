//! What a search explores: the programs of the clients, and how much may happen to them.

use super::client::Op;
use super::rules::Rule;

/// What becomes of the region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// The process's own: a kill takes it.
    Private,
    /// Shared memory: it outlives a kill, not a reboot.
    Shared,
    /// A file on a real disk: after a power loss it is there as of the last clean stop.
    File,
}

/// How often each thing may happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Budget {
    pub(crate) evictions: u8,
    pub(crate) reclaims: u8,
    pub(crate) kills: u8,
    pub(crate) power_losses: u8,
    pub(crate) failed_syncs: u8,
    pub(crate) failed_writes: u8,
    pub(crate) stops: u8,
    /// A new process takes the region over from one that lives.
    pub(crate) handovers: u8,
    /// A region may be put aside and offered again.
    pub(crate) aside: bool,
    pub(crate) strike: bool,
    /// The clock may be set back while the process is down.
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
        stops: 0,
        handovers: 0,
        aside: false,
        strike: false,
        set_back: false,
    };
}

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) programs: &'static [&'static [Op]],
    pub(crate) keys: u8,
    pub(crate) extents: u8,
    /// Units a segment has.
    pub(crate) units: u8,
    pub(crate) memory: Memory,
    /// Whether answers wait until they are durable: the level `sync`.
    pub(crate) waits: bool,
    pub(crate) budget: Budget,
    /// Rules without which a promise breaks here.
    pub(crate) breaks_without: &'static [Rule],
}

impl Scenario {
    /// One key, three segments of two units, private memory, the level `sync`, and no accidents.
    pub(crate) const BASE: Self = Self {
        name: "",
        programs: &[],
        keys: 1,
        extents: 3,
        units: 2,
        memory: Memory::Private,
        waits: true,
        budget: Budget::NONE,
        breaks_without: &[],
    };
}
