//! What goes wrong on a simulated disk, and when.

use std::io;

use rustix::io::Errno;

use crate::disk::Call;

/// What an injected fault does to the call that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this error number. A failed write has written some of its pages. A
    /// failed sync has synced nothing, and a later one can repeat it.
    Errno(i32),
    /// The call blocks until the test releases it, then goes on.
    Hang,
    /// The process is killed in the call, which may have had its effect.
    Kill,
    /// The power is lost in the call, which may have had its effect.
    PowerLoss,
    /// For [`Call::Write`]: the pages land at this page instead, and the call succeeds.
    Misdirect(u64),
    /// For [`Call::Write`] and [`Call::Read`]: this bit of the bytes, modulo their number, is
    /// inverted, and the call succeeds.
    FlipBit(u64),
    /// For [`Call::SyncData`]: the call fails with `EIO`, as Linux does after a failed writeback.
    /// The pages that it covered count as clean: reads show them until they are dropped from the
    /// cache, later syncs succeed, and the platter lacks them. With `some`, the platter has some
    /// of them whole or torn.
    LosePages {
        /// True if some of the pages reach the platter.
        some: bool,
    },
}

impl Fault {
    /// True if a call of this kind can meet the fault.
    fn suits(self, call: Option<Call>) -> bool {
        match self {
            Self::Errno(_) | Self::Hang | Self::Kill | Self::PowerLoss => true,
            Self::Misdirect(_) => call == Some(Call::Write),
            Self::FlipBit(_) => matches!(call, Some(Call::Read | Call::Write)),
            Self::LosePages { .. } => call == Some(Call::SyncData),
        }
    }

    /// Returns the error of a call that meets this fault, if it fails.
    pub(super) fn error(self) -> Option<io::Error> {
        match self {
            Self::Errno(errno) => Some(io::Error::from_raw_os_error(errno)),
            Self::Kill | Self::PowerLoss => Some(dead()),
            Self::LosePages { .. } => Some(Errno::IO.into()),
            Self::Hang | Self::Misdirect(_) | Self::FlipBit(_) => None,
        }
    }
}

/// Returns the error of calls of a process that was killed, or whose machine lost power.
pub(super) fn dead() -> io::Error {
    io::Error::other("the simulated process has ended")
}

/// The call that meets a fault, counted from the injection on.
#[derive(Clone, Copy, Debug)]
pub struct When {
    call: Option<Call>,
    nth: u64,
    goes_on: bool,
}

impl When {
    /// The `nth` call of this kind; 1 is the next.
    #[must_use]
    pub const fn nth(call: Call, nth: u64) -> Self {
        Self { call: Some(call), nth, goes_on: false }
    }

    /// The `nth` call of any kind; 1 is the next.
    #[must_use]
    pub const fn nth_of_any(nth: u64) -> Self {
        Self { call: None, nth, goes_on: false }
    }

    /// That call, and all later ones.
    #[must_use]
    pub const fn onwards(self) -> Self {
        Self { goes_on: true, ..self }
    }
}

/// The faults that wait for their calls.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<(When, Fault)>);

impl Faults {
    /// # Panics
    ///
    /// Panics if no call of this kind can meet the fault, or `nth` is 0.
    pub(super) fn inject(&mut self, when: When, fault: Fault) {
        assert!(when.nth > 0, "calls are counted from 1");
        assert!(fault.suits(when.call), "{:?} cannot meet {fault:?}", when.call);
        self.0.push((when, fault));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts a call, and returns the fault that it meets: the first injected, if several.
    pub(super) fn meet(&mut self, call: Call) -> Option<Fault> {
        let mut met = None;
        self.0.retain_mut(|(when, fault)| {
            if when.call.is_some_and(|of| of != call) {
                return true;
            }
            when.nth = when.nth.saturating_sub(1);
            if when.nth > 0 {
                return true;
            }
            met = met.or(Some(*fault));
            when.goes_on
        });
        met
    }
}

/// The weights of what a power loss does to an unsynced page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fates {
    /// The weight of a page that holds the bytes of a write.
    pub kept: u32,
    /// The weight of a page that holds its durable bytes.
    pub lost: u32,
    /// The weight of a page that holds sectors of both.
    pub torn: u32,
}

impl Fates {
    /// All cases are equally likely.
    pub const EVEN: Self = Self { kept: 1, lost: 1, torn: 1 };
    /// All pages hold the bytes of a write.
    pub const ALL_KEPT: Self = Self { kept: 1, lost: 0, torn: 0 };
    /// All pages hold their durable bytes.
    pub const ALL_LOST: Self = Self { kept: 0, lost: 1, torn: 0 };
    /// All pages are torn.
    pub const ALL_TORN: Self = Self { kept: 0, lost: 0, torn: 1 };
}

/// How many calls of a kind a disk has answered, failed ones included, and the bytes that they were
/// to transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of calls.
    pub calls: u64,
    /// The bytes of [`Call::Read`], [`Call::Write`] and [`Call::Allocate`].
    pub bytes: u64,
}
