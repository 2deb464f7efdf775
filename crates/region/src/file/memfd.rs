//! Anonymous files, and the seals that fix their length and contents.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, Mode, SealFlags};
use rustix::io::Errno;

use super::error::{FileError, failed, only_on_a_system};
use super::length::allocate;

/// Creates an anonymous file of `bytes` zeros with reserved memory. `name` appears in listings of
/// mappings. The system removes the file once it is neither open nor mapped. Other processes
/// receive it by inheritance or through a socket.
///
/// # Errors
/// [`FileError`] if memory is exhausted.
pub fn memfd(name: &str, bytes: u64) -> Result<File, FileError> {
    let path = PathBuf::from(format!("memfd:{name}"));
    only_on_a_system(&path)?;
    let file = File::from(sealable(name).map_err(|errno| failed("create", &path)(errno.into()))?);
    allocate(&file, bytes, &path)?;
    Ok(file)
}

fn sealable(name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // A region is never executed, and some systems require the flag for this. Kernels before Linux
    // 6.3 do not support the flag.
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        made => made,
    }
}

const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Seals a memfd permanently: its length is fixed, and only existing mappings can write to it. It
/// can then be passed to untrusted processes. Map it before sealing it. Requires Linux 5.1.
///
/// The system does not punch holes into a sealed file: afterwards [`crate::Memory::release`]
/// returns no memory.
///
/// # Errors
/// The system's error: the file is not a memfd, or was sealed against sealing.
pub fn seal(file: &impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fcntl_add_seals(file, SEALS)?)
}

/// Seals the length of a memfd permanently, and prevents processes of other users from opening it
/// again for writing. Writable mappings can still be created through existing descriptors, so that
/// the region can be passed to another process. [`crate::Memory::release`] still returns memory.
///
/// A process of the same user that receives a descriptor for reading can open the memfd again for
/// writing. To prevent that, use [`seal`].
///
/// # Errors
/// The system's error: the file is not a memfd, or was sealed against sealing.
pub fn seal_length(file: &impl AsFd) -> io::Result<()> {
    rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    Ok(rustix::fs::fcntl_add_seals(file, seals)?)
}

/// True if no process can truncate the file while it is mapped, which would kill its readers with
/// SIGBUS. Files with a name cannot be sealed in this way.
pub fn cannot_shrink(file: &impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// True if [`seal_length`] sealed the file, so that another process can map it for writing.
pub fn is_length_sealed(file: &impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| {
        seals.contains(SealFlags::SHRINK | SealFlags::GROW)
            && !seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE)
    })
}

/// True if [`seal`] sealed the file.
pub fn is_sealed(file: &impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SEALS))
}
