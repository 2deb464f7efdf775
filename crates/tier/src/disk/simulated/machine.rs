//! The state of a simulated disk, and the function through which all calls reach it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::fault::{Counts, Fates, Fault, Faults, dead};
use super::inode::{Image, Inode};
use super::names::{InodeNumber, Names};
use crate::disk::{Call, PAGE_BYTES, Space};

/// How a process ends unexpectedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    /// The cache survives.
    Kill,
    /// The cache is lost.
    PowerLoss,
}

/// The files of a disk, and the injected faults.
#[derive(Debug)]
pub(super) struct State {
    pub(super) rng: fastrand::Rng,
    pub(super) names: Names,
    pub(super) inodes: BTreeMap<InodeNumber, Inode>,
    pub(super) faults: Faults,
    pub(super) fates: Fates,
    pub(super) is_read_only: bool,
    /// Pages whose reads fail until they are written.
    pub(super) bad_pages: BTreeSet<(u64, u64)>,
    pub(super) capacity_pages: u64,
    pub(super) is_locked: bool,
    /// The number of processes that have ended. Handles of earlier ones fail.
    pub(super) life: u64,
    /// How many calls hang.
    pub(super) hanging: u64,
    /// How often the test has released hanging calls.
    releases: u64,
    counts: BTreeMap<Call, Counts>,
    zero: Image,
    created: InodeNumber,
}

/// A disk, shared by its handles.
#[derive(Debug)]
pub(super) struct Machine {
    state: Mutex<State>,
    /// Notified when a call begins to hang, and when hanging calls are released.
    changed: Condvar,
}

impl Machine {
    pub(super) fn new(seed: u64) -> Self {
        let state = State {
            rng: fastrand::Rng::with_seed(seed),
            names: Names::default(),
            inodes: BTreeMap::new(),
            faults: Faults::default(),
            fates: Fates::EVEN,
            is_read_only: false,
            bad_pages: BTreeSet::new(),
            capacity_pages: u64::MAX / PAGE_BYTES as u64,
            is_locked: false,
            life: 0,
            hanging: 0,
            releases: 0,
            counts: BTreeMap::new(),
            zero: Arc::new([0; PAGE_BYTES]),
            created: 0,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs a call of the process `life`. Passes the injected fault to `effect` if it changes
    /// the effect. A failing write also receives its fault, because it writes some of its pages.
    pub(super) fn call<T>(
        &self,
        life: u64,
        call: Call,
        bytes: u64,
        effect: impl FnOnce(&mut State, Option<Fault>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state();
        state.check_alive(life)?;
        state.count(call, bytes);
        let mut fault = state.faults.meet(call);
        if fault == Some(Fault::Hang) {
            fault = None;
            state = self.hang(state, life);
            state.check_alive(life)?;
        }
        let death = match fault {
            Some(Fault::Kill) => Some(Death::Kill),
            Some(Fault::PowerLoss) => Some(Death::PowerLoss),
            _ => None,
        };
        let has_effect = match fault {
            Some(Fault::Errno(_) | Fault::Kill | Fault::PowerLoss) if call == Call::Write => true,
            Some(Fault::Errno(_)) => false,
            Some(Fault::Kill | Fault::PowerLoss) => state.rng.bool(),
            _ => true,
        };
        let result = if has_effect { Some(effect(&mut state, fault)) } else { None };
        if let Some(death) = death {
            self.end_process(&mut state, death);
        }
        match (fault.and_then(Fault::error), result) {
            (Some(error), _) => Err(error),
            (None, Some(result)) => result,
            (None, None) => Err(dead()),
        }
    }

    fn hang<'state>(
        &'state self,
        mut state: MutexGuard<'state, State>,
        life: u64,
    ) -> MutexGuard<'state, State> {
        let releases = state.releases;
        state.hanging += 1;
        self.changed.notify_all();
        let hangs = |state: &mut State| state.releases == releases && state.life == life;
        state = self.changed.wait_while(state, hangs).unwrap_or_else(PoisonError::into_inner);
        state.hanging -= 1;
        state
    }

    pub(super) fn release(&self) {
        self.state().releases += 1;
        self.changed.notify_all();
    }

    pub(super) fn wait_for_hanging(&self, calls: u64) {
        let hang = |state: &mut State| state.hanging < calls;
        drop(self.changed.wait_while(self.state(), hang).unwrap_or_else(PoisonError::into_inner));
    }

    /// Ends the process. Its handles fail from then on.
    pub(super) fn end_process(&self, state: &mut State, death: Death) {
        state.life += 1;
        state.is_locked = false;
        if death == Death::PowerLoss {
            state.lose_power();
        }
        let State { inodes, names, .. } = state;
        inodes.retain(|number, _| names.leads_to(*number));
        self.changed.notify_all();
    }
}

impl State {
    pub(super) fn check_alive(&self, life: u64) -> io::Result<()> {
        if self.life == life { Ok(()) } else { Err(dead()) }
    }

    /// Fails if the file system is read-only.
    pub(super) fn check_writable(&self) -> io::Result<()> {
        if self.is_read_only { Err(Errno::ROFS.into()) } else { Ok(()) }
    }

    fn count(&mut self, call: Call, bytes: u64) {
        let counts = self.counts.entry(call).or_default();
        counts.calls += 1;
        counts.bytes += bytes;
    }

    pub(super) fn counts(&self, call: Call) -> Counts {
        self.counts.get(&call).copied().unwrap_or_default()
    }

    pub(super) fn create(&mut self, name: &str) -> InodeNumber {
        self.created += 1;
        let number = self.created;
        self.inodes.insert(number, Inode::new(Arc::clone(&self.zero)));
        self.names.create(name, number);
        number
    }

    /// Returns the file. A file without a name exists until the process ends.
    pub(super) fn inode(&mut self, number: InodeNumber) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&number).ok_or_else(|| Errno::STALE.into())
    }

    /// Returns the free and the total space. Files without a name use no space.
    pub(super) fn space(&self) -> Space {
        Space {
            free_bytes: self.free_pages() * PAGE_BYTES as u64,
            total_bytes: self.capacity_pages * PAGE_BYTES as u64,
        }
    }

    pub(super) fn free_pages(&self) -> u64 {
        let named = self.inodes.iter().filter(|(number, _)| self.names.leads_to(**number));
        let allocated: u64 = named.map(|(_, inode)| inode.allocated()).sum();
        self.capacity_pages.saturating_sub(allocated)
    }

    fn lose_power(&mut self) {
        for inode in self.inodes.values_mut() {
            inode.lose_power(self.fates, &mut self.rng);
        }
        self.names.lose_power(&mut self.rng);
    }
}
