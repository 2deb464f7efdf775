//! The test's side of a simulated disk.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::directory::SimulatedDirectory;
use super::fault::{Counts, Fates, Fault, When};
use super::machine::{Death, Machine};
use crate::disk::{Call, PAGE_BYTES};

/// A machine with one directory on one disk. Clones are handles of the same machine.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    machine: Arc<Machine>,
}

impl SimulatedDisk {
    /// Returns an empty disk whose random choices follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { machine: Arc::new(Machine::new(seed)) }
    }

    /// Opens the directory as the process that runs now. Reaches no call that could fail.
    #[must_use]
    pub fn open(&self) -> SimulatedDirectory {
        let life = self.machine.state().life;
        SimulatedDirectory::new(Arc::clone(&self.machine), life, PathBuf::from("/simulated"))
    }

    /// Ends the process: its handles fail, its lock is free, its hanging calls return with an
    /// error. What it wrote stays in the cache.
    pub fn kill(&self) {
        self.machine.end_process(&mut self.machine.state(), Death::Kill);
    }

    /// Ends the process and takes the power away. What was not synced is kept, lost or torn.
    pub fn lose_power(&self) {
        self.machine.end_process(&mut self.machine.state(), Death::PowerLoss);
    }

    /// Returns how often the process has ended, by a call of the test or by a fault.
    #[must_use]
    pub fn deaths(&self) -> u64 {
        self.machine.state().life
    }

    /// Weighs what a power loss does to unsynced pages. The default is [`Fates::EVEN`].
    ///
    /// # Panics
    ///
    /// Panics if all weights are 0.
    pub fn set_fates(&self, fates: Fates) {
        assert!(fates.kept + fates.lost + fates.torn > 0, "{fates:?} leaves a page no fate");
        self.machine.state().fates = fates;
    }

    /// Lets a coming call meet a fault. Faults outlive the process.
    ///
    /// # Panics
    ///
    /// Panics if calls of this kind cannot meet the fault, or are counted from 0.
    pub fn inject(&self, when: When, fault: Fault) {
        self.machine.state().faults.inject(when, fault);
    }

    /// Takes back all injected faults. Calls that hang go on hanging.
    pub fn clear_faults(&self) {
        self.machine.state().faults.clear();
    }

    /// Lets all calls go on that hang now.
    pub fn release(&self) {
        self.machine.release();
    }

    /// Blocks until this many calls hang.
    pub fn wait_for_hanging(&self, calls: u64) {
        self.machine.wait_for_hanging(calls);
    }

    /// Lets reads fail with `EIO` that touch one of these pages of a file, until it is written.
    ///
    /// # Panics
    ///
    /// Panics if the file does not exist.
    pub fn set_bad_pages(&self, name: &str, pages: Range<u64>) {
        let mut state = self.machine.state();
        let number = state.names.get(name).unwrap_or_else(|| panic!("{name} does not exist"));
        state.bad_pages = pages.map(|page| (number, page)).collect();
    }

    /// Makes the file system read-only, or writable again.
    pub fn set_read_only(&self, is_read_only: bool) {
        self.machine.state().is_read_only = is_read_only;
    }

    /// Limits the pages of all files. Writes into allocated pages succeed on a full disk. The
    /// default has no limit that a test reaches.
    pub fn set_capacity(&self, bytes: u64) {
        self.machine.state().capacity_pages = bytes / PAGE_BYTES as u64;
    }

    /// Inverts a bit of a file, in the cache, on the platter and in unsynced writes. Returns false
    /// if no page with this bit is allocated.
    #[must_use]
    pub fn flip_bit(&self, name: &str, bit: u64) -> bool {
        let mut state = self.machine.state();
        let Some(number) = state.names.get(name) else { return false };
        state.inode(number).is_ok_and(|inode| inode.flip_bit(bit))
    }

    /// Returns the bytes of a file that are durable now, cut or filled with zeros to its length in
    /// the cache. Returns `None` if the file does not exist.
    #[must_use]
    pub fn platter(&self, name: &str) -> Option<Vec<u8>> {
        let mut state = self.machine.state();
        let number = state.names.get(name)?;
        state.inode(number).ok().map(|inode| inode.platter())
    }

    /// Returns how many calls of this kind the disk has answered or lets hang.
    #[must_use]
    pub fn counts(&self, call: Call) -> Counts {
        self.machine.state().counts(call)
    }
}
