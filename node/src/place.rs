//! Where a cache is, and the cache itself: opening, closing, and following a replaced file.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::{ArcSwapOption, Guard};
use larder::{Builder, Cache};
use napi::bindgen_prelude::{Env, FnArgs, Function, JsObjectValue, Object};
use napi::sys;

use crate::errors::{Code, Failure};

type Result<T> = std::result::Result<T, Failure>;

/// The device and the inode of a file.
type FileId = (u64, u64);

/// A cache, and the file that contains it.
pub(crate) struct Opened {
    pub(crate) cache: Cache,
    /// `None` for memory without a file.
    file: Option<FileId>,
}

/// The open caches in files, by their names. Each opened file counts as one of the processes that
/// can use the cache, so all handles of this process with the same name share one, also those of
/// worker threads.
static OPENED: Mutex<Vec<(PathBuf, Weak<Opened>)>> = Mutex::new(Vec::new());

type Known = Vec<(PathBuf, Weak<Opened>)>;

/// Returns the cache that this process has already opened under a name, if the name still refers to
/// its file.
fn already_opened(known: &Known, path: &Path) -> Option<Arc<Opened>> {
    let (_, opened) = known.iter().find(|(name, _)| name == path)?;
    let opened = opened.upgrade()?;
    let named = fs::metadata(path).ok()?;
    (opened.file == Some((named.dev(), named.ino())) && opened.cache.lost().is_none())
        .then_some(opened)
}

fn remember(known: &mut Known, path: &Path, opened: &Arc<Opened>) {
    known.retain(|(name, opened)| name != path && opened.strong_count() > 0);
    known.push((path.to_owned(), Arc::downgrade(opened)));
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

/// The users whose writes a cache accepts, in addition to this one and root: those that the bits of
/// a mode (0022) allow. A process that can write to the memory can end the processes that use it.
type Writers = u32;

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
    /// Fails if the file is not a cache, or if other users can write to it. A cache that this
    /// process can only read is a warning.
    pub(crate) fn open(
        env: sys::napi_env,
        builder: Builder,
        path: Option<PathBuf>,
        writers: Writers,
    ) -> Result<Self> {
        let place = Self {
            builder,
            path,
            writers,
            opened: ArcSwapOption::empty(),
            checked: AtomicU32::new(0),
        };
        let opened = place.opened_anew()?;
        if opened.cache.only_reads() {
            warn(
                env,
                "too many processes use the cache, so this one only reads it until another one has \
                 left; create the file with a larger `processes`",
            );
        }
        place.opened.store(Some(opened));
        Ok(place)
    }

    /// Returns the cache. Once a second it checks whether the name of the file refers to another
    /// file, and then uses the cache in that file. In the same way it joins a cache that it could
    /// only read so far.
    ///
    /// # Errors
    /// After [`Place::close`].
    #[inline]
    pub(crate) fn cache(&self, env: sys::napi_env) -> Result<InUse> {
        let guard = self.opened.load();
        let Some(opened) = &*guard else {
            return Err(Failure::new(Code::Closed, "the cache is closed"));
        };
        if opened.file.is_some() {
            let now = opened.cache.now();
            if self.checked.load(Relaxed) != now {
                self.checked.store(now, Relaxed);
                return self.checked_for_another_file(env, guard);
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

    fn opened_anew(&self) -> Result<Arc<Opened>> {
        let Some(path) = &self.path else {
            let cache = self.builder.clone().open()?;
            return Ok(Arc::new(Opened { cache, file: None }));
        };
        let mut known = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let again = already_opened(&known, path);
        let opened = match &again {
            Some(opened) => Arc::clone(opened),
            None => {
                // Another process may be opening the same file, so the wait can take seconds.
                let cache = self.builder.clone().open()?;
                let attributes = cache.reading_file().map(File::metadata).transpose()?;
                let file = attributes.map(|file| (file.dev(), file.ino()));
                Arc::new(Opened { cache, file })
            }
        };
        if let Some(file) = opened.cache.reading_file() {
            check_writers(path, &file.metadata()?, self.writers)?;
        }
        if again.is_none() {
            remember(&mut known, path, &opened);
        }
        Ok(opened)
    }

    #[cold]
    fn checked_for_another_file(
        &self,
        env: sys::napi_env,
        guard: Guard<Option<Arc<Opened>>>,
    ) -> Result<InUse> {
        let (Some(path), Some(opened)) = (&self.path, &*guard) else { return Ok(InUse(guard)) };
        // A name that was removed is not a reason to leave the cache: the processes that use it
        // still share it. A process that opens the name creates another file.
        let Ok(named) = fs::metadata(path) else { return Ok(InUse(guard)) };
        // A process that only reads, because too many processes used the cache, opens it again.
        if opened.file == Some((named.dev(), named.ino())) && !opened.cache.only_reads() {
            return Ok(InUse(guard));
        }
        match self.opened_anew() {
            Ok(replaced) => {
                // Another thread may have closed or replaced the cache in the meantime.
                drop(self.opened.compare_and_swap(&guard, Some(replaced)));
                self.cache(env)
            }
            Err(error) => {
                let message = format!(
                    "{} was replaced, but the new file cannot be used, so the old one stays in \
                     use: {}",
                    path.display(),
                    error.message
                );
                warn(env, &message);
                Ok(InUse(guard))
            }
        }
    }
}

/// Checks that no other user can write to the opened file than the accepted ones.
fn check_writers(path: &Path, file: &fs::Metadata, accepted: Writers) -> Result<()> {
    const OTHERS: u32 = 0o022;
    let us = rustix::process::geteuid().as_raw();
    let open_to = accepted & OTHERS;
    let is_ours = file.uid() == us || file.uid() == 0 || open_to != 0;
    if is_ours && file.mode() & OTHERS & !open_to == 0 {
        return Ok(());
    }
    Err(Failure::new(
        Code::Untrusted,
        format_args!(
            "{} belongs to user {} and has the mode {:04o}, expected a file of user {us} or of root \
             that only its owner can write to: a process that can write to the file can end the \
             processes that use it. To share it with its group pass permissions: 0o660, with \
             everyone 0o666",
            path.display(),
            file.uid(),
            file.mode() & 0o7777,
        ),
    ))
}

/// Calls `process.emitWarning`, which prints the message after the running code has ended.
#[cold]
fn warn(env: sys::napi_env, message: &str) {
    // A warning that cannot be emitted changes nothing else.
    let _ = emit_warning(env, message);
}

fn emit_warning(env: sys::napi_env, message: &str) -> napi::Result<()> {
    let process: Object<'_> = Env::from_raw(env).get_global()?.get_named_property("process")?;
    let emit: Function<'_, FnArgs<(String, &str)>, ()> =
        process.get_named_property("emitWarning")?;
    emit.apply(process, (message.to_owned(), "LarderWarning").into())
}
