//! The simulated directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::fault::Fault;
use super::file::SimulatedFile;
use super::machine::{Machine, State};
use crate::disk::{Call, Directory, DiskError, Space};

/// The directory of a [`SimulatedDisk`](super::SimulatedDisk), opened by one process.
#[derive(Debug)]
pub struct SimulatedDirectory {
    machine: Arc<Machine>,
    /// The number of processes that had ended when this process opened the directory. After the end
    /// of this process, its calls fail.
    life: u64,
    path: PathBuf,
}

/// The lock of a simulated directory. Dropping it frees it.
#[derive(Debug)]
pub struct SimulatedLock {
    machine: Arc<Machine>,
    life: u64,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.machine.state();
        // The lock was already freed when its process ended. The current process may hold it.
        if state.life == self.life {
            state.is_locked = false;
        }
    }
}

impl SimulatedDirectory {
    pub(super) fn new(machine: Arc<Machine>, life: u64, path: PathBuf) -> Self {
        Self { machine, life, path }
    }

    fn call<T>(
        &self,
        call: Call,
        name: &str,
        effect: impl FnOnce(&mut State, Option<Fault>) -> io::Result<T>,
    ) -> Result<T, DiskError> {
        let path = if name.is_empty() { self.path.clone() } else { self.path.join(name) };
        self.machine
            .call(self.life, call, 0, effect)
            .map_err(|error| DiskError::io(call, &path, error))
    }

    fn file(&self, name: &str, number: u64) -> SimulatedFile {
        SimulatedFile::new(Arc::clone(&self.machine), self.life, self.path.join(name), number)
    }
}

impl Directory for SimulatedDirectory {
    type File = SimulatedFile;
    type Lock = SimulatedLock;

    fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> Result<SimulatedLock, DiskError> {
        let is_free = self.call(Call::Lock, "lock", |state, _| {
            Ok(!std::mem::replace(&mut state.is_locked, true))
        })?;
        if is_free {
            Ok(SimulatedLock { machine: Arc::clone(&self.machine), life: self.life })
        } else {
            Err(DiskError::Locked { path: self.path.join("lock") })
        }
    }

    fn open(&self, name: &str) -> Result<Option<SimulatedFile>, DiskError> {
        let number = self.call(Call::Open, name, |state, _| Ok(state.names.get(name)))?;
        Ok(number.map(|number| self.file(name, number)))
    }

    fn create(&self, name: &str) -> Result<SimulatedFile, DiskError> {
        let number = self.call(Call::Create, name, |state, _| {
            if let Some(number) = state.names.get(name) {
                return Ok(number);
            }
            state.check_writable()?;
            Ok(state.create(name))
        })?;
        Ok(self.file(name, number))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.call(Call::Rename, to, |state, _| {
            state.check_writable()?;
            if state.names.rename(from, to) { Ok(()) } else { Err(Errno::NOENT.into()) }
        })
    }

    fn exchange(&self, one: &str, other: &str) -> Result<bool, DiskError> {
        self.call(Call::Rename, other, |state, _| {
            state.check_writable()?;
            Ok(state.names.exchange(one, other))
        })
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.call(Call::SyncDirectory, "", |state, _| {
            state.names.sync();
            Ok(())
        })
    }

    fn space(&self) -> Result<Space, DiskError> {
        self.call(Call::Space, "", |state, _| Ok(state.space()))
    }
}
