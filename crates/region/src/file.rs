//! Files that hold a region: made whole before they appear, with all their memory reserved.

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

/// Who may use a file. Set as given, whatever the umask is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Permission bits, as for chmod.
    pub mode: u32,
    /// The number of the user it is given to; only root can.
    pub owner: Option<u32>,
    /// The number of the group it is given to; one of one's own, unless one is root.
    pub group: Option<u32>,
}

impl Access {
    /// Of this user and group, with these permission bits.
    pub const fn mode(mode: u32) -> Self {
        Self { mode, owner: None, group: None }
    }
}

impl Default for Access {
    /// For this user alone.
    fn default() -> Self {
        Self::mode(0o600)
    }
}

/// A file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is none.
    #[error("there is no file {path}; whoever makes it must come first")]
    Missing {
        /// What was looked for.
        path: PathBuf,
    },
    /// Somebody else published a file there first.
    #[error("{path} exists already; open it, or remove it")]
    Exists {
        /// What was to be made.
        path: PathBuf,
    },
    /// Somebody else is making a file for the same place.
    #[error("another process is just making {path}; wait until it is done, then open it")]
    Busy {
        /// What was to be made.
        path: PathBuf,
    },
    /// Something that cannot hold a region: a link, a folder, a device.
    #[error("{path} is not a regular file; remove it, or name another")]
    NotRegular {
        /// What was to be opened.
        path: PathBuf,
    },
    /// This process may not.
    #[error(
        "this process may not {doing} {path}: {of} is of user {owner} and group {group}, with mode {mode:o}; run as \
         that user, or have its mode changed"
    )]
    Permission {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What is in the way: the file, or the folder it would be in.
        of: PathBuf,
        /// Whose that is.
        owner: u32,
        /// Its group.
        group: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// The file system, or the machine, has not enough room.
    #[error(
        "there is no room for the {bytes} bytes of {path}: {source}; ask for less, or have more room made there"
    )]
    Full {
        /// For which file.
        path: PathBuf,
        /// How much was asked for.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// Files of this process may not be that long.
    #[error(
        "{path} would have {bytes} bytes, and files of this process may have {limit_bytes}; raise that limit \
         (ulimit -f)"
    )]
    Limited {
        /// For which file.
        path: PathBuf,
        /// How much was asked for.
        bytes: u64,
        /// How much is allowed.
        limit_bytes: u64,
    },
    /// The system refuses for another reason.
    #[error("cannot {doing} {path}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A file that is being made: it has its length and its memory, but nobody can find it yet. Dropped without
/// [`NewFile::publish`] it is removed.
///
/// Until then it is `.NAME.new` in the same folder, locked by its maker. Should that be killed, the next who makes the
/// file removes what it left.
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
    /// A child forked meanwhile neither removes nor unlocks what its parent is making.
    made_after: u32,
}

impl NewFile {
    /// Makes a file of `bytes` zeros for `path`. All of its memory is reserved, so that a full file system is an error
    /// here and never a signal later; on a tmpfs that takes about a quarter of a second a GiB.
    ///
    /// # Errors
    /// [`FileError`]: no room, no permission, or another process is making the same file.
    pub fn create(path: &Path, bytes: u64, access: &Access) -> Result<Self, FileError> {
        let temporary = temporary(path)?;
        let file = create_locked(path, &temporary)?;
        let new = Self { file, temporary, path: path.into(), made_after: forks() };
        allocate(&new.file, bytes, path)?;
        grant(&new.file, access, path)?;
        Ok(new)
    }

    /// The file, open for reading and writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Opens the file once more, for its locks.
    ///
    /// # Errors
    /// As [`Locks::open`].
    pub fn locks(&self) -> Result<Locks, LockError> {
        Locks::open(&self.temporary)
    }

    /// Gives the file its name, in one step.
    ///
    /// # Errors
    /// [`FileError::Exists`] if there is a file of this name; then the new one is removed.
    pub fn publish(self) -> Result<File, FileError> {
        self.rename(RenameFlags::NOREPLACE)
    }

