//! Where a cache is, and the cache itself: opening, closing, and following a replaced file.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use arc_swap::{ArcSwapOption, Guard};
use larder::{Builder, Cache};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

use crate::errors;

/// The device and the inode of a file.
type FileId = (u64, u64);

/// A cache, and the file that contains it.
pub(crate) struct Opened {
    pub(crate) cache: Cache,
    /// `None` for memory without a file.
    file: Option<FileId>,
}

/// The open caches in files, by their names. Each opened file counts as one of the processes that
/// can use the cache, so all handles of this process with the same name share one.
static OPENED: Mutex<Vec<(PathBuf, Weak<Opened>)>> = Mutex::new(Vec::new());

/// Returns the cache that this process has already opened under a name, if the name still refers to
/// its file.
fn already_opened(path: &Path) -> Option<Arc<Opened>> {
    // A fork may happen while another thread holds the lock, which then stays locked in the child.
    let known = OPENED.try_lock().ok()?;
    let (_, opened) = known.iter().find(|(name, _)| name == path)?;
    let opened = opened.upgrade()?;
    let named = fs::metadata(path).ok()?;
    (opened.file == Some((named.dev(), named.ino())) && opened.cache.lost().is_none())
        .then_some(opened)
}

fn remember(path: &Path, opened: &Arc<Opened>) {
    if let Ok(mut known) = OPENED.try_lock() {
        known.retain(|(name, opened)| name != path && opened.strong_count() > 0);
        known.push((path.to_owned(), Arc::downgrade(opened)));
    }
}

/// A reference to the open cache, valid also if another thread closes or replaces the cache.
pub(crate) struct InUse(Guard<Option<Arc<Opened>>>);

impl std::ops::Deref for InUse {
    type Target = Cache;

    #[inline]
    fn deref(&self) -> &Cache {
        match &*self.0 {
            Some(opened) => &opened.cache,
            None => unreachable!("a closed cache is refused when the reference is made"),
        }
    }
}

/// The users whose writes a cache accepts. The owner of a file can always write to it.
#[derive(Clone, Copy)]
pub(crate) enum Writers {
    /// This user and root: reading a value runs code of the program that wrote it.
    Trusted,
    /// This user and root, and those that the bits of a mode (0022) allow. A process that can write
    /// to the memory can end the processes that use it.
    OfMode(u32),
}

/// The location and the settings of a cache.
pub(crate) struct Place {
    builder: Builder,
    path: Option<PathBuf>,
    writers: Writers,
    /// `None` after the cache was closed.
    opened: ArcSwapOption<Opened>,
    /// The second, in the cache's time, in which the name of the file was last checked.
    checked: AtomicU32,
}

