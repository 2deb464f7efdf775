//! The directory of `--tier-path`, which keeps items on disk.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use larder::{Builder, Cache, OpenError, TierMode};
use larder_options::{self as options, Options};

use crate::clock::Stopwatch;
use crate::log;
use crate::server::progress::Progress;

/// The directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("option --tier-path: {0}")]
pub struct DiskTierError(OpenError);

/// Opens the cache with the items of the directory, and logs how many there are.
///
/// # Errors
/// [`DiskTierError`]: the directory or its log cannot be used.
pub(crate) fn open(
    builder: Builder,
    tier: &options::DiskTier,
    options: &Options,
    progress: &Progress,
) -> Result<Cache, DiskTierError> {
    let stopwatch = Stopwatch::start();
    let disk = larder::DiskTier::new(&tier.path, tier.bytes)
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
        .progress(report(progress.clone()));
    let open = |builder: Builder| builder.tier(disk).open();
    // Room to grow costs only address space, but locked memory does not allow it.
    let cache = match options.lock_memory {
        true => open(builder),
        false => open(builder.memory_bytes_max(options.memory_bytes * super::open::GROWTH_MAX)),
    };
    let cache = cache.map_err(DiskTierError)?;
    let ms = stopwatch.elapsed_us() as f64 / 1000.0;
    if let Some(status) = cache.tier() {
        let items = status.started.items;
        let source = if status.started.is_from_index { ", from its index" } else { "" };
        log::say(format_args!(
            "larderd: directory {}: opened in {ms:.1} ms, with {items} items{source}",
            tier.path.display(),
        ));
        if let Some(caution) = status.caution {
            let path = tier.path.display();
            log::say(format_args!("larderd: directory {path}: {caution}"));
        }
        if let Some(cut) = status.started.cut {
            log::say(format_args!("larderd: the last stop was not clean; the log ends at {cut}",));
        }
    }
    Ok(cache)
}

/// Notes how much of the log or the index is read, and logs it every few seconds.
fn report(progress: Progress) -> impl Fn(usize, usize) + Send + Sync + 'static {
    let logged = Mutex::new(Instant::now());
    move |done, total| {
        progress.note(done, total);
        let mut logged = logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.elapsed() >= PROGRESS_PERIOD && total > 0 {
            *logged = Instant::now();
            let percent = done * 100 / total;
            log::say(format_args!("larderd: reading the directory: {percent} %"));
        }
    }
}

/// Logs once that the log has failed.
pub(crate) fn report_failure(cache: &Cache, has_reported: &mut bool) {
    if !*has_reported && cache.has_tier_failed() {
        *has_reported = true;
        let why = cache.tier().and_then(|status| status.trouble).unwrap_or_default();
        let effect = match is_cache(cache) {
            false => "the server takes no more changes, and still answers gets",
            true => "the disk takes no more items, and the cache continues in memory",
        };
        log::say(format_args!(
            "larderd: the disk has failed: {why}; {effect}; repair the disk and start the server \
             again",
        ));
    }
}

/// Stops the directory's log. Returns the bytes of changes that are not on the disk.
pub(crate) fn stop(cache: &Cache) -> u64 {
    report_left(cache, cache.stop_tier())
}

/// As [`stop`], for another process that takes the directory over.
pub(crate) fn hand_over(cache: &Cache) -> u64 {
    report_left(cache, cache.hand_tier_over())
}

fn report_left(cache: &Cache, left: u64) -> u64 {
    if left > 0 {
        let why = cache.tier().and_then(|status| status.trouble);
        let why = why.unwrap_or_else(|| "the disk did not answer in time".to_owned());
        match is_cache(cache) {
            false => log::say(format_args!(
                "larderd: {left} bytes of changes are not on the disk and are lost: {why}"
            )),
            true => log::say(format_args!(
                "larderd: the index of the disk is not written, so the next start begins empty: {why}"
            )),
        }
    }
    left
}

fn is_cache(cache: &Cache) -> bool {
    cache.tier().is_some_and(|status| status.mode == TierMode::Cache)
}

const PROGRESS_PERIOD: Duration = Duration::from_secs(2);
