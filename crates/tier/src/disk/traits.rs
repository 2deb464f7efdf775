//! The traits of a directory and its files, as the log uses them.

use std::io;
use std::path::Path;

use zerocopy::IntoBytes;

use super::error::{Call, DiskError};
use super::page::{PAGE_BYTES, Page, zeroed_pages};

/// The length limit of [`Directory::read_small`] and [`Directory::replace_small`], in bytes.
pub const SMALL_BYTES_MAX: usize = 1 << 20;

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The space that this user can still use.
    pub free_bytes: u64,
    /// The total space of the file system, free and used.
    pub total_bytes: u64,
}

/// The directory of a tier. It contains a lock, small files that are only replaced as a whole, and
/// the log.
///
/// A name is one component of a path. All calls block until the system has returned.
pub trait Directory: Send + Sync {
    /// A file of this directory.
    type File: File;
    /// The lock of this directory, held until dropped.
    type Lock: Send + Sync;

    /// Returns the path of the directory, for messages.
    fn path(&self) -> &Path;

    /// Locks the directory against other processes. The kernel also frees the lock when the process
    /// ends.
    ///
    /// # Errors
    ///
    /// [`DiskError::Locked`] immediately if another process holds the lock.
    fn lock(&self) -> Result<Self::Lock, DiskError>;

    /// Opens a file to read and write. Returns `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// Refuses links, files of other users, and files that other users can open.
    fn open(&self, name: &str) -> Result<Option<Self::File>, DiskError>;

    /// Opens a file to read and write. Creates an empty file first if it does not exist. A created
    /// file is durable after [`Directory::sync`].
    ///
    /// # Errors
    ///
    /// Same as [`Directory::open`].
    fn create(&self, name: &str) -> Result<Self::File, DiskError>;

    /// Renames a file, and replaces any file with the new name. Readers of the new name always find
    /// the old file or the new one. Durable after [`Directory::sync`].
    ///
    /// # Errors
    ///
    /// Fails if `from` does not exist.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Exchanges the names of two files in one step. Returns false, and changes nothing, if one of
    /// them does not exist or the file system does not support this. Durable after
    /// [`Directory::sync`].
    ///
    /// # Errors
    ///
    /// System errors.
    fn exchange(&self, one: &str, other: &str) -> Result<bool, DiskError>;

    /// Makes created and renamed files durable.
    ///
    /// # Errors
    ///
    /// After an error the files may or may not be durable.
    fn sync(&self) -> Result<(), DiskError>;

    /// Returns the free space of the file system.
    ///
    /// # Errors
    ///
    /// System errors.
    fn space(&self) -> Result<Space, DiskError>;

    /// Reads a complete file of at most [`SMALL_BYTES_MAX`] bytes. Returns `None` if the file does
    /// not exist.
    ///
    /// # Errors
    ///
    /// [`DiskError::TooLong`] for a longer file. The call then reads nothing.
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
    /// The old file stays as `NAME.new`. Its space is then available for the next content, even on
    /// a full file system.
    ///
    /// # Errors
    ///
    /// After an error or a crash the file has its old content or the new one. If the last step
    /// fails, readers find the new content, but a power loss may restore the old one.
    /// [`DiskError::TooLong`] for more than [`SMALL_BYTES_MAX`] bytes.
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
        // An earlier process may have been killed after it exchanged the two names and before it
        // synced the directory. On the disk, the file that is now called NAME.new is then still
        // NAME. It must not be overwritten before the exchange is durable.
        self.sync()?;
        let mut pages = zeroed_pages(content.len().div_ceil(PAGE_BYTES));
        pages.as_mut_bytes()[..content.len()].copy_from_slice(content);
        file.write_pages(0, &pages)?;
        // Truncates the last page, and the rest of a longer file that a crash left.
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
/// Calls on disjoint ranges may run concurrently on several threads. A read that overlaps a running
/// write may return any mix of old and new pages. Two overlapping writes may leave any mix of both.
#[expect(clippy::len_without_is_empty, reason = "the system returns the length, and may fail")]
pub trait File: Send + Sync {
    /// Returns the path of the file as it was opened, for messages.
    fn path(&self) -> &Path;

