//! Files that hold a region: completed before they become visible, with all their memory reserved.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{CWD, FallocateFlags, FileType, MemfdFlags, Mode, OFlags, RenameFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::fork::forks;
use crate::locks::{self, LockError, Locks};

/// Owner and permissions of a file. Set as given, regardless of the umask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Permission bits, as for chmod.
    pub mode: u32,
    /// The user id of the owner; only root can set it.
    pub owner: Option<u32>,
    /// The group id; without root, one of the process's own groups.
    pub group: Option<u32>,
}

impl Access {
    /// Returns the access of this user and group, with these permission bits.
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

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file does not exist.
    #[error("there is no file {path}; create it first")]
    Missing {
        /// The missing file.
        path: PathBuf,
    },
    /// Another process published a file there first.
    #[error("{path} exists already; open it, or remove it")]
    Exists {
        /// The file to be created.
        path: PathBuf,
    },
    /// Another process is creating a file for the same path.
    #[error("another process is creating {path}; wait until it is done, then open it")]
    Busy {
        /// The file to be created.
        path: PathBuf,
    },
    /// The path names a link, a directory or a device, which cannot hold a region.
    #[error("{path} is not a regular file; remove it, or name another")]
    NotRegular {
        /// The file to be opened.
        path: PathBuf,
    },
    /// This process lacks the permission.
    #[error(
        "this process may not {doing} {path}: {of} belongs to user {owner} and group {group}, with mode {mode:o}; run \
         as that user, or change the mode"
    )]
    Permission {
        /// The operation.
        doing: &'static str,
        /// The file it was applied to.
        path: PathBuf,
        /// The file, or its directory, that denies the access.
        of: PathBuf,
        /// The owner's user id.
        owner: u32,
        /// The group id.
        group: u32,
        /// The permission bits.
        mode: u32,
    },
    /// The file system, or the machine, has too little free space.
    #[error(
        "there is no space for the {bytes} bytes of {path}: {source}; request less, or free some space"
    )]
    Full {
        /// The file.
        path: PathBuf,
        /// The requested size, in bytes.
        bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The file size exceeds the limit of this process.
    #[error(
        "{path} needs {bytes} bytes, but files of this process may have at most {limit_bytes}; raise \
         the limit (ulimit -f)"
    )]
    Limited {
        /// The file.
        path: PathBuf,
        /// The requested size, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// The system refuses for another reason.
    #[error("cannot {doing} {path}: {source}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The file it was applied to.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A file under construction: it has its length and its memory, but other processes cannot find it
/// yet. If it is dropped without [`NewFile::publish`], it is removed.
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
    /// A child forked meanwhile neither removes nor unlocks the parent's file.
    made_after: u32,
}

impl NewFile {
    /// Creates a file of `bytes` zeros for `path`. All of its memory is reserved, so that a full
    /// file system is an error here and never a signal later. On a tmpfs that takes about a quarter
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
    /// As [`Locks::open`].
    pub fn locks(&self) -> Result<Locks, LockError> {
        Locks::open(&self.temporary)
    }

    /// Gives the file its name, in one step.
    ///
    /// # Errors
    /// [`FileError::Exists`] if a file of this name exists; the new one is removed.
    pub fn publish(self) -> Result<File, FileError> {
        self.rename(RenameFlags::NOREPLACE)
    }

    /// Publishes the file as [`NewFile::publish`] does, in place of a file with this name.
    /// Processes that have the old file open keep it, and do not notice the new one.
    ///
    /// # Errors
    /// [`FileError`] if the system refuses; the new file is removed.
    pub fn replace(self) -> Result<File, FileError> {
        self.rename(RenameFlags::empty())
    }

    fn rename(self, flags: RenameFlags) -> Result<File, FileError> {
        let system = failed("name", &self.path);
        let file = self.file.try_clone().map_err(&system)?;
        match rustix::fs::renameat_with(CWD, &self.temporary, CWD, &self.path, flags) {
            Ok(()) => Ok(file),
            Err(Errno::EXIST) => Err(FileError::Exists { path: self.path.clone() }),
            Err(errno) => Err(system(errno.into())),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if forks() != self.made_after {
            return;
        }
        // A published file no longer has this name, and no other process takes the name while this
        // file is locked.
        if is_named(&self.file, &self.temporary) {
            // If this fails, the next process that creates the file removes it.
            let _ = fs::remove_file(&self.temporary);
        }
        locks::unlock_made(&self.file);
    }
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

/// Creates the file under its temporary name, and removes the remains of a killed creator.
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
        // Only a process that has locked the file of this name removes it. From here on the name
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

/// True if `path` currently names this file.
pub fn is_named(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// True if both descriptors refer to the same file.
pub(crate) fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    match (rustix::fs::fstat(one), rustix::fs::fstat(other)) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}

/// Creates an empty file that only this user can open yet. Errors name `path`, its final name.
fn create_exclusive(temporary: &Path, path: &Path) -> Result<File, FileError> {
    only_on_a_system(path)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(temporary, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        Err(Errno::EXIST) => Err(FileError::Exists { path: path.into() }),
        Err(errno) => Err(failed("create", path)(errno.into())),
    }
}

/// Sets owner, group and mode, in this order: a change of the owner clears bits of the mode.
fn grant(file: &File, access: &Access, path: &Path) -> Result<(), FileError> {
    std::os::unix::fs::fchown(file, access.owner, access.group)
        .and_then(|()| Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(access.mode))?))
        .map_err(|source| FileError::System {
            doing: "set user, group and mode of",
            path: path.into(),
            source,
        })
}

