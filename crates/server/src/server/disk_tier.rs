//! The directory of `--tier-path`, which keeps items on disk in a log.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use larder::{
    Builder, Cache, OpenError, TierDamage, TierMode, TierStarted, TierStatistics as Statistics,
};
use larder_options::{self as options, Options};

use crate::clock::Stopwatch;
use crate::log;
use crate::server::progress::Progress;
use crate::words::CountedNoun;

/// The error of a directory that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("option --tier-path: {0}")]
pub struct DiskTierError(OpenError);

/// Observes the opening of a directory.
#[derive(Clone)]
pub(crate) struct Observer {
    /// Receives how much has been read.
    pub(crate) progress: Progress,
    /// Called before the directory is changed in such a way that a kill would lose items that a
    /// stop would keep.
    pub(crate) before_change: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl Default for Observer {
    /// Creates an observer that does nothing.
    fn default() -> Self {
        Self { progress: Progress::default(), before_change: Arc::new(|| ()) }
    }
}

/// A directory that is not open yet, with the memory of its cache.
#[derive(Debug)]
pub(crate) struct UnopenedDirectory {
    cache: larder::Prepared,
    path: PathBuf,
    /// True with `--tier-accept-loss`: damage in the log does not prevent the start.
    accepts_loss: bool,
}

impl UnopenedDirectory {
    /// Maps the memory.
    ///
    /// # Errors
    /// Returns [`DiskTierError`] if the memory cannot be allocated, or if the options contradict
    /// each other.
    pub(super) fn prepare(
        builder: Builder,
        tier: &options::DiskTier,
        options: &Options,
        observer: Observer,
    ) -> Result<Self, DiskTierError> {
        let builder = builder.tier(settings(tier, observer));
        // Reserves address space, so that the memory limit can be raised later. That costs no
        // memory, except if memory is locked: the system would then commit all of it.
        let builder = match options.lock_memory {
            true => builder,
            false => builder.memory_bytes_max(options.memory_bytes * super::open::GROWTH_MAX),
        };
        let cache = builder.prepare().map_err(DiskTierError)?;
        Ok(Self { cache, path: tier.path.clone(), accepts_loss: tier.accept_loss })
    }

    /// Checks whether the directory can be opened although the predecessor still uses it.
    ///
    /// # Errors
    /// Returns [`DiskTierError`] with the reason why it cannot.
    pub(super) fn rehearse(&self) -> Result<(), DiskTierError> {
        self.cache.rehearse().map_err(DiskTierError)
    }

    /// Opens the cache with the items of the directory, and logs how many there are.
    ///
    /// # Errors
    /// Returns [`DiskTierError`] if the directory or its log cannot be used.
    pub(super) fn open(self) -> Result<Cache, DiskTierError> {
        let stopwatch = Stopwatch::start();
        let path = self.path.display().to_string();
        let cache = self.cache.open().map_err(DiskTierError)?;
        let ms = stopwatch.elapsed_us() as f64 / 1000.0;
        let Some(status) = cache.tier() else { return Ok(cache) };
        let items = status.started.items;
        let source = if status.started.is_from_index { ", from its index" } else { "" };
        log::info(format_args!(
            "larderd: directory {path}: opened in {ms:.1} ms, with {}{source}",
            CountedNoun(items, "item"),
        ));
        report_loss(&path, &status.started, self.accepts_loss);
        if status.started.flipped > 0 {
            log::warn(format_args!(
                "larderd: directory {path}: {} in MANIFEST or in headers of the log, flipped back; \
                 nothing is lost. Check the disk",
                CountedNoun(status.started.flipped, "flipped bit"),
            ));
        }
        if status.started.dictionary_copies > 0 {
            log::warn(format_args!(
                "larderd: directory {path}: {} of dictionaries, written again from the other copy; \
                 nothing is lost. Check the disk",
                CountedNoun(status.started.dictionary_copies as u64, "damaged file"),
            ));
        }
        if status.started.is_index_unread {
            let result = match status.mode {
                TierMode::Store => "the log was read instead",
                TierMode::Cache => "the cache begins empty",
            };
            log::warn(format_args!(
                "larderd: directory {path}: the disk does not return INDEX; {result}. Check the disk"
            ));
        }
        if let Some(caution) = status.caution {
            log::warn(format_args!("larderd: directory {path}: {caution}"));
        }
        if let Some(cut) = status.started.cut {
            log::warn(format_args!("larderd: the last stop was not clean; the log ends at {cut}",));
        }
        let Statistics { catalog_bytes, catalog_bytes_max, .. } = status.statistics;
        if catalog_bytes > catalog_bytes_max {
            let mib = |bytes: u64| bytes.div_ceil(1 << 20);
            log::error(format_args!(
                "larderd: directory {path}: its index takes {} MiB of memory, more than the {} MiB \
                 that -m leaves for it: larderd uses more memory than -m, and the index grows no \
                 more, so that stores of new keys fail soon; raise -m",
                mib(catalog_bytes),
                mib(catalog_bytes_max),
            ));
        }
        let skew_secs = status.started.time.skew_secs;
        if skew_secs >= SKEW_SECS_MIN {
            log::warn(format_args!(
                "larderd: directory {path}: the system's clock is {skew_secs} s behind where it \
                 was when the directory was last written; items keep the time to live that they \
                 had then. If the clock is wrong now, set it and start the server again"
            ));
        }
        Ok(cache)
    }
}

/// Returns the settings of the directory according to the options.
fn settings(tier: &options::DiskTier, observer: Observer) -> larder::DiskTier {
    let Observer { progress, before_change } = observer;
    let disk = larder::DiskTier::new(&tier.path, tier.bytes);
    let disk = match tier.accept_loss {
        true => disk.accept_loss(report_damage()),
        false => disk,
    };
    disk.compress(tier.compress)
        .mode(match tier.mode {
            options::TierMode::Store => TierMode::Store,
            options::TierMode::Cache => TierMode::Cache,
        })
        .admission(match tier.admission {
            options::TierAdmission::Reused => larder::Admission::Reused,
            options::TierAdmission::All => larder::Admission::All,
        })
        .item_bytes_min(tier.item_bytes_min)
        .durability(match tier.durability {
            options::Durability::Sync => larder::Durability::Sync,
            options::Durability::Interval(interval) => larder::Durability::Interval(interval),
            options::Durability::Async => larder::Durability::Async,
        })
        .wait(tier.wait)
        .stop(tier.stop)
        .dirty_bytes(tier.dirty_bytes)
        .progress(report(progress))
        .before_change(move || before_change())
}

/// Logs the damaged places of a log whose loss is accepted, up to a maximum number.
fn report_damage() -> impl Fn(&TierDamage) + Send + Sync + 'static {
    let said = AtomicU64::new(0);
    move |damage| match said.fetch_add(1, Relaxed) {
        ..DAMAGES_MAX => log::warn(format_args!("larderd: damaged: {damage}")),
        DAMAGES_MAX => log::warn(format_args!("larderd: more places are damaged")),
        _ => {}
    }
}

