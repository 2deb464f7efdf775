//! A simulated file, opened by one process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::fault::Fault;
use super::inode::{Image, Inode};
use super::machine::{Machine, State};
use super::names::InodeNumber;
use crate::disk::traits::byte_range;
use crate::disk::{Call, DiskError, File, PAGE_BYTES, Page, Space};

/// A file of a [`SimulatedDisk`](super::SimulatedDisk).
#[derive(Debug)]
pub struct SimulatedFile {
    machine: Arc<Machine>,
    /// The process that opened the file, as in [`SimulatedDirectory`](super::SimulatedDirectory).
    life: u64,
    path: PathBuf,
    number: InodeNumber,
}

impl SimulatedFile {
    pub(super) fn new(machine: Arc<Machine>, life: u64, path: PathBuf, number: u64) -> Self {
        Self { machine, life, path, number }
    }

    fn call<T>(
        &self,
        call: Call,
        bytes: u64,
        effect: impl FnOnce(&mut State, Option<Fault>) -> io::Result<T>,
    ) -> Result<T, DiskError> {
        self.machine
            .call(self.life, call, bytes, effect)
            .map_err(|error| DiskError::io(call, &self.path, error))
    }

    /// Writes pages. A fault or a full disk may stop it after some of them.
    fn write(
        &self,
        state: &mut State,
        fault: Option<Fault>,
        first: u64,
        pages: &[Page],
    ) -> io::Result<()> {
        state.check_writable()?;
        let mut images: Vec<Image> = pages.iter().map(|page| Arc::new(*page.bytes())).collect();
        let mut target = first;
        match fault {
            Some(Fault::Misdirect(to)) => target = to,
            Some(Fault::FlipBit(bit)) if !images.is_empty() => {
                let bit = bit % (pages.len() * PAGE_BYTES * 8) as u64;
                let byte = (bit / 8) as usize;
                let image = Arc::make_mut(&mut images[byte / PAGE_BYTES]);
                image[byte % PAGE_BYTES] ^= 1 << (bit % 8);
            }
            Some(Fault::Errno(_) | Fault::Kill | Fault::PowerLoss) => {
                images.truncate(state.rng.usize(..=pages.len()));
            }
            _ => {}
        }
        let mut free = state.free_pages();
        let inode = state.inode(self.number)?;
        for (page, image) in (target..).zip(images) {
            if !inode.is_allocated(page) {
                free = free.checked_sub(1).ok_or_else(full)?;
            }
            inode.write(page, image);
        }
        Ok(())
    }
}

fn full() -> io::Error {
    Errno::NOSPC.into()
}

impl File for SimulatedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64, DiskError> {
        self.call(Call::Length, 0, |state, _| state.inode(self.number).map(|inode| inode.len()))
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        self.call(Call::SetLength, 0, |state, _| {
            state.check_writable()?;
            if i64::try_from(bytes).is_err() {
                return Err(Errno::FBIG.into());
            }
            state.inode(self.number).map(|inode| inode.set_len(bytes))
        })
    }

    fn read_pages(&self, first: u64, pages: &mut [Page]) -> Result<(), DiskError> {
        let (_, bytes) = byte_range(Call::Read, &self.path, first, pages.len() as u64)?;
        self.call(Call::Read, bytes, |state, fault| {
            let end = first + pages.len() as u64;
            if state.bad_pages.range((self.number, first)..(self.number, end)).next().is_some() {
                return Err(Errno::IO.into());
            }
            let inode = state.inode(self.number)?;
            for (page, target) in (first..).zip(&mut *pages) {
                if !inode.read(page, target) {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            if let (Some(Fault::FlipBit(bit)), true) = (fault, bytes > 0) {
                let bit = bit % (bytes * 8);
                pages.as_mut_bytes()[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
            Ok(())
        })
    }

    fn write_pages(&self, first: u64, pages: &[Page]) -> Result<(), DiskError> {
        let (_, bytes) = byte_range(Call::Write, &self.path, first, pages.len() as u64)?;
        self.call(Call::Write, bytes, |state, fault| {
            let end = first + pages.len() as u64;
            state
                .bad_pages
                .retain(|(number, page)| *number != self.number || !(first..end).contains(page));
            self.write(state, fault, first, pages)
        })
    }

    fn allocate(&self, first: u64, count: u64) -> Result<(), DiskError> {
        let (_, bytes) = byte_range(Call::Allocate, &self.path, first, count)?;
        self.call(Call::Allocate, bytes, |state, _| {
            state.check_writable()?;
            let free = state.free_pages();
            let inode = state.inode(self.number)?;
            let new = count - inode.allocated_in(first, count);
            if new > free {
                return Err(full());
            }
            (first..first + count).for_each(|page| inode.write_zeros(page));
            Ok(())
        })
    }

    fn deallocate(&self, first: u64, count: u64) -> Result<(), DiskError> {
        let (_, bytes) = byte_range(Call::Deallocate, &self.path, first, count)?;
        self.call(Call::Deallocate, bytes, |state, _| {
            state.check_writable()?;
            state.inode(self.number).map(|inode| inode.punch(first, count))
        })
    }

    fn space(&self) -> Result<Space, DiskError> {
        self.call(Call::Space, 0, |state, _| Ok(state.space()))
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.call(Call::SyncData, 0, |state, fault| {
            let State { inodes, rng, .. } = state;
            let inode = inodes.get_mut(&self.number).ok_or(Errno::STALE)?;
            match fault {
                Some(Fault::LosePages { some }) => inode.give_up_dirty_pages(some, rng),
                _ => inode.sync(),
            }
            Ok(())
        })
    }

    fn drop_cached(&self) -> Result<(), DiskError> {
        self.sync_data()?;
        self.call(Call::DropCached, 0, |state, _| {
            state.inode(self.number).map(Inode::drop_clean_pages)
        })
    }
}
