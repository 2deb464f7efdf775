//! What the log needs of a disk.

use std::io;
use std::path::Path;

use zerocopy::IntoBytes;

use super::error::{Call, DiskError};
use super::page::{PAGE_BYTES, Page, zeroed_pages};

/// The longest file that [`Directory::read_small`] and [`Directory::replace_small`] take, in bytes.
pub const SMALL_BYTES_MAX: usize = 1 << 20;

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The space that this user can still fill.
    pub free_bytes: u64,
    /// The space of the file system, free or used.
    pub total_bytes: u64,
}

/// The directory of a tier. It holds a lock, small files that are replaced whole, and the log.
///
/// A name is one component of a path. All calls block until the system has answered.
pub trait Directory: Send + Sync {
    /// A file of this directory.
    type File: File;
    /// The lock of this directory, held until dropped.
    type Lock: Send + Sync;

    /// Returns the path of the directory, for messages.
    fn path(&self) -> &Path;

    /// Locks the directory against other processes. The end of the process frees the lock too.
    ///
    /// # Errors
    ///
    /// [`DiskError::Locked`] without waiting, if the lock is held.
    fn lock(&self) -> Result<Self::Lock, DiskError>;

    /// Opens a file to read and write, or returns `None` if there is no file of this name.
    ///
    /// # Errors
    ///
    /// Refuses links, other users' files, and files that other users can open.
    fn open(&self, name: &str) -> Result<Option<Self::File>, DiskError>;

    /// Opens a file to read and write, and first creates it, empty, if it is missing. A created
    /// file is durable after [`Directory::sync`].
    ///
    /// # Errors
    ///
    /// Those of [`Directory::open`].
    fn create(&self, name: &str) -> Result<Self::File, DiskError>;

    /// Renames a file, and replaces the file that has the new name. Readers of the new name find
    /// the old file or the new one at any time. Durable after [`Directory::sync`].
    ///
    /// # Errors
    ///
    /// Fails if `from` does not exist.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Exchanges the names of two files in one step. Returns false, and changes nothing, if one of
    /// them is missing or the file system cannot do it. Durable after [`Directory::sync`].
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn exchange(&self, one: &str, other: &str) -> Result<bool, DiskError>;

    /// Makes created and renamed files durable.
    ///
    /// # Errors
    ///
    /// After an error the files may be durable or not.
    fn sync(&self) -> Result<(), DiskError>;

    /// Returns the free space of the file system.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn space(&self) -> Result<Space, DiskError>;

    /// Reads a whole file of at most [`SMALL_BYTES_MAX`] bytes, or returns `None` if it is missing.
    ///
    /// # Errors
    ///
    /// [`DiskError::TooLong`] for a longer file, of which nothing is read.
    fn read_small(&self, name: &str) -> Result<Option<Vec<u8>>, DiskError> {
        let Some(file) = self.open(name)? else { return Ok(None) };
        let bytes = file.len()?;
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        if len > SMALL_BYTES_MAX {
            let path = file.path().to_path_buf();
            return Err(DiskError::TooLong { path, bytes, expected: SMALL_BYTES_MAX as u64 });
        }
        let mut pages = zeroed_pages(len.div_ceil(PAGE_BYTES));
        file.read_pages(0, &mut pages)?;
        Ok(Some(pages.as_bytes()[..len].to_vec()))
    }

    /// Replaces the content of a file atomically and durably, or creates the file. Syncs the
    /// directory, writes `NAME.new`, syncs it, exchanges it with `NAME` and syncs the directory.
    /// The old file stays as `NAME.new`, so that the next content has its space on a full file
    /// system, too.
    ///
    /// # Errors
    ///
    /// After an error, and after a crash in the middle, the file has its old content or the new
    /// one. After an error of the last step readers find the new content, and a power loss may
    /// bring the old one back. [`DiskError::TooLong`] for more than [`SMALL_BYTES_MAX`] bytes.
    fn replace_small(&self, name: &str, content: &[u8]) -> Result<(), DiskError> {
        if content.len() > SMALL_BYTES_MAX {
            return Err(DiskError::TooLong {
                path: self.path().join(name),
                bytes: content.len() as u64,
                expected: SMALL_BYTES_MAX as u64,
            });
        }
        let new_name = format!("{name}.new");
        let file = self.create(&new_name)?;
        // A process that was killed may have exchanged the two and not synced the directory. On the
        // disk this file is then still the one called NAME.
        self.sync()?;
        let mut pages = zeroed_pages(content.len().div_ceil(PAGE_BYTES));
        pages.as_mut_bytes()[..content.len()].copy_from_slice(content);
        file.write_pages(0, &pages)?;
        // Cuts the last page, and the rest of a longer file that a crash has left.
        file.set_len(content.len() as u64)?;
        file.sync_data()?;
        if !self.exchange(&new_name, name)? {
            self.rename(&new_name, name)?;
        }
        self.sync()
    }
}

