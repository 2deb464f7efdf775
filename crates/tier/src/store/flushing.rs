//! The flusher thread: it executes the tasks that the appender has queued, so it writes and syncs
//! the log.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Instant;

use super::appender::Job;
use super::rebuild::snapshot;
use super::settings::Durability;
use super::shared::Shared;
use super::values::training;
use crate::disk::{Directory, DiskError, PAGE_BYTES};
use crate::flusher::{FlushError, Flusher};
use crate::log::Extent;
use crate::tier::Tier;

/// The number of segment numbers per lease. A lease costs a few syncs.
pub(super) const LEASE: u64 = 4096;
/// A lease is renewed when fewer numbers are left.
const LEASE_MIN: u64 = 256;

/// Runs until the store closes or the disk fails.
pub(super) fn run<D: Directory>(shared: &Shared<D::File>, mut flusher: Flusher<D>) {
    if let Err(error) = work(shared, &mut flusher) {
        shared.fail(&error);
    }
}

fn work<D: Directory>(
    shared: &Shared<D::File>,
    flusher: &mut Flusher<D>,
) -> Result<(), FlushError> {
    while let Some(jobs) = next(shared) {
        training::install(shared, flusher)?;
        if jobs.is_empty() {
            continue;
        }
        let mut freed = Vec::new();
        // Rule: WriteInOrder
        for job in jobs {
            freed.extend(execute(shared, flusher, job)?);
        }
        let begun = Instant::now();
        let synced = flusher.sync()?;
        let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        freed.extend(synced.freed);
        shared.counts.syncs.fetch_add(1, Relaxed);
        shared.counts.sync_us.fetch_add(took_us, Relaxed);
        {
            let mut head = shared.head();
            // Rule: AnswerAfterSync
            shared.note_synced(synced.through);
            head.note_synced(synced.through);
            head.note_freed(freed);
        }
        shared.report_progress();
        let summary_bytes = flusher.write_summaries(shared.now())? * PAGE_BYTES;
        shared.counts.written_bytes.fetch_add(summary_bytes as u64, Relaxed);
        renew_lease(shared, flusher)?;
        training::note_synced(shared);
    }
    if shared.has_failed.load(Acquire) {
        return Ok(());
    }
    write_snapshot(shared, flusher.tier())?;
    let now = shared.now();
    // The system clock may have been set since the start.
    flusher.note_ahead(now.cast_signed().saturating_sub((shared.settings.wall)().cast_signed()));
    flusher.end(now)
}

/// Writes the catalog for the next start. This comes before the stop is marked as clean.
fn write_snapshot<D: Directory>(
    shared: &Shared<D::File>,
    tier: &Tier<D>,
) -> Result<(), FlushError> {
    let mut written = snapshot::write(shared, tier);
    if written.as_ref().is_err_and(DiskError::is_full) {
        // Other files may have used the space that was left for the snapshot. The store needs no
        // more extents, so the space of the free ones is returned.
        for extent in shared.head().take_ready() {
            shared.log.deallocate(extent)?;
        }
        written = snapshot::write(shared, tier);
    }
    match written {
        Err(error) if shared.is_cache => Err(error.into()),
        // The next start of a store reads the log instead.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Waits for tasks. Returns `None` when the store closes and everything is durable, or when the log
/// failed.
fn next<F>(shared: &Shared<F>) -> Option<VecDeque<Job>> {
    let durability = shared.settings.durability;
    let begun = Instant::now();
    let mut head = shared.head();
    loop {
        let is_closing = shared.is_closing.load(Acquire);
        if shared.has_failed.load(Acquire) || is_closing && !head.has_work() {
            return None;
        }
        let left = durability.pause().saturating_sub(begun.elapsed());
        let is_due = left.is_zero()
            || is_closing
            || durability == Durability::Sync
            || shared.is_urgent.swap(false, Acquire);
        if is_due {
            head.seal_unit(shared.synced(), shared.now());
        }
        if head.has_jobs() || left.is_zero() || shared.values.is_trained() {
            return Some(head.take_jobs());
        }
        head = shared.wait(&shared.work, head, left);
    }
}

/// Executes a task. Returns the extents that became free.
fn execute<D: Directory>(
    shared: &Shared<D::File>,
    flusher: &mut Flusher<D>,
    job: Job,
) -> Result<Vec<Extent>, FlushError> {
    match job {
        Job::Begin { extent, header, summary } => {
            shared.counts.written_bytes.fetch_add(PAGE_BYTES as u64, Relaxed);
            if let Some(summary) = summary {
                flusher.summarize(summary);
            }
            flusher.begin_segment(extent, &header, shared.now())?;
            shared.counts.begun_segments.fetch_add(1, Relaxed);
        }
        Job::Write(pages) => {
            shared.counts.written_bytes.fetch_add((pages.len() * PAGE_BYTES) as u64, Relaxed);
            flusher.write_sealed(&pages)?;
        }
        Job::GiveUp { extent, number, judged } => {
            shared.counts.written_bytes.fetch_add(PAGE_BYTES as u64, Relaxed);
            return Ok(flusher.give_up(extent, number, judged)?.freed);
        }
    }
    Ok(Vec::new())
}

pub(super) fn renew_lease<D: Directory>(
    shared: &Shared<D::File>,
    flusher: &mut Flusher<D>,
) -> Result<(), FlushError> {
    if shared.head().leased() < LEASE_MIN {
        let lease = flusher.lease(LEASE)?;
        shared.head().renew_lease(lease, LEASE);
        shared.progress.notify_all();
    }
    Ok(())
}