    /// Returns the length of the file, in bytes.
    ///
    /// # Errors
    ///
    /// System errors.
    fn len(&self) -> Result<u64, DiskError>;

    /// Changes the length of the file. New bytes read as zeros, and the file system allocates no
    /// space for them. Durable after [`File::sync_data`].
    ///
    /// # Errors
    ///
    /// System errors.
    fn set_len(&self, bytes: u64) -> Result<(), DiskError>;

    /// Reads pages from page `first` on. In the last page of the file, the bytes after the end of
    /// the file are zero.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] if a page begins at or after the end of the file. After an
    /// error the content of `pages` is unspecified.
    fn read_pages(&self, first: u64, pages: &mut [Page]) -> Result<(), DiskError>;

    /// Writes pages from page `first` on, and extends the file if they end after its end. Durable
    /// after [`File::sync_data`].
    ///
    /// # Errors
    ///
    /// After an error each of the pages may or may not be written.
    fn write_pages(&self, first: u64, pages: &[Page]) -> Result<(), DiskError>;

    /// Allocates `count` pages from page `first` on and fills them with zeros, whatever their
    /// content was. Extends the file if they end after its end. After [`File::sync_data`], a write
    /// into the range needs no further space, and its sync writes no metadata of the file system.
    /// File systems that copy on write do not guarantee this.
    ///
    /// Cost: a write of all pages.
    ///
    /// # Errors
    ///
    /// [`DiskError::is_full`] if the space is not sufficient. The pages then use no space. After
    /// another error some of the pages may be zero. The file may be longer.
    fn allocate(&self, first: u64, count: u64) -> Result<(), DiskError>;

    /// Returns the space of `count` pages from page `first` on to the file system. The pages then
    /// read as zeros. Does nothing if the file system does not support this.
    ///
    /// # Errors
    ///
    /// System errors.
    fn deallocate(&self, first: u64, count: u64) -> Result<(), DiskError>;

    /// Returns the free space of the file system.
    ///
    /// # Errors
    ///
    /// System errors.
    fn space(&self) -> Result<Space, DiskError>;

    /// Makes all earlier writes and changes of length durable. Blocks until the device has
    /// responded.
    ///
    /// # Errors
    ///
    /// An error is final. The system may discard the pages that the sync covered, so a later sync
    /// can succeed without writing them. The caller must not assume that they are durable.
    fn sync_data(&self) -> Result<(), DiskError>;

    /// Returns how many reads should run at the same time to use the speed of the device. A
    /// simulated disk returns 1, so that its calls have an order.
    fn parallel_reads(&self) -> usize {
        1
    }

    /// Syncs the file, then drops its pages from the page cache, so that the next reads come from
    /// the device. Without this, after a failed sync the page cache may contain pages that the
    /// device lacks.
    ///
    /// # Errors
    ///
    /// Same as [`File::sync_data`].
    fn drop_cached(&self) -> Result<(), DiskError>;
}

/// Returns the byte offset and the length in bytes of `count` pages from page `first` on. Fails if
/// the range exceeds the maximum length of a file.
#[allow(dead_code, reason = "only files and the simulation call it, and a build may have neither")]
pub(super) fn byte_range(
    call: Call,
    path: &Path,
    first: u64,
    count: u64,
) -> Result<(u64, u64), DiskError> {
    const PAGES_MAX: u64 = i64::MAX as u64 / PAGE_BYTES as u64;
    match first.checked_add(count) {
        Some(end) if end <= PAGES_MAX => Ok((first * PAGE_BYTES as u64, count * PAGE_BYTES as u64)),
        _ => Err(DiskError::io(call, path, io::Error::from(io::ErrorKind::FileTooLarge))),
    }
}
