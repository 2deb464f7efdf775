//! A file of the operating system.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{
    Advice, FallocateFlags, FsWord, OFlags, fadvise, fallocate, fcntl_getfl, fcntl_setfl,
    fdatasync, fstat, fstatfs, fstatvfs, ftruncate,
};
use rustix::io::{Errno, pread, pwrite};
use zerocopy::IntoBytes;

use super::transfer::{read_fully, write_fully};
use crate::disk::traits::byte_range;
use crate::disk::{Call, DiskError, File, Page, Space, zeroed_pages};

/// The number of pages that one write fills with zeros: 1 MiB.
const ZERO_FILL_PAGES: u64 = 256;

/// The number of reads at the same time that most devices need for their full speed.
const PARALLEL_READS: usize = 16;

/// File systems that start a read without blocking: ext4, XFS, btrfs.
const PROMPT: [FsWord; 3] = [0xef53, 0x5846_5342, 0x9123_683e];

/// An open file.
#[derive(Debug)]
pub struct RealFile {
    path: PathBuf,
    descriptor: OwnedFd,
    /// True while I/O bypasses the page cache.
    is_direct: AtomicBool,
    is_prompt: bool,
}

impl RealFile {
    pub(super) fn new(path: PathBuf, descriptor: OwnedFd, is_direct: bool) -> Self {
        let is_prompt = fstatfs(&descriptor).is_ok_and(|system| PROMPT.contains(&system.f_type));
        Self { path, descriptor, is_direct: AtomicBool::new(is_direct), is_prompt }
    }

    /// True if the file system starts a read without blocking. Others, such as FUSE, accept the
    /// request not to block but block anyway.
    #[must_use]
    pub fn is_prompt(&self) -> bool {
        self.is_prompt
    }

    /// True if I/O bypasses the page cache. Some file systems refuse direct I/O only at the first
    /// transfer. After that, I/O is buffered.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.is_direct.load(Relaxed)
    }

    /// Returns the descriptor, for callers that read pages without this type's functions.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    pub(super) fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }

    /// Transfers bytes. If the file system refuses direct I/O, falls back to buffered I/O.
    fn transfer(&self, mut call: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
        match call() {
            Err(Errno::INVAL) if self.is_direct() => {
                let flags = fcntl_getfl(&self.descriptor)?;
                fcntl_setfl(&self.descriptor, flags.difference(OFlags::DIRECT))?;
                self.is_direct.store(false, Relaxed);
                call()
            }
            result => result,
        }
    }

    fn error(&self, call: Call) -> impl Fn(Errno) -> DiskError {
        move |errno| DiskError::io(call, &self.path, errno)
    }

    /// Allocates pages and fills them with zeros.
    fn fill(&self, first: u64, count: u64) -> Result<(), DiskError> {
        let (offset, bytes) = byte_range(Call::Allocate, &self.path, first, count)?;
        if count == 0 {
            return Ok(());
        }
        loop {
            match fallocate(&self.descriptor, FallocateFlags::empty(), offset, bytes) {
                Err(Errno::INTR) => {}
                // If it is not supported, the writes below allocate the space.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => break,
                Err(errno) => return Err(self.error(Call::Allocate)(errno)),
            }
        }
        let zeros = zeroed_pages(count.min(ZERO_FILL_PAGES) as usize);
        for done in (0..count).step_by(zeros.len()) {
            let next = zeros.len().min((count - done) as usize);
            let (offset, _) = byte_range(Call::Allocate, &self.path, first + done, next as u64)?;
            self.write(Call::Allocate, offset, &zeros[..next])?;
        }
        Ok(())
    }

    fn write(&self, call: Call, offset: u64, pages: &[Page]) -> Result<(), DiskError> {
        write_fully(pages.as_bytes(), |from, bytes| {
            self.transfer(|| pwrite(&self.descriptor, bytes, offset + from))
        })
        .map_err(|error| DiskError::io(call, &self.path, error))
    }
}

impl File for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64, DiskError> {
        let stat = fstat(&self.descriptor).map_err(self.error(Call::Length))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        ftruncate(&self.descriptor, bytes).map_err(self.error(Call::SetLength))
    }

    fn read_pages(&self, first: u64, pages: &mut [Page]) -> Result<(), DiskError> {
        let (offset, _) = byte_range(Call::Read, &self.path, first, pages.len() as u64)?;
        let len = || Ok(fstat(&self.descriptor)?.st_size.cast_unsigned().saturating_sub(offset));
        read_fully(pages.as_mut_bytes(), len, |from, bytes| {
            self.transfer(|| pread(&self.descriptor, &mut *bytes, offset + from))
        })
        .map_err(|error| DiskError::io(Call::Read, &self.path, error))
    }

    fn write_pages(&self, first: u64, pages: &[Page]) -> Result<(), DiskError> {
        let (offset, _) = byte_range(Call::Write, &self.path, first, pages.len() as u64)?;
        self.write(Call::Write, offset, pages)
    }

    fn allocate(&self, first: u64, count: u64) -> Result<(), DiskError> {
        match self.fill(first, count) {
            Err(error) if error.is_full() => {
                // The file system may have allocated a part.
                self.deallocate(first, count)?;
                Err(error)
            }
            filled => filled,
        }
    }

    fn deallocate(&self, first: u64, count: u64) -> Result<(), DiskError> {
        let (offset, bytes) = byte_range(Call::Deallocate, &self.path, first, count)?;
        if count == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        loop {
            match fallocate(&self.descriptor, flags, offset, bytes) {
                Err(Errno::INTR) => {}
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(errno) => return Err(self.error(Call::Deallocate)(errno)),
            }
        }
    }

    fn space(&self) -> Result<Space, DiskError> {
        Ok(Space::of_system(&fstatvfs(&self.descriptor).map_err(self.error(Call::Space))?))
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        fdatasync(&self.descriptor).map_err(self.error(Call::SyncData))
    }

    fn parallel_reads(&self) -> usize {
        PARALLEL_READS
    }

    fn drop_cached(&self) -> Result<(), DiskError> {
        self.sync_data()?;
        fadvise(&self.descriptor, 0, None, Advice::DontNeed).map_err(self.error(Call::DropCached))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Directory, platform::RealDirectory};

    #[test]
    fn refused_direct_io_falls_back_to_buffered_io() {
        let parent = tempfile::tempdir().unwrap();
        let directory = RealDirectory::open(parent.path().join("tier")).unwrap();
        let file = directory.create("log").unwrap();
        file.is_direct.store(true, Relaxed);
        let mut calls = 0;
        let transferred = file.transfer(|| {
            calls += 1;
            if calls == 1 { Err(Errno::INVAL) } else { Ok(4096) }
        });
        assert_eq!((transferred, calls), (Ok(4096), 2), "the transfer is repeated, buffered");
        assert!(!file.is_direct());
        let flags = fcntl_getfl(&file.descriptor).unwrap();
        assert!(!flags.contains(OFlags::DIRECT), "the descriptor still has O_DIRECT");
        assert_eq!(file.transfer(|| Err(Errno::INVAL)), Err(Errno::INVAL), "buffered I/O fails");
    }
}
