//! Systems other than Linux, on which no directory can be opened.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Call, Directory, DiskError, File, Page, Space};

/// A directory that cannot be opened on this system.
#[derive(Debug)]
pub struct RealDirectory(Infallible);

/// The lock of a directory.
#[derive(Debug)]
pub struct RealLock(Infallible);

/// An open file.
#[derive(Debug)]
pub struct RealFile(Infallible);

/// A reason why a store is not durable on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caution {}

impl fmt::Display for Caution {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl Caution {
    /// Returns no caution.
    ///
    /// # Errors
    ///
    /// None.
    pub fn at(_directory: &Path) -> Result<Option<Self>, DiskError> {
        Ok(None)
    }
}

impl RealDirectory {
    /// Fails: a disk tier needs Linux.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, DiskError> {
        let text = "a disk tier needs Linux; on this system, open a cache in memory only";
        let error = io::Error::new(io::ErrorKind::Unsupported, text);
        Err(DiskError::io(Call::OpenDirectory, &path.into(), error))
    }

    /// Returns the caution for this directory.
    ///
    /// # Errors
    ///
    /// None.
    pub fn caution(&self) -> Result<Option<Caution>, DiskError> {
        match self.0 {}
    }
}

impl Directory for RealDirectory {
    type File = RealFile;
    type Lock = RealLock;

    fn path(&self) -> &Path {
        match self.0 {}
    }

    fn lock(&self) -> Result<RealLock, DiskError> {
        match self.0 {}
    }

    fn open(&self, _name: &str) -> Result<Option<RealFile>, DiskError> {
        match self.0 {}
    }

    fn create(&self, _name: &str) -> Result<RealFile, DiskError> {
        match self.0 {}
    }

    fn rename(&self, _from: &str, _to: &str) -> Result<(), DiskError> {
        match self.0 {}
    }

    fn exchange(&self, _one: &str, _other: &str) -> Result<bool, DiskError> {
        match self.0 {}
    }

    fn sync(&self) -> Result<(), DiskError> {
        match self.0 {}
    }

    fn space(&self) -> Result<Space, DiskError> {
        match self.0 {}
    }
}

impl RealFile {
    /// True if the file system starts a read without blocking.
    #[must_use]
    pub fn is_prompt(&self) -> bool {
        match self.0 {}
    }

    /// Returns a descriptor of any type.
    #[must_use]
    pub fn descriptor<T>(&self) -> T {
        match self.0 {}
    }
}

impl File for RealFile {
    fn path(&self) -> &Path {
        match self.0 {}
    }

    fn len(&self) -> Result<u64, DiskError> {
        match self.0 {}
    }

    fn set_len(&self, _bytes: u64) -> Result<(), DiskError> {
        match self.0 {}
    }

    fn read_pages(&self, _first: u64, _pages: &mut [Page]) -> Result<(), DiskError> {
        match self.0 {}
    }

    fn write_pages(&self, _first: u64, _pages: &[Page]) -> Result<(), DiskError> {
        match self.0 {}
    }

    fn allocate(&self, _first: u64, _count: u64) -> Result<(), DiskError> {
        match self.0 {}
    }

    fn deallocate(&self, _first: u64, _count: u64) -> Result<(), DiskError> {
        match self.0 {}
    }

    fn space(&self) -> Result<Space, DiskError> {
        match self.0 {}
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        match self.0 {}
    }

    fn parallel_reads(&self) -> usize {
        match self.0 {}
    }

    fn drop_cached(&self) -> Result<(), DiskError> {
        match self.0 {}
    }
}
