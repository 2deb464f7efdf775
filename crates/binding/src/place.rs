//! Where a cache is, and the cache itself: opening, closing, and following a replaced file.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::thread::sleep;
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use larder::{Builder, Cache, OpenError};
use larder_region::platform::{Ownership, file_id, ownership, user};

/// The device and the inode of a file.
type FileId = (u64, u64);

/// A cache, and the file that contains it.
struct Opened {
    cache: Cache,
    /// `None` for memory without a file.
    file: Option<FileId>,
}

/// The open caches in files, by their names.
type Known = Vec<(PathBuf, Weak<Opened>)>;

/// Each opened file counts as one of the processes that can use the cache, so all handles of this
/// process with the same name share one.
static OPENED: Mutex<Known> = Mutex::new(Vec::new());

/// How often [`known`] looks for the lock, with a millisecond in between.
const ATTEMPTS_MAX: u32 = 100;

/// Returns the list of open caches; `None` if the lock stays locked. A fork may happen while
/// another thread holds it, and then it stays locked in the child.
fn known() -> Option<MutexGuard<'static, Known>> {
    for _ in 0..ATTEMPTS_MAX {
        match OPENED.try_lock() {
            Ok(known) => return Some(known),
            Err(TryLockError::Poisoned(known)) => return Some(known.into_inner()),
            Err(TryLockError::WouldBlock) => sleep(Duration::from_millis(1)),
        }
    }
    None
}

/// Returns the cache that this process has already opened under a name, if the name still refers to
/// its file.
fn already_opened(known: &Known, path: &Path) -> Option<Arc<Opened>> {
    let (_, opened) = known.iter().find(|(name, _)| name == path)?;
    let opened = opened.upgrade()?;
    let named = fs::metadata(path).ok()?;
    (is_opened_from(&opened, &named) && opened.cache.lost().is_none()).then_some(opened)
}

/// True if the cache is in this file.
fn is_opened_from(opened: &Opened, file: &fs::Metadata) -> bool {
    opened.file.is_some() && opened.file == file_id(file)
}

fn remember(known: &mut Known, path: &Path, opened: &Arc<Opened>) {
    known.retain(|(name, opened)| name != path && opened.strong_count() > 0);
    known.push((path.to_owned(), Arc::downgrade(opened)));
}

/// A reference to the open cache, valid also if another thread closes or replaces the cache.
pub struct InUse(Guard<Option<Arc<Opened>>>);

impl Deref for InUse {
    type Target = Cache;

    #[inline]
    fn deref(&self) -> &Cache {
        match &*self.0 {
            Some(opened) => &opened.cache,
            None => unreachable!("a closed cache is refused when the reference is made"),
        }
    }
}

impl fmt::Debug for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InUse").field(&**self).finish()
    }
}

/// The users whose writes a cache accepts. The owner of a file can always write to it.
#[derive(Clone, Copy, Debug)]
pub enum Writers {
    /// This user and root: reading a value runs code of the program that wrote it.
    Trusted,
    /// This user and root, and those that the bits of a mode (0022) allow. A process that can write
    /// to the memory can end the processes that use it.
    OfMode(u32),
}

/// The reason why a cache cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The file is not a cache, or cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system refused a call.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Other users can write to the file.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
}

/// Users that the cache does not accept can write to the file. The message has the owner and the
/// mode of the file; a binding adds the options that help.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} belongs to user {owner} and has the mode {mode:04o}, expected a file of user {us} or of root \
     that only its owner can write to",
    path.display()
)]
pub struct Untrusted {
    path: PathBuf,
    owner: u32,
    mode: u32,
    us: u32,
}

/// A problem that does not prevent the use of a cache.
#[derive(Debug)]
pub enum Notice {
    /// Too many processes use the cache, so this one only reads it.
    OnlyReads,
    /// The file was replaced, but the new file cannot be used, so the old one stays in use.
    NotFollowed(PathBuf, PlaceError),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnlyReads => f.write_str(
                "too many processes use the cache, so this one only reads it until another one has \
                 left; create the file for more processes",
            ),
            Self::NotFollowed(path, error) => write!(
                f,
                "{} was replaced, but the new file cannot be used, so the old one stays in use: \
                 {error}",
                path.display()
            ),
        }
    }
}

