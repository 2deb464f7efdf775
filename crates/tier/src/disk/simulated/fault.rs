//! Injected faults, and when they happen.

use std::io;

use rustix::io::Errno;

use crate::disk::Call;

/// The effect of an injected fault on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this error number. A failed write has written some of its pages. A
    /// failed sync has synced nothing, and the caller can repeat it.
    Errno(i32),
    /// The call blocks until the test releases it, then continues.
    Hang,
    /// The process is killed during the call. The call may or may not have taken effect.
    Kill,
    /// The power is lost during the call. The call may or may not have taken effect.
    PowerLoss,
    /// For [`Call::Write`]: the pages are written at this page instead, and the call succeeds.
    Misdirect(u64),
    /// For [`Call::Write`] and [`Call::Read`]: inverts this bit of the bytes, modulo their number.
    /// The call succeeds.
    FlipBit(u64),
    /// For [`Call::SyncData`]: the call fails with `EIO`, as on Linux after a failed writeback. The
    /// pages that it covered count as clean: reads return them until they are dropped from the
    /// cache, and later syncs succeed, but the platter lacks them. With `some`, some of them reach
    /// the platter, complete or torn.
    LosePages {
        /// True if some of the pages reach the platter.
        some: bool,
    },
}

impl Fault {
    /// True if calls of this kind support the fault.
    fn suits(self, call: Option<Call>) -> bool {
        match self {
            Self::Errno(_) | Self::Hang | Self::Kill | Self::PowerLoss => true,
            Self::Misdirect(_) => call == Some(Call::Write),
            Self::FlipBit(_) => matches!(call, Some(Call::Read | Call::Write)),
            Self::LosePages { .. } => call == Some(Call::SyncData),
        }
    }

    /// Returns the error of a call with this fault. Returns `None` if the call does not fail.
    pub(super) fn error(self) -> Option<io::Error> {
        match self {
            Self::Errno(errno) => Some(io::Error::from_raw_os_error(errno)),
            Self::Kill | Self::PowerLoss => Some(dead()),
            Self::LosePages { .. } => Some(Errno::IO.into()),
            Self::Hang | Self::Misdirect(_) | Self::FlipBit(_) => None,
        }
    }
}

/// Returns the error of calls from a process that was killed, or whose machine lost power.
pub(super) fn dead() -> io::Error {
    io::Error::other("the simulated process has ended")
}

/// Selects the calls with a fault, counted from the injection on.
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

    /// The selected call and all later ones.
    #[must_use]
    pub const fn onwards(self) -> Self {
        Self { goes_on: true, ..self }
    }
}

/// The injected faults.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<(When, Fault)>);

impl Faults {
    /// # Panics
    ///
    /// Panics if no call of this kind supports the fault, or `nth` is 0.
    pub(super) fn inject(&mut self, when: When, fault: Fault) {
        assert!(when.nth > 0, "calls are counted from 1");
        assert!(fault.suits(when.call), "{:?} cannot meet {fault:?}", when.call);
        self.0.push((when, fault));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts a call, and returns its fault. If several faults match, returns the first one
    /// injected.
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

/// The relative probabilities of what happens to an unsynced page at a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fates {
    /// The page has the bytes of a write.
    pub kept: u32,
    /// The page has its durable bytes.
    pub lost: u32,
    /// The page has sectors of both.
    pub torn: u32,
}

impl Fates {
    /// All cases are equally likely.
    pub const EVEN: Self = Self { kept: 1, lost: 1, torn: 1 };
    /// All pages have the bytes of a write.
    pub const ALL_KEPT: Self = Self { kept: 1, lost: 0, torn: 0 };
    /// All pages have their durable bytes.
    pub const ALL_LOST: Self = Self { kept: 0, lost: 1, torn: 0 };
    /// All pages are torn.
    pub const ALL_TORN: Self = Self { kept: 0, lost: 0, torn: 1 };
}

/// The number of calls of one kind, including failed ones, and the number of bytes requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of calls.
    pub calls: u64,
    /// The bytes of [`Call::Read`], [`Call::Write`] and [`Call::Allocate`].
    pub bytes: u64,
}
