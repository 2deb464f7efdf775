//! Anonymous files, and the seals that fix their length and contents.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::error::{FileError, failed};
use super::length::allocate;
use crate::platform::fd::AsFd;
use crate::platform::files;

/// Creates an anonymous file of `bytes` zeros with reserved memory. `name` appears in listings of
/// mappings. The system removes the file once it is neither open nor mapped. Other processes
/// receive it by inheritance or through a socket.
///
/// # Errors
/// [`FileError`] if memory is exhausted.
pub fn memfd(name: &str, bytes: u64) -> Result<File, FileError> {
    let path = PathBuf::from(format!("memfd:{name}"));
    let file = File::from(files::sealable(name).map_err(failed("create", &path))?);
    allocate(&file, bytes, &path)?;
    Ok(file)
}

/// Seals a memfd permanently: its length is fixed, and only existing mappings can write to it. It
/// can then be passed to untrusted processes. Map it before sealing it. Requires Linux 5.1.
///
/// The system does not punch holes into a sealed file: afterwards [`crate::Memory::release`]
/// returns no memory.
///
/// # Errors
/// The system's error: the file is not a memfd, or was sealed against sealing.
pub fn seal(file: &impl AsFd) -> io::Result<()> {
    files::seal(file)
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
    files::seal_length(file)
}

/// True if no process can truncate the file while it is mapped, which would kill its readers with
/// SIGBUS. Files with a name cannot be sealed in this way.
pub fn cannot_shrink(file: &impl AsFd) -> bool {
    files::cannot_shrink(file)
}

/// True if [`seal_length`] sealed the file, so that another process can map it for writing.
pub fn is_length_sealed(file: &impl AsFd) -> bool {
    files::is_length_sealed(file)
}

/// True if [`seal`] sealed the file.
pub fn is_sealed(file: &impl AsFd) -> bool {
    files::is_sealed(file)
}