    /// As [`NewFile::publish`], in place of the file that has this name. Who has opened that one keeps it, and knows
    /// nothing of the new one.
    ///
    /// # Errors
    /// [`FileError`] if the system refuses; then the new one is removed.
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
        // What was published has left this name, and nobody takes it while this file is locked.
        if is_named(&self.file, &self.temporary) {
            // It is removed by the next who makes it otherwise.
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

/// Makes the file under its temporary name, and removes what a maker that was killed has left there.
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
        // Only who has locked the file of this name removes it. Whether this is still that file is known from here on.
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

/// Is this the file that has this name now?
pub fn is_named(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// True if both are openings of the same file.
pub(crate) fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    match (rustix::fs::fstat(one), rustix::fs::fstat(other)) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}

/// Makes an empty file that only this user can open yet.
/// Makes a file that is to be called `path` in the end, which is what errors name.
fn create_exclusive(temporary: &Path, path: &Path) -> Result<File, FileError> {
    only_on_a_system(path)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(temporary, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        Err(Errno::EXIST) => Err(FileError::Exists { path: path.into() }),
        Err(errno) => Err(failed("create", path)(errno.into())),
    }
}

/// Sets owner, group and mode, in this order: the system takes bits of the mode away from who gives a file away.
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
/// [`FileError`]: there is none, it is no regular file, or this process may not.
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
    // Without NONBLOCK a pipe or a device could keep this process here.
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

/// Makes a file without a name, of `bytes` zeros whose memory is reserved. `name` is what lists of mappings show. It
/// is gone when nobody has it open or mapped any more; others get it by inheritance or through a socket.
///
/// # Errors
/// [`FileError`] if there is no memory.
pub fn memfd(name: &str, bytes: u64) -> Result<File, FileError> {
    let path = PathBuf::from(format!("memfd:{name}"));
    only_on_a_system(&path)?;
    let file = File::from(sealable(name).map_err(|errno| failed("create", &path)(errno.into()))?);
    allocate(&file, bytes, &path)?;
    Ok(file)
}

fn sealable(name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Nobody executes a region, and some systems insist on hearing it. Those before Linux 6.3 do not know the word.
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        made => made,
    }
}

const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Seals a memfd for good: its length stays, and nobody can write any more but through the mappings there are. So it
/// can be passed to those who are not trusted; map it first. Needs Linux 5.1.
///
/// The system takes no pages out of a sealed file: [`crate::Memory::release`] gives nothing back from then on.
///
/// # Errors
/// What the system said: it is no memfd, or was sealed against this.
pub fn seal(file: &impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fcntl_add_seals(file, SEALS)?)
}

/// Seals the length of a memfd for good, and lets no process of another user open it again for writing. Mappings that
/// can be written to can still be made through the descriptors that there are, so that the region can be handed to
/// another process; the system takes released pages back.
///
/// A process of the same user that gets a descriptor for reading can open the memfd again for writing: where that must
/// not be, use [`seal`].
///
/// # Errors
/// What the system said: it is no memfd, or was sealed against this.
pub fn seal_length(file: &impl AsFd) -> io::Result<()> {
    rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    Ok(rustix::fs::fcntl_add_seals(file, seals)?)
}

/// True if no process can cut this off while it is mapped, which would end those that map it with SIGBUS. Files with a name
/// cannot be sealed so.
pub fn cannot_shrink(file: &impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// True if [`seal_length`] sealed this, so that another process can map it for writing.
pub fn is_length_sealed(file: &impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| {
        seals.contains(SealFlags::SHRINK | SealFlags::GROW)
            && !seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE)
    })
}

/// Opens what `file` has open once more, for reading and writing: an open file description of its own, which holds none
/// of the locks of the first.
///
/// # Errors
/// The system's: there is no `/proc`, or this process may not.
pub fn open_again(file: &impl AsFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Was this sealed by [`seal`]?
pub fn is_sealed(file: &impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SEALS))
}

/// Makes a file longer, up to `bytes`, without reserving memory for what is added: [`crate::Memory::take`] does, and must
/// before it is written to. For a region whose limit may be raised later.
///
/// # Errors
/// [`FileError`]: no file can be that long, or it is sealed.
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

/// The system would answer a file beyond its limit with a signal that ends the process.
fn check_limit(bytes: u64, path: &Path) -> Result<(), FileError> {
    match getrlimit(Resource::Fsize).current {
        Some(limit_bytes) if bytes > limit_bytes => {
            Err(FileError::Limited { path: path.into(), bytes, limit_bytes })
        }
        _ => Ok(()),
    }
}

/// Miri has none of this.
pub(crate) fn only_on_a_system(path: &Path) -> Result<(), FileError> {
    if cfg!(miri) {
        return Err(failed("create", path)(io::ErrorKind::Unsupported.into()));
    }
    Ok(())
}

/// What became of `doing` something with a file; where it was not allowed, whose file that is.
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