/// The location and the settings of a cache, and the cache until it is closed.
///
/// Once a second the user of a place calls [`Place::follow`], because a program may run longer than
/// a file exists:
///
/// ```
/// # use larder_binding::{Place, Writers};
/// let (place, _notice) = Place::open(larder::Cache::builder(), None, Writers::Trusted)?;
/// let cache = place.cache().ok_or("closed")?;
/// if place.is_due(&cache) {
///     if let Some(notice) = place.follow() {
///         eprintln!("{notice}");
///     }
/// }
/// cache.set("k", "v", None)?;
/// assert!(place.close());
/// assert!(place.cache().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Place {
    builder: Builder,
    path: Option<PathBuf>,
    writers: Writers,
    /// `None` after the cache was closed.
    opened: ArcSwapOption<Opened>,
    /// The second, in the cache's time, in which the name of the file was last checked.
    checked: AtomicU32,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Place {
    /// Opens the cache. `builder` is for the file at `path`, or for memory without a file. Waits if
    /// another process is opening the file, for seconds at most.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn open(
        builder: Builder,
        path: Option<PathBuf>,
        writers: Writers,
    ) -> Result<(Self, Option<Notice>), PlaceError> {
        let opened = ArcSwapOption::empty();
        let place = Self { builder, path, writers, opened, checked: AtomicU32::new(0) };
        let opened = place.opened_anew()?;
        let notice = opened.cache.only_reads().then_some(Notice::OnlyReads);
        place.opened.store(Some(opened));
        Ok((place, notice))
    }

    /// Returns the cache; `None` after [`Place::close`].
    #[inline]
    pub fn cache(&self) -> Option<InUse> {
        let guard = self.opened.load();
        guard.is_some().then_some(InUse(guard))
    }

    /// True once in each second if the cache is in a file.
    #[inline]
    pub fn is_due(&self, cache: &InUse) -> bool {
        if self.path.is_none() {
            return false;
        }
        let now = cache.now();
        let is_due = self.checked.load(Relaxed) != now;
        if is_due {
            self.checked.store(now, Relaxed);
        }
        is_due
    }

    /// Checks whether the name of the file refers to another file, and uses the cache in that file
    /// from now on. In the same way it joins a cache that this process could only read so far.
    #[cold]
    pub fn follow(&self) -> Option<Notice> {
        let guard = self.opened.load();
        let (path, opened) = (self.path.as_ref()?, guard.as_ref()?);
        // A name that was removed is not a reason to leave the cache: the processes that use it
        // still share it. A process that opens the name creates another file.
        let named = fs::metadata(path).ok()?;
        if is_opened_from(opened, &named) && !opened.cache.only_reads() {
            return None;
        }
        match self.opened_anew() {
            Ok(replaced) => {
                // Another thread may have closed or replaced the cache in the meantime.
                drop(self.opened.compare_and_swap(&guard, Some(replaced)));
                None
            }
            Err(error) => Some(Notice::NotFollowed(path.clone(), error)),
        }
    }

    /// Closes the cache. Its memory is returned to the system as soon as no operation of another
    /// thread uses it. Returns false if it was closed already.
    pub fn close(&self) -> bool {
        self.opened.swap(None).is_some()
    }

    /// True after [`Place::close`].
    pub fn is_closed(&self) -> bool {
        self.opened.load().is_none()
    }

    fn opened_anew(&self) -> Result<Arc<Opened>, PlaceError> {
        let Some(path) = &self.path else {
            let cache = self.builder.clone().open()?;
            return Ok(Arc::new(Opened { cache, file: None }));
        };
        let mut known = known();
        let again = known.as_ref().and_then(|known| already_opened(known, path));
        let opened = match &again {
            Some(opened) => Arc::clone(opened),
            None => {
                let cache = self.builder.clone().open()?;
                let attributes = cache.reading_file().map(File::metadata).transpose()?;
                let file = attributes.as_ref().and_then(file_id);
                Arc::new(Opened { cache, file })
            }
        };
        if let Some(file) = opened.cache.reading_file() {
            check_writers(path, &file.metadata()?, self.writers)?;
        }
        if let Some(known) = &mut known
            && again.is_none()
        {
            remember(known, path, &opened);
        }
        Ok(opened)
    }
}

/// Checks that no other user can write to the opened file than the accepted ones.
fn check_writers(path: &Path, file: &fs::Metadata, accepted: Writers) -> Result<(), Untrusted> {
    const OTHERS: u32 = 0o022;
    let (us, Some(Ownership { owner, mode, .. })) = (user(), ownership(file)) else {
        return Ok(());
    };
    let open_to = match accepted {
        Writers::Trusted => 0,
        Writers::OfMode(mode) => mode & OTHERS,
    };
    let is_ours = owner == us || owner == 0 || open_to != 0;
    if is_ours && mode & OTHERS & !open_to == 0 {
        return Ok(());
    }
    Err(Untrusted { path: path.to_owned(), owner, mode, us })
}