/// Opens a file for reading and writing.
///
/// # Errors
/// [`FileError`]: the file is missing, is not a regular file, or denies the access.
pub fn open(path: &Path) -> Result<File, FileError> {
    open_as(path, OFlags::RDWR)
}

/// Opens a file for reading.
///
/// # Errors
/// As [`open`].
pub fn open_to_read(path: &Path) -> Result<File, FileError> {
    open_as(path, OFlags::RDONLY)
}

fn open_as(path: &Path, access: OFlags) -> Result<File, FileError> {
    only_on_a_system(path)?;
    // Without NONBLOCK, opening a pipe or a device could block.
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Err(FileError::Missing { path: path.into() }),
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NODEV) => {
            return Err(FileError::NotRegular { path: path.into() });
        }
        Err(errno) => return Err(failed("open", path)(errno.into())),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| failed("open", path)(errno.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(FileError::NotRegular { path: path.into() }),
    }
}

/// Creates an anonymous file of `bytes` zeros with reserved memory. `name` appears in listings of
/// mappings. The file is gone once it is neither open nor mapped. Other processes get it by
/// inheritance or through a socket.
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
    // A region is never executed, and some systems require the flag that says so. Kernels before
    // Linux 6.3 do not know the flag.
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        made => made,
    }
}

const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Seals a memfd permanently: its length is fixed, and it can only be written through existing
/// mappings. It can then be passed to untrusted processes; map it first. Requires Linux 5.1.
///
/// The system does not punch holes into a sealed file: from then on [`crate::Memory::release`]
/// returns no memory.
///
/// # Errors
/// The system's error: the file is not a memfd, or was sealed against sealing.
pub fn seal(file: &impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fcntl_add_seals(file, SEALS)?)
}

/// Seals the length of a memfd permanently, and prevents processes of other users from opening it
/// again for writing. Writable mappings can still be created through existing descriptors, so that
/// the region can be passed to another process; the system takes released pages back.
///
/// A process of the same user that gets a descriptor for reading can open the memfd again for
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

/// Opens the file of `file` again, for reading and writing. The new open file description holds
/// none of the locks of the first.
///
/// # Errors
/// The system's error: `/proc` is missing, or permission is denied.
pub fn open_again(file: &impl AsFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// True if [`seal`] sealed the file.
pub fn is_sealed(file: &impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SEALS))
}

/// Extends a file to `bytes`, without reserving memory for the addition. [`crate::Memory::take`]
/// reserves it, and must be called before the addition is written. For a region whose limit may be
/// raised later.
///
/// # Errors
/// [`FileError`]: the length is not supported, or the file is sealed.
pub fn extend(file: &File, bytes: u64) -> Result<(), FileError> {
    let path = Path::new("the region's file");
    check_limit(bytes, path)?;
    let found = file.metadata().map_err(failed("extend", path))?.len();
    if found < bytes {
        file.set_len(bytes).map_err(failed("extend", path))?;
    }
    Ok(())
}

fn allocate(file: &File, bytes: u64, path: &Path) -> Result<(), FileError> {
    check_limit(bytes, path)?;
    let allocated = rustix::io::retry_on_intr(|| {
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes.max(1))
    });
    match allocated {
        Ok(()) => Ok(()),
        Err(errno @ (Errno::NOSPC | Errno::NOMEM | Errno::FBIG | Errno::DQUOT)) => {
            Err(FileError::Full { path: path.into(), bytes, source: errno.into() })
        }
        Err(errno) => Err(failed("reserve memory for", path)(errno.into())),
    }
}

/// Checks the file size limit, since the kernel would kill a process that exceeds it with a signal.
fn check_limit(bytes: u64, path: &Path) -> Result<(), FileError> {
    match getrlimit(Resource::Fsize).current {
        Some(limit_bytes) if bytes > limit_bytes => {
            Err(FileError::Limited { path: path.into(), bytes, limit_bytes })
        }
        _ => Ok(()),
    }
}

/// Returns an error under Miri, which supports none of these calls.
pub(crate) fn only_on_a_system(path: &Path) -> Result<(), FileError> {
    if cfg!(miri) {
        return Err(failed("create", path)(io::ErrorKind::Unsupported.into()));
    }
    Ok(())
}

/// Returns a function that converts an error of the operation `doing`; a denied permission names
/// the file's owner and mode.
pub(crate) fn failed(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> FileError {
    let path = PathBuf::from(path);
    move |source| {
        let path = path.clone();
        if source.kind() != io::ErrorKind::PermissionDenied {
            return FileError::System { doing, path, source };
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let of = if path.symlink_metadata().is_ok() { path.clone() } else { folder };
        match of.symlink_metadata() {
            Ok(found) => FileError::Permission {
                doing,
                path,
                of,
                owner: found.uid(),
                group: found.gid(),
                mode: found.mode() & 0o7777,
            },
            Err(_) => FileError::System { doing, path, source },
        }
    }
}
