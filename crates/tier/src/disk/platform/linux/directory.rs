//! A directory of the operating system.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{
    self, AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock, fstat, fstatfs,
    fstatvfs, fsync, openat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::access::{DIRECTORY_MODE, FILE_MODE, check_private, check_regular};
use super::file::RealFile;
use super::file_system::Caution;
use crate::disk::{Call, Directory, DiskError, Space};

/// The name of the lock file.
const LOCK_NAME: &str = "lock";

/// A directory that only this user can open.
#[derive(Debug)]
pub struct RealDirectory {
    path: PathBuf,
    descriptor: OwnedFd,
}

/// The lock of a directory. It is freed when it is dropped and when the process ends.
#[derive(Debug)]
pub struct RealLock {
    descriptor: OwnedFd,
    /// The process that took the lock. A forked child also has a copy of the descriptor.
    process: u32,
}

impl Drop for RealLock {
    /// Unlocks the file. Closing the descriptor is not enough: a copy in a child keeps the lock.
    fn drop(&mut self) {
        if self.process == process::id() {
            // If this fails, the kernel frees the lock when the last copy is closed.
            let _ = flock(&self.descriptor, FlockOperation::NonBlockingUnlock);
        }
    }
}

impl RealDirectory {
    /// Opens a directory. Creates it first if it does not exist; its parent must exist.
    ///
    /// # Errors
    ///
    /// Refuses a link, a directory of another user, and a directory that other users can open.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, DiskError> {
        let path = path.into();
        let fail = |errno: Errno| DiskError::io(Call::OpenDirectory, &path, errno);
        match fs::mkdir(&path, Mode::from_raw_mode(DIRECTORY_MODE)) {
            Ok(()) => sync_parent(&path).map_err(fail)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(fail(errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = match fs::open(&path, flags, Mode::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::LOOP | Errno::NOTDIR) if is_link(&path) => {
                return Err(DiskError::Link { path });
            }
            Err(errno) => return Err(fail(errno)),
        };
        let stat = fstat(&descriptor).map_err(fail)?;
        check_private(&path, &stat, geteuid().as_raw(), DIRECTORY_MODE)?;
        Ok(Self { path, descriptor })
    }

    /// Returns a caution if this type of file system cannot keep the promises of a store.
    ///
    /// # Errors
    ///
    /// System errors.
    pub fn caution(&self) -> Result<Option<Caution>, DiskError> {
        let fail = |errno| DiskError::io(Call::Space, &self.path, errno);
        Ok(Caution::of_system(&fstatfs(&self.descriptor).map_err(fail)?))
    }

    /// Opens a file with these additional flags. Returns `None` if it does not exist.
    fn open_file(
        &self,
        name: &str,
        call: Call,
        more: OFlags,
    ) -> Result<Option<RealFile>, DiskError> {
        debug_assert!(!name.contains('/') && name != "..", "{name:?} is not a file name");
        let path = self.path.join(name);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
        let open = |flags| openat(&self.descriptor, name, flags, Mode::from_raw_mode(FILE_MODE));
        let (descriptor, is_direct) = match direct_or_buffered(flags, open) {
            Ok(opened) => opened,
            Err(Errno::NOENT) if !more.contains(OFlags::CREATE) => return Ok(None),
            Err(Errno::LOOP) => return Err(DiskError::Link { path }),
            Err(Errno::ISDIR | Errno::NXIO) => return Err(DiskError::NotAFile { path }),
            Err(errno) => return Err(DiskError::io(call, &path, errno)),
        };
        let stat = fstat(&descriptor).map_err(|errno| DiskError::io(call, &path, errno))?;
        check_regular(&path, &stat)?;
        check_private(&path, &stat, geteuid().as_raw(), FILE_MODE)?;
        Ok(Some(RealFile::new(path, descriptor, is_direct)))
    }
}

impl Directory for RealDirectory {
    type File = RealFile;
    type Lock = RealLock;

    fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> Result<RealLock, DiskError> {
        let file = self.create(LOCK_NAME)?;
        let path = self.path.join(LOCK_NAME);
        let descriptor = file.into_descriptor();
        match flock(&descriptor, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(RealLock { descriptor, process: process::id() }),
            Err(Errno::WOULDBLOCK) => Err(DiskError::Locked { path }),
            Err(errno) => Err(DiskError::io(Call::Lock, &path, errno)),
        }
    }

    fn open(&self, name: &str) -> Result<Option<RealFile>, DiskError> {
        self.open_file(name, Call::Open, OFlags::empty())
    }

    fn create(&self, name: &str) -> Result<RealFile, DiskError> {
        let file = self.open_file(name, Call::Create, OFlags::CREATE)?;
        file.ok_or_else(|| DiskError::io(Call::Create, &self.path.join(name), Errno::NOENT))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        fs::renameat(&self.descriptor, from, &self.descriptor, to)
            .map_err(|errno| DiskError::io(Call::Rename, &self.path.join(to), errno))
    }

    fn exchange(&self, one: &str, other: &str) -> Result<bool, DiskError> {
        let (directory, flags) = (&self.descriptor, RenameFlags::EXCHANGE);
        match fs::renameat_with(directory, one, directory, other, flags) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
            Err(errno) => Err(DiskError::io(Call::Rename, &self.path.join(other), errno)),
        }
    }

    fn sync(&self) -> Result<(), DiskError> {
        fsync(&self.descriptor)
            .map_err(|errno| DiskError::io(Call::SyncDirectory, &self.path, errno))
    }

    fn space(&self) -> Result<Space, DiskError> {
        let statvfs = fstatvfs(&self.descriptor);
        let statvfs = statvfs.map_err(|errno| DiskError::io(Call::Space, &self.path, errno))?;
        Ok(Space::of_system(&statvfs))
    }
}

/// Opens a file for direct I/O, or for buffered I/O if the file system does not support direct I/O.
/// The returned bool is true for direct I/O.
fn direct_or_buffered<T>(
    flags: OFlags,
    open: impl Fn(OFlags) -> Result<T, Errno>,
) -> Result<(T, bool), Errno> {
    match open(flags | OFlags::DIRECT) {
        Err(Errno::INVAL) => open(flags).map(|opened| (opened, false)),
        opened => opened.map(|opened| (opened, true)),
    }
}

/// Makes a new directory durable.
fn sync_parent(path: &Path) -> Result<(), Errno> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fsync(fs::open(parent, flags, Mode::empty())?)
}

fn is_link(path: &Path) -> bool {
    fs::statat(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_opened_for_buffered_io_where_direct_io_is_refused() {
        let open = |refusal: Option<Errno>| {
            direct_or_buffered(OFlags::RDWR, |flags| match refusal {
                Some(errno) if flags.contains(OFlags::DIRECT) => Err(errno),
                _ => Ok(flags),
            })
        };
        assert_eq!(open(None), Ok((OFlags::RDWR | OFlags::DIRECT, true)));
        assert_eq!(open(Some(Errno::INVAL)), Ok((OFlags::RDWR, false)));
        assert_eq!(open(Some(Errno::ACCESS)), Err(Errno::ACCESS), "another error is an error");
    }
}