/// Logs what a start with --tier-accept-loss has lost.
fn report_loss(path: &str, started: &TierStarted, is_accepted: bool) {
    match started.accepted {
        Some(lost) => log::warn(format_args!(
            "larderd: directory {path}: {} of the log damaged, {} not read; dropped, as \
             --tier-accept-loss allows: {} that may have been out of date",
            CountedNoun(lost.damages, "place"),
            CountedNoun(lost.lost_bytes, "byte"),
            CountedNoun(lost.doubtful, "item"),
        )),
        None if is_accepted => log::warn(format_args!(
            "larderd: directory {path}: nothing was lost: leave --tier-accept-loss out from now \
             on, because it accepts any later loss"
        )),
        None => {}
    }
}

/// Maximum number of damaged places that are logged.
const DAMAGES_MAX: u64 = 100;

/// Records how much of the log or the index has been read, and logs it every few seconds.
fn report(progress: Progress) -> impl Fn(usize, usize) + Send + Sync + 'static {
    let logged = Mutex::new(Instant::now());
    move |done, total| {
        progress.note(done, total);
        let mut logged = logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.elapsed() >= PROGRESS_PERIOD && total > 0 {
            *logged = Instant::now();
            let percent = done * 100 / total;
            log::info(format_args!("larderd: reading the directory: {percent} %"));
        }
    }
}

/// Stops the directory's log. Returns how many bytes of changes are not on the disk.
pub(crate) fn stop(cache: &Cache) -> u64 {
    report_left(cache, cache.stop_tier())
}

/// Same as [`stop`], but for another process that takes over the directory.
pub(crate) fn hand_over(cache: &Cache) -> u64 {
    report_left(cache, cache.hand_tier_over())
}

/// Logs what an aborted stop has not written.
pub(crate) fn report_unwritten(cache: &Cache) {
    let dirty_bytes = cache.tier().map_or(0, |tier| tier.statistics.dirty_bytes);
    report_left(cache, dirty_bytes.max(u64::from(is_cache(cache))));
}

fn report_left(cache: &Cache, left: u64) -> u64 {
    if left > 0 {
        let why = cache.tier().and_then(|status| status.trouble);
        let why = why.unwrap_or_else(|| "the disk did not answer in time".to_owned());
        match is_cache(cache) {
            false => log::error(format_args!(
                "larderd: {left} bytes of changes are not on the disk and are lost: {why}"
            )),
            true => log::warn(format_args!(
                "larderd: the index of the disk is not written, so the next start begins empty: {why}"
            )),
        }
    }
    left
}

fn is_cache(cache: &Cache) -> bool {
    cache.tier().is_some_and(|status| status.mode == TierMode::Cache)
}

/// A smaller lag of the clock is not logged.
const SKEW_SECS_MIN: u64 = 60;

const PROGRESS_PERIOD: Duration = Duration::from_secs(2);