/// A file that is read and written in pages. Page `n` begins at byte `n` × 4096.
///
/// Calls on disjoint ranges may run at the same time on several threads. A call that overlaps a
/// running write sees or leaves any mix of pages.
#[expect(clippy::len_without_is_empty, reason = "the length is asked of the system and may fail")]
pub trait File: Send + Sync {
    /// Returns the path of the file as it was opened, for messages.
    fn path(&self) -> &Path;

    /// Returns the length of the file, in bytes.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn len(&self) -> Result<u64, DiskError>;

    /// Changes the length of the file. New bytes are zero, and no space is allocated for them.
    /// Durable after [`File::sync_data`].
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn set_len(&self, bytes: u64) -> Result<(), DiskError>;

    /// Reads pages from page `first` on. Bytes of the last page behind the end of the file are
    /// zero.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] if a page begins at or behind the end of the file. After an
    /// error the content of `pages` is unspecified.
    fn read_pages(&self, first: u64, pages: &mut [Page]) -> Result<(), DiskError>;

    /// Writes pages from page `first` on, and extends the file if they lie behind its end. Durable
    /// after [`File::sync_data`].
    ///
    /// # Errors
    ///
    /// After an error each of the pages may be written or not.
    fn write_pages(&self, first: u64, pages: &[Page]) -> Result<(), DiskError>;

    /// Allocates `count` pages from page `first` on and fills them with zeros, whatever they held.
    /// Extends the file if they lie behind its end. After [`File::sync_data`] a write into the
    /// range needs no further space, and its sync writes no metadata of the file system: where the
    /// file system does not copy on write.
    ///
    /// Costs a write of all pages.
    ///
    /// # Errors
    ///
    /// [`DiskError::is_full`] if the space does not suffice: then the pages have none. After
    /// another error some of the pages may be zero. The file may be longer.
    fn allocate(&self, first: u64, count: u64) -> Result<(), DiskError>;

    /// Gives the space of `count` pages from page `first` on back to the file system. They read as
    /// zeros. Does nothing if the file system cannot do it.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn deallocate(&self, first: u64, count: u64) -> Result<(), DiskError>;

    /// Returns the free space of the file system.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn space(&self) -> Result<Space, DiskError>;

    /// Makes all writes and changes of length before this call durable. Blocks until the device
    /// has answered.
    ///
    /// # Errors
    ///
    /// An error is final: the system may give up the pages that the sync covered, so that a later
    /// sync succeeds without them. The caller must not take them for durable.
    fn sync_data(&self) -> Result<(), DiskError>;

    /// Syncs the file, then drops its cached pages, so that the next reads come from the device.
    /// After a failed sync, the page cache may show pages that the device lacks.
    ///
    /// # Errors
    ///
    /// Those of [`File::sync_data`].
    fn drop_cached(&self) -> Result<(), DiskError>;
}

/// Returns the byte at which `count` pages from page `first` on begin, and their length in bytes.
/// Fails if a file cannot have these pages.
pub(super) fn byte_range(
    call: Call,
    path: &Path,
    first: u64,
    count: u64,
) -> Result<(u64, u64), DiskError> {
    const PAGES_MAX: u64 = i64::MAX as u64 / PAGE_BYTES as u64;
    match first.checked_add(count) {
        Some(end) if end <= PAGES_MAX => Ok((first * PAGE_BYTES as u64, count * PAGE_BYTES as u64)),
        _ => Err(DiskError::io(call, path, io::Error::from(rustix::io::Errno::FBIG))),
    }
}
