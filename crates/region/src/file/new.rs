//! A file under construction.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::error::{FileError, failed, not_opened};
use super::length::allocate;
use super::named::{is_named, open};
use crate::fork::forks;
use crate::locks::{self, LockError, Locks};
use crate::platform::{OpenAs, OpenError, files};

/// Owner and permissions of a file, regardless of the umask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Permission bits, as for chmod.
    pub mode: u32,
    /// The user id of the owner; only root can set it.
    pub owner: Option<u32>,
    /// The group id; without root, it must be a group of the process.
    pub group: Option<u32>,
}

impl Access {
    /// Returns the access with these permission bits, for the process's user and group.
    pub const fn mode(mode: u32) -> Self {
        Self { mode, owner: None, group: None }
    }
}

impl Default for Access {
    /// Returns access for this user only.
    fn default() -> Self {
        Self::mode(0o600)
    }
}

/// A file under construction. Its length is set and its memory is reserved, but other processes
/// cannot find it yet. If it is dropped without [`NewFile::publish`], it is removed.
///
/// Until it is published, its name is `.NAME.new` in the same directory, locked by its creator. If
/// the creator is killed, the next process that creates the file removes the remains.
///
/// # Examples
/// ```
/// use larder_region::{Memory, file::{self, Access, NewFile}};
/// use std::sync::atomic::Ordering::Relaxed;
///
/// # if cfg!(miri) { return Ok(()); }
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("region");
/// let new = NewFile::create(&path, 1 << 16, &Access::default())?;
/// let memory = Memory::shared(new.file(), 1 << 16)?;
/// memory.word(0).store(7, Relaxed);
/// new.publish()?;
///
/// let other = Memory::shared(&file::open(&path)?, 1 << 16)?;
/// assert_eq!(other.word(0).load(Relaxed), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NewFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    /// Detects a fork: a child neither removes nor unlocks the parent's file.
    made_after: u32,
}

impl NewFile {
    /// Creates a file of `bytes` zeros for `path`. All of its memory is reserved, so that a full
    /// file system is an error here and never a signal later. On a tmpfs this takes about a quarter
    /// of a second per GiB.
    ///
    /// # Errors
    /// [`FileError`]: no space, no permission, or another process is creating the same file.
    pub fn create(path: &Path, bytes: u64, access: &Access) -> Result<Self, FileError> {
        let temporary = temporary(path)?;
        let file = create_locked(path, &temporary)?;
        let new = Self { file, temporary, path: path.into(), made_after: forks() };
        allocate(&new.file, bytes, path)?;
        grant(&new.file, access, path)?;
        Ok(new)
    }

    /// Returns the file, open for reading and writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Opens the file again, for its locks.
    ///
    /// # Errors
    /// Same as [`Locks::open`].
    pub fn locks(&self) -> Result<Locks, LockError> {
        Locks::open(&self.temporary)
    }

    /// Gives the file its final name, atomically.
    ///
    /// # Errors
    /// [`FileError::Exists`] if a file with this name exists; then the new file is removed.
    pub fn publish(self) -> Result<File, FileError> {
        self.rename(files::rename_to_free)
    }

    /// Publishes the file as [`NewFile::publish`] does, but replaces an existing file with this
    /// name. Processes that have the old file open keep it, and do not notice the new file.
    ///
    /// # Errors
    /// [`FileError`] if the system refuses; then the new file is removed.
    pub fn replace(self) -> Result<File, FileError> {
        self.rename(|from, to| fs::rename(from, to))
    }

    fn rename(
        self,
        rename: impl FnOnce(&Path, &Path) -> io::Result<()>,
    ) -> Result<File, FileError> {
        let system = failed("name", &self.path);
        let file = self.file.try_clone().map_err(&system)?;
        match rename(&self.temporary, &self.path) {
            Ok(()) => Ok(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(FileError::Exists { path: self.path.clone() })
            }
            Err(error) => Err(system(error)),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if forks() != self.made_after {
            return;
        }
        // A published file no longer has the temporary name, and no other process uses the
        // temporary name while this file is locked.
        if is_named(&self.file, &self.temporary) {
            // If this fails, the next process that creates the file removes the remains.
            let _ = fs::remove_file(&self.temporary);
        }
        locks::unlock_made(&self.file);
    }
}

/// Returns how many bytes are reserved so far for the file that a process is creating at `path`;
/// `None` if no process is creating it.
pub fn reserved_bytes(path: &Path) -> Option<u64> {
    let file = fs::symlink_metadata(temporary(path).ok()?).ok()?;
    file.is_file().then(|| files::reserved_bytes(&file))
}

fn temporary(path: &Path) -> Result<PathBuf, FileError> {
    let Some(name) = path.file_name() else {
        return Err(FileError::NotRegular { path: path.into() });
    };
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(".new");
    Ok(path.with_file_name(temporary))
}

/// Creates the file with its temporary name. First removes a file that a killed creator has left.
fn create_locked(path: &Path, temporary: &Path) -> Result<File, FileError> {
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let (file, is_new) = match create_exclusive(temporary, path) {
            Ok(file) => (file, true),
            Err(FileError::Exists { .. }) => match open(temporary) {
                Ok(file) => (file, false),
                Err(FileError::Missing { .. }) => continue,
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        if !locks::try_lock_to_make(&file).map_err(failed("lock", temporary))? {
            return Err(FileError::Busy { path: path.into() });
        }
        // Only a process that has locked the file with this name removes it. From now on the name
        // cannot change to another file.
        if is_named(&file, temporary) {
            if is_new {
                return Ok(file);
            }
            fs::remove_file(temporary).map_err(failed("remove", temporary))?;
        }
        locks::unlock_made(&file);
    }
    Err(FileError::Busy { path: path.into() })
}

/// Creates an empty file that only this user can open for now. Errors contain `path`, the final
/// name.
fn create_exclusive(temporary: &Path, path: &Path) -> Result<File, FileError> {
    files::open(temporary, OpenAs::New).map_err(|error| match error {
        // A folder of the path.
        OpenError::Missing(source) => failed("create", path)(source),
        error => not_opened("create", path)(error),
    })
}

/// Sets the owner and the permissions of a file.
fn grant(file: &File, access: &Access, path: &Path) -> Result<(), FileError> {
    files::grant(file, access.owner, access.group, access.mode).map_err(|source| {
        let doing = "set user, group and mode of";
        FileError::System { doing, path: path.into(), source }
    })
}
