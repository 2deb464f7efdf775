//! Files of the operating system.
//!
//! I/O bypasses the page cache (`O_DIRECT`) where the file system supports this. The page cache
//! would otherwise fill with pages that are not read again. On other file systems, I/O is buffered.
//!
//! Files in reading order: `directory`, `access`, `file_system`, `file`, `transfer`.

mod access;
mod directory;
mod file;
mod file_system;
mod transfer;

pub use directory::{RealDirectory, RealLock};
pub use file::RealFile;
pub use file_system::Caution;
