//! The test's side of a simulated disk.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::directory::SimulatedDirectory;
use super::fault::{Counts, Fates, Fault, When};
use super::machine::{Death, Machine};
use crate::disk::{Call, PAGE_BYTES};

/// A machine with one directory on one disk. Clones refer to the same machine.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    machine: Arc<Machine>,
}

impl SimulatedDisk {
    /// Returns an empty disk. `seed` determines all its random choices.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { machine: Arc::new(Machine::new(seed)) }
    }

    /// Opens the directory as the current process. This cannot fail.
    #[must_use]
    pub fn open(&self) -> SimulatedDirectory {
        let life = self.machine.state().life;
        SimulatedDirectory::new(Arc::clone(&self.machine), life, PathBuf::from("/simulated"))
    }

    /// Kills the process. Its handles fail, its lock is freed, and its hanging calls return an
    /// error. Its writes stay in the cache.
    pub fn kill(&self) {
        self.machine.end_process(&mut self.machine.state(), Death::Kill);
    }

    /// Ends the process and cuts the power. Each unsynced write is kept, lost or torn.
    pub fn lose_power(&self) {
        self.machine.end_process(&mut self.machine.state(), Death::PowerLoss);
    }

    /// Returns how many processes have ended, by a call of the test or by a fault.
    #[must_use]
    pub fn deaths(&self) -> u64 {
        self.machine.state().life
    }

    /// Sets the probabilities of what happens to unsynced pages at a power loss. The default is
    /// [`Fates::EVEN`].
    ///
    /// # Panics
    ///
    /// Panics if all weights are 0.
    pub fn set_fates(&self, fates: Fates) {
        assert!(fates.kept + fates.lost + fates.torn > 0, "all weights of {fates:?} are 0");
        self.machine.state().fates = fates;
    }

    /// Injects a fault into a later call. Faults persist when the process ends.
    ///
    /// # Panics
    ///
    /// Panics if calls of this kind do not support the fault, or the count is 0.
    pub fn inject(&self, when: When, fault: Fault) {
        self.machine.state().faults.inject(when, fault);
    }

    /// Removes all injected faults. Hanging calls continue to hang.
    pub fn clear_faults(&self) {
        self.machine.state().faults.clear();
    }

    /// Releases all calls that currently hang.
    pub fn release(&self) {
        self.machine.release();
    }

    /// Blocks until this many calls hang.
    pub fn wait_for_hanging(&self, calls: u64) {
        self.machine.wait_for_hanging(calls);
    }

    /// Makes reads of these pages of a file fail with `EIO`, until the pages are written.
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

    /// Limits the total number of pages of all files. Writes into allocated pages succeed on a full
    /// disk. The default limit is too high to be reached.
    pub fn set_capacity(&self, bytes: u64) {
        self.machine.state().capacity_pages = bytes / PAGE_BYTES as u64;
    }

    /// Inverts a bit of a file, in the cache, on the platter and in unsynced writes. Returns false
    /// if the page of this bit is not allocated.
    #[must_use]
    pub fn flip_bit(&self, name: &str, bit: u64) -> bool {
        let mut state = self.machine.state();
        let Some(number) = state.names.get(name) else { return false };
        state.inode(number).is_ok_and(|inode| inode.flip_bit(bit))
    }

    /// Returns the durable bytes of a file, truncated or extended with zeros to its length in the
    /// cache. Returns `None` if the file does not exist.
    #[must_use]
    pub fn platter(&self, name: &str) -> Option<Vec<u8>> {
        let mut state = self.machine.state();
        let number = state.names.get(name)?;
        state.inode(number).ok().map(|inode| inode.platter())
    }

    /// Returns how many calls of this kind the disk has received, including hanging calls.
    #[must_use]
    pub fn counts(&self, call: Call) -> Counts {
        self.machine.state().counts(call)
    }
}
