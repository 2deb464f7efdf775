//! The disk of `--tier-path`: full, failed, slow, damaged, or unsuitable for its options.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use larder::TierCaution;
use larder_loadgen::argument::counted;
use rustix::fs::statvfs;

use super::facts::Facts;
use super::{Finding, Rule, percent};

pub(super) const RULES: &[Rule] = &[
    has_failed,
    is_nearly_full,
    has_a_full_index,
    has_a_small_index,
    drops_items,
    is_unreadable,
    syncs_slowly,
    lies_on_another_file_system,
    exceeds_its_file_system,
    is_stopped_too_early,
    has_an_earlier_clock,
];

fn has_failed(facts: &Facts) -> Option<Finding> {
    (facts.number("tier_failed") == 1).then(|| {
        let effect = match is_store(facts) {
            true => "the server takes no changes",
            false => "the cache continues in memory only",
        };
        let path = facts.setting("tier_path");
        let sentence = format!(
            "a write or a sync of {path} has failed, so {effect}; the log of the server has the \
             reason. Repair the disk, then restart the server"
        );
        Finding::new("disk-failed", sentence)
    })
}

fn is_nearly_full(facts: &Facts) -> Option<Finding> {
    let (live, most) = (facts.number("tier_live_bytes"), facts.number("tier_live_bytes_max"));
    let share = percent(live, most);
    (share >= FULL_PERCENT_MIN).then(|| {
        let megabytes = most >> 20;
        let sentence = format!(
            "live items take {share} % of the {megabytes} MiB that the log on disk can hold; at \
             100 % stores fail. Restart with a larger --tier-size, or let items expire earlier"
        );
        Finding::new("disk-full", sentence)
    })
}

fn has_a_full_index(facts: &Facts) -> Option<Finding> {
    let (bytes, most) = (facts.number("tier_index_bytes"), facts.number("tier_index_bytes_max"));
    let share = percent(bytes, most);
    (share >= FULL_PERCENT_MIN).then(|| {
        let (items, megabytes) = (facts.number("tier_items"), most >> 20);
        let effect = match is_store(facts) {
            true => "stores of new keys fail",
            false => "the disk drops its oldest items",
        };
        let sentence = format!(
            "the index of the {items} items on disk takes {share} % of the {megabytes} MiB that it \
             may take of -m; at 100 % {effect}. Raise -m"
        );
        Finding::new("disk-index-full", sentence)
    })
}

/// When the disk is full of items of the current size, each item needs 12.5 bytes of index.
fn has_a_small_index(facts: &Facts) -> Option<Finding> {
    let (items, index_max) = (facts.number("tier_items"), facts.number("tier_index_bytes_max"));
    let item_bytes = (facts.number("tier_live_bytes") / items.max(1)).max(1);
    let room = match facts.number("tier_live_bytes_max") {
        0 => facts.number("tier_size_bytes"),
        room_of_store => room_of_store,
    };
    let most = room / item_bytes;
    let needed = most.saturating_mul(25) / 2;
    (items >= ITEMS_MIN && needed > index_max).then(|| {
        let memory = u128::from(facts.number("limit_maxbytes"));
        let raised = (memory * u128::from(needed) / u128::from(index_max.max(1))) >> 20;
        let (needed, index_max) = (needed >> 20, index_max >> 20);
        let sentence = format!(
            "the disk has space for {most} items of {item_bytes} bytes, the current average, and \
             their index would need {needed} MiB, but its limit is {index_max} MiB of -m. Raise -m \
             to {raised} MiB, or lower --tier-size for a new directory"
        );
        Finding::new("disk-index-small", sentence)
    })
}

fn drops_items(facts: &Facts) -> Option<Finding> {
    let (dropped, kept) = (facts.number("tier_items_dropped"), facts.number("tier_items_evicted"));
    let share = percent(dropped, dropped + kept);
    let has_failed = facts.number("tier_failed") == 1;
    (!has_failed && dropped >= DROPPED_MIN && share >= DROPPED_PERCENT_MIN).then(|| {
        let sentence = format!(
            "{dropped} of the items that memory evicted were lost ({share} %), because the disk \
             tier could not take them at that moment. Use a faster disk, raise --tier-dirty-bytes \
             or -m, or write less with --tier-admit reused"
        );
        Finding::new("disk-drops", sentence)
    })
}

