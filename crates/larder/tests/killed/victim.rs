//! The process that the tracer steps through an operation.

use std::path::{Path, PathBuf};

use larder::{Builder, Cache, Clock};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};

pub(crate) const NAME: &str = "LARDER_VICTIM";
pub(crate) const PATH: &str = "LARDER_VICTIM_PATH";
pub(crate) const DETAIL: &str = "LARDER_VICTIM_DETAIL";

/// Memory of the caches of these tests, in bytes: the smallest possible.
pub(crate) const MEMORY_BYTES: u64 = 1 << 20;

pub(crate) fn builder(path: &Path) -> Builder {
    Cache::builder().memory_bytes(MEMORY_BYTES).cas(true).clock(Clock::Ticked).shared(path)
}

pub(crate) fn open(path: &Path) -> Cache {
    builder(path).open().unwrap_or_else(|error| panic!("{error}"))
}

/// The process that performs the operation.
pub(crate) struct Victim {
    pub(crate) path: PathBuf,
    /// The text that the preparation returned.
    pub(crate) detail: String,
    /// True if the process is stepped; otherwise it runs the operation normally.
    pub(crate) is_traced: bool,
}

impl Victim {
    /// Opens the cache and takes a thread slot.
    pub(crate) fn cache(&self) -> Cache {
        let cache = open(&self.path);
        assert_eq!(cache.get("nobody's"), None);
        cache
    }

    /// Runs the part of the operation that the tracer steps through.
    pub(crate) fn steps<T>(&self, act: impl FnOnce() -> T) -> T {
        if !self.is_traced {
            return act();
        }
        ptrace::traceme().unwrap();
        raise(Signal::SIGSTOP).unwrap();
        let outcome = act();
        raise(Signal::SIGSTOP).unwrap();
        outcome
    }
}

/// Returns the victim that the environment of this process describes.
pub(crate) fn of_environment() -> Option<(String, Victim)> {
    let name = std::env::var(NAME).ok()?;
    let path = PathBuf::from(std::env::var_os(PATH)?);
    let detail = std::env::var(DETAIL).unwrap_or_default();
    Some((name, Victim { path, detail, is_traced: true }))
}
