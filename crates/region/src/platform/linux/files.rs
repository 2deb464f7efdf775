//! Files that contain a region, anonymous files, and their seals.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, FallocateFlags, MemfdFlags, Mode, OFlags, RenameFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::platform::{OpenAs, OpenError};

/// Opens a file. Does not follow a link.
pub(crate) fn open(path: &Path, mode: OpenAs) -> Result<File, OpenError> {
    // Without NONBLOCK, opening a pipe or a device could block.
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let (flags, permissions) = match mode {
        OpenAs::Reader => (flags | OFlags::RDONLY, Mode::empty()),
        OpenAs::Writer => (flags | OFlags::RDWR, Mode::empty()),
        OpenAs::New => {
            (flags | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR)
        }
    };
    match rustix::fs::open(path, flags, permissions) {
        Ok(file) => Ok(file.into()),
        Err(Errno::NOENT) => Err(OpenError::Missing(Errno::NOENT.into())),
        Err(Errno::EXIST) => Err(OpenError::Exists),
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NODEV) => Err(OpenError::NotRegular),
        Err(errno) => Err(OpenError::Other(errno.into())),
    }
}

/// Opens the same file again, for reading and writing. The new open file description does not hold
/// the locks of the first.
pub(crate) fn open_again(file: &impl AsFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Creates an anonymous file for locks.
pub(crate) fn anonymous(name: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?)
}

/// Creates an anonymous file that can be sealed.
pub(crate) fn sealable(name: &str) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // A region is never executed, and some systems require the flag for this. Kernels before Linux
    // 6.3 do not support the flag.
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => Ok(rustix::fs::memfd_create(name, flags)?),
        made => Ok(made?),
    }
}

const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Fixes the length of an anonymous file, and lets only existing mappings write to it.
pub(crate) fn seal(file: &impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fcntl_add_seals(file, SEALS)?)
}

/// Fixes the length of an anonymous file.
pub(crate) fn seal_length(file: &impl AsFd) -> io::Result<()> {
    rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    Ok(rustix::fs::fcntl_add_seals(file, seals)?)
}

/// True if no process can truncate the file.
pub(crate) fn cannot_shrink(file: &impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// True if [`seal_length`] sealed the file.
pub(crate) fn is_length_sealed(file: &impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| {
        seals.contains(SealFlags::SHRINK | SealFlags::GROW)
            && !seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE)
    })
}

/// True if [`seal`] sealed the file.
pub(crate) fn is_sealed(file: &impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SEALS))
}

/// Returns the length of a file in bytes, and whether it has a name.
pub(crate) fn bytes_and_is_named(file: &impl AsFd) -> io::Result<(u64, bool)> {
    let stat = rustix::fs::fstat(file)?;
    Ok((u64::try_from(stat.st_size).unwrap_or(0), stat.st_nlink > 0))
}

/// Extends a file to `bytes`, and reserves memory for all of them.
pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| {
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes)
    })?)
}

/// Returns the maximum length of the files of this process, in bytes.
pub(crate) fn bytes_max() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Returns the number of bytes for which the file system has reserved memory.
pub(crate) fn reserved_bytes(file: &Metadata) -> u64 {
    /// The unit in which the system reports them.
    const BLOCK_BYTES: u64 = 512;
    file.blocks() * BLOCK_BYTES
}

/// Sets owner, group and mode, in this order: a change of the owner clears bits of the mode.
pub(crate) fn grant(
    file: &File,
    owner: Option<u32>,
    group: Option<u32>,
    mode: u32,
) -> io::Result<()> {
    std::os::unix::fs::fchown(file, owner, group)?;
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?)
}

/// Renames a file. Fails if `to` exists.
pub(crate) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// True if both descriptors refer to the same file.
pub(crate) fn is_same_fd(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    match (rustix::fs::fstat(one), rustix::fs::fstat(other)) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}