fn is_unreadable(facts: &Facts) -> Option<Finding> {
    let (items, segments, lost) = (
        facts.number("tier_items_unreadable"),
        facts.number("tier_segments_damaged"),
        facts.number("tier_items_lost"),
    );
    let seen = [
        (items, format!("the disk did not return {}", counted(items, "item"))),
        (segments, format!("reclaim found {} damaged", counted(segments, "segment"))),
        (lost, format!("{} lost until set or deleted", counted(lost, "item"))),
    ];
    let seen: Vec<_> = seen.into_iter().filter(|(count, _)| *count > 0).map(|it| it.1).collect();
    (!seen.is_empty()).then(|| {
        let path = facts.setting("tier_path");
        let sentence = format!(
            "{path}: {}. Look for errors of the device in the kernel's log. docs/runbook.md, \
             LarderDiskUnreadable, describes the next steps",
            seen.join(", "),
        );
        Finding::new("disk-unreadable", sentence)
    })
}

/// With durability sync the response to every change waits for a sync.
fn syncs_slowly(facts: &Facts) -> Option<Finding> {
    let syncs = facts.number("tier_syncs");
    let mean_us = facts.number("tier_sync_us").checked_div(syncs)?;
    let waits = is_store(facts) && facts.setting("durability") == "sync";
    (waits && syncs >= SYNCS_MIN && mean_us >= SYNC_US_MIN).then(|| {
        let millis = mean_us / 1000;
        let sentence = format!(
            "a sync of the disk takes {millis} ms on average, and with --durability sync each \
             change waits for one. Use a disk whose cache survives a power loss, or \
             --durability interval=100 if the last 200 ms may be lost"
        );
        Finding::new("disk-slow", sentence)
    })
}

fn lies_on_another_file_system(facts: &Facts) -> Option<Finding> {
    let caution = TierCaution::at(&directory(facts)?).ok()??;
    let path = facts.setting("tier_path");
    let sentence = format!("{path} does not suit a disk tier: {caution}");
    Some(Finding::new("disk-file-system", sentence))
}

fn exceeds_its_file_system(facts: &Facts) -> Option<Finding> {
    let directory = directory(facts)?;
    let taken = fs::metadata(directory.join("log")).ok()?.blocks() * BLOCK_BYTES;
    let system = statvfs(&directory).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let missing = facts.number("tier_size_bytes").saturating_sub(taken);
    (missing > free).then(|| {
        let (path, missing, free) = (facts.setting("tier_path"), missing >> 20, free >> 20);
        let effect = match is_store(facts) {
            true => "stores fail when it is used up",
            false => "evicted items are lost when it is used up",
        };
        let sentence = format!(
            "the log in {path} may still grow by {missing} MiB, and its file system has {free} MiB \
             free: {effect}. Free space there, or move the directory to a larger file system"
        );
        Finding::new("disk-space", sentence)
    })
}

fn is_stopped_too_early(facts: &Facts) -> Option<Finding> {
    let directory = facts.setting("tier_path");
    let (unit, limit) = facts.process.as_ref().filter(|_| !directory.is_empty())?.stop_limit()?;
    let stop_secs: u64 = facts.setting("tier_stop_secs").parse().ok()?;
    (limit.as_secs() <= stop_secs).then(|| {
        let limit = limit.as_secs();
        let sentence = format!(
            "systemd kills {unit} {limit} s after it was asked to stop, while the server waits up \
             to {stop_secs} s for the disk: set TimeoutStopSec={} in the unit, or lower \
             --tier-stop-secs",
            stop_secs + 30
        );
        Finding::new("disk-stop", sentence)
    })
}

fn has_an_earlier_clock(facts: &Facts) -> Option<Finding> {
    let behind_secs = facts.number("tier_clock_behind_secs");
    (behind_secs >= BEHIND_SECS_MIN).then(|| {
        let sentence = format!(
            "when the server started, the system's clock was {behind_secs} s behind the time at \
             which its directory was last written; items keep the time to live that they had then. \
             Check the clock; if it is wrong, set it and start the server again"
        );
        Finding::new("disk-clock", sentence)
    })
}

fn is_store(facts: &Facts) -> bool {
    facts.setting("tier_mode") == "store"
}

/// Returns the path by which this process reaches the directory. Returns `None` without a disk
/// tier, or if the server runs on another machine.
fn directory(facts: &Facts) -> Option<PathBuf> {
    let path = Some(facts.setting("tier_path")).filter(|path| !path.is_empty())?;
    Some(facts.process.as_ref()?.path(path))
}

const FULL_PERCENT_MIN: u64 = 90;

/// A smaller difference of the clock is not reported, here or in the log of the server.
const BEHIND_SECS_MIN: u64 = 60;

/// The mean length of fewer items is not representative.
const ITEMS_MIN: u64 = 10_000;

const DROPPED_MIN: u64 = 1000;
const DROPPED_PERCENT_MIN: u64 = 5;

/// The mean time of fewer syncs is not representative.
const SYNCS_MIN: u64 = 100;

/// The time of a sync that is reported as slow, in microseconds: that of a spinning disk.
const SYNC_US_MIN: u64 = 10_000;

/// The unit of a file's blocks, whatever its file system.
const BLOCK_BYTES: u64 = 512;