impl Place {
    /// Opens the cache.
    ///
    /// # Errors
    /// `OpenError`; `UntrustedError` if other users can write to the file. A cache that this
    /// process can only read is a warning.
    pub(crate) fn open(
        py: Python<'_>,
        builder: Builder,
        path: Option<PathBuf>,
        writers: Writers,
    ) -> PyResult<Self> {
        let place = Self {
            builder,
            path,
            writers,
            opened: ArcSwapOption::empty(),
            checked: AtomicU32::new(0),
        };
        let opened = place.opened_anew(py)?;
        if opened.cache.only_reads() {
            let message = c"too many processes use the cache, so this one only reads it until \
                another one has left; create the file with a larger processes=";
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), message, 2)?;
        }
        place.opened.store(Some(opened));
        Ok(place)
    }

    /// Returns the cache. Once a second it checks whether the name of the file refers to another
    /// file, and then uses the cache in that file. In the same way it joins a cache that it could
    /// only read so far.
    ///
    /// # Errors
    /// `ClosedError` after [`Place::close`].
    #[inline]
    pub(crate) fn cache(&self, py: Python<'_>) -> PyResult<InUse> {
        let guard = self.opened.load();
        let Some(opened) = &*guard else {
            return Err(errors::CLOSED.with(py, "the cache is closed"));
        };
        if opened.file.is_some() {
            let now = opened.cache.now();
            if self.checked.load(Relaxed) != now {
                self.checked.store(now, Relaxed);
                return self.checked_for_another_file(py, guard);
            }
        }
        Ok(InUse(guard))
    }

    /// Closes the cache. Its memory is returned to the system as soon as no operation of another
    /// thread uses it. Returns false if it was closed already.
    pub(crate) fn close(&self) -> bool {
        self.opened.swap(None).is_some()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.opened.load().is_none()
    }

    fn opened_anew(&self, py: Python<'_>) -> PyResult<Arc<Opened>> {
        let Some(path) = &self.path else {
            return Ok(Arc::new(Opened { cache: self.opened_by_builder(py)?, file: None }));
        };
        let known = already_opened(path);
        let opened = match &known {
            Some(opened) => Arc::clone(opened),
            None => {
                let cache = self.opened_by_builder(py)?;
                let attributes = cache.reading_file().map(File::metadata).transpose()?;
                let file = attributes.map(|file| (file.dev(), file.ino()));
                Arc::new(Opened { cache, file })
            }
        };
        if let Some(file) = opened.cache.reading_file() {
            check_writers(py, path, &file.metadata()?, self.writers)?;
        }
        if known.is_none() {
            remember(path, &opened);
        }
        Ok(opened)
    }

    fn opened_by_builder(&self, py: Python<'_>) -> PyResult<Cache> {
        let builder = self.builder.clone();
        // Another process may be opening the same file, so the wait can take seconds.
        py.detach(|| builder.open()).map_err(|error| errors::open(py, &error))
    }

    #[cold]
    fn checked_for_another_file(
        &self,
        py: Python<'_>,
        guard: Guard<Option<Arc<Opened>>>,
    ) -> PyResult<InUse> {
        let (Some(path), Some(opened)) = (&self.path, &*guard) else { return Ok(InUse(guard)) };
        // A name that was removed is not a reason to leave the cache: the processes that use it
        // still share it. A process that opens the name creates another file.
        let Ok(named) = fs::metadata(path) else { return Ok(InUse(guard)) };
        // A process that only reads, because too many processes used the cache, opens it again.
        if opened.file == Some((named.dev(), named.ino())) && !opened.cache.only_reads() {
            return Ok(InUse(guard));
        }
        match self.opened_anew(py) {
            Ok(replaced) => {
                // Another thread may have closed or replaced the cache in the meantime.
                drop(self.opened.compare_and_swap(&guard, Some(replaced)));
                self.cache(py)
            }
            Err(error) => {
                let message = format!(
                    "{} was replaced, but the new file cannot be used, so the old one stays in \
                     use: {error}\0",
                    path.display()
                );
                let message = std::ffi::CStr::from_bytes_until_nul(message.as_bytes());
                let category = py.get_type::<PyRuntimeWarning>();
                PyErr::warn(py, &category, message.unwrap_or(c"the file was replaced"), 1)?;
                Ok(InUse(guard))
            }
        }
    }
}

/// Checks that no other user can write to the opened file than the accepted ones.
///
/// # Errors
/// `UntrustedError`.
fn check_writers(
    py: Python<'_>,
    path: &Path,
    file: &fs::Metadata,
    accepted: Writers,
) -> PyResult<()> {
    const OTHERS: u32 = 0o022;
    let us = effective_user();
    let (open_to, remedy) = match accepted {
        Writers::Trusted => (
            0,
            "reading a pickled value runs code of the program that wrote it: pass signing_key=, or use \
             another serializer",
        ),
        Writers::OfMode(mode) => (
            mode & OTHERS,
            "a process that can write to the file can end the processes that use it: pass \
             permissions=0o660 to share it with its group, or 0o666 with everyone",
        ),
    };
    let is_ours = file.uid() == us || file.uid() == 0 || open_to != 0;
    if is_ours && file.mode() & OTHERS & !open_to == 0 {
        return Ok(());
    }
    Err(errors::UNTRUSTED.with(
        py,
        format_args!(
            "{} belongs to user {} and has the mode {:04o}, expected a file of user {us} or of \
             root that only its owner can write to; {remedy}",
            path.display(),
            file.uid(),
            file.mode() & 0o7777,
        ),
    ))
}

fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}
