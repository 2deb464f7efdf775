//! `larder inspect`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use larder::{Dumped, Inspection, SegmentReport};

use larder_loadgen::argument::{Quoted, counted, whole};

use crate::outcome::Outcome;
use crate::{disk_tier, source, units};

/// Describe a cache in a file, even while it is in use, or the directory of a disk tier
///
/// Changes nothing, and does not disturb the processes that use the cache.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The file of the cache: the --memory-file of larderd, or the path that a program passed to
    /// the library; or the directory of --tier-path, while no server uses it
    path: PathBuf,
    /// List keys with this prefix; an empty prefix lists all
    #[arg(long, value_name = "PREFIX")]
    keys: Option<String>,
    /// List at most this many keys
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = whole(0..=usize::MAX))]
    limit: usize,
    /// List this many of the largest items
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = whole(0..=usize::MAX))]
    largest: usize,
    /// List the segments, one per line
    #[arg(long)]
    segments: bool,
}

const AFTER_HELP: &str = "\
Examples:
  larder inspect /dev/shm/larder
  larder inspect /dev/shm/larder --segments
  larder inspect /var/lib/larder/store
  larder inspect /dev/shm/larder --keys user: --limit 20

Exit code: 0 done; 2 bad usage, or the file or directory cannot be used.";

/// Runs `larder inspect`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    if arguments.path.is_dir() {
        return disk_tier::inspect(&arguments.path);
    }
    let inspection = source::memory_file(&arguments.path)?;
    let mut out = io::stdout().lock();
    describe(&inspection, &mut out)?;
    describe_peers(&inspection, &mut out)?;
    describe_segments(&inspection, arguments.segments, &mut out)?;
    list_items(&inspection, arguments, &mut out)?;
    Ok(Outcome::Done)
}

fn describe(inspection: &Inspection, out: &mut impl Write) -> Result<()> {
    let report = inspection.report();
    let mut line = |name: &str, value: String| writeln!(out, "{name:12}{value}");
    line("path", inspection.path().display().to_string())?;
    line("identity", format!("{:032x}", inspection.identity()))?;
    let age = match inspection.is_of_this_boot() {
        true => format!("{} ago", duration(u64::from(inspection.now().saturating_sub(2)))),
        false => "before this system was booted: no process can use it any more".to_owned(),
    };
    line("made", format!("{}, {age}", units::date(inspection.made_unix_secs())))?;
    let segment = bytes(report.segment_bytes);
    let memory = bytes(report.memory_bytes);
    line("memory", format!("{memory} in {} of {segment}", counted(report.segments, "segment")))?;
    let tokens = if inspection.keeps_versions() { "with" } else { "without" };
    line("items", format!("{}, {tokens} cas tokens", report.items))?;
    let fill = percent(report.live_bytes, report.segments_items * report.segment_bytes);
    line("live", format!("{}, {fill} of the segments that hold items", bytes(report.live_bytes)))?;
    let slots = (report.groups + report.overflow_groups) * 15;
    let load = percent(report.items, slots);
    line(
        "index",
        format!(
            "{} in {} and {}, {load} filled",
            bytes(report.index_bytes),
            counted(report.groups, "group"),
            counted(report.overflow_groups, "overflow group")
        ),
    )?;
    if report.oldest > 0 {
        let age = inspection.now().saturating_sub(report.oldest);
        line("oldest", format!("a segment begun {} ago", duration(u64::from(age))))?;
    }
    Ok(())
}

fn describe_peers(inspection: &Inspection, out: &mut impl Write) -> Result<()> {
    let peers = inspection.peers();
    if peers.is_empty() {
        writeln!(out, "processes   none")?;
    } else if !inspection.knows_liveness() {
        writeln!(out, "processes   unknown: the file cannot be locked")?;
    }
    for peer in peers {
        let lives = match (inspection.knows_liveness(), peer.lives) {
            (false, _) => "attached",
            (true, true) => "uses it",
            (true, false) => "died; the next process that opens the cache repairs its state",
        };
        let pinned = match peer.report.pinned_segments {
            0 => String::new(),
            pinned => format!(", holds {}", counted(pinned, "segment")),
        };
        writeln!(out, "process     {} {lives}{pinned}", peer.report.process_id)?;
    }
    Ok(())
}

fn describe_segments(inspection: &Inspection, each: bool, out: &mut impl Write) -> Result<()> {
    let report = inspection.report();
    let mut by_use: BTreeMap<(&str, &str), (u64, u64, u64)> = BTreeMap::new();
    for segment in inspection.segments() {
        let (count, items, live) = by_use.entry((segment.state, pool(&segment))).or_default();
        *count += 1;
        *items += segment.items;
        *live += segment.live_bytes as u64;
    }
    let used: u64 = by_use.values().map(|(count, ..)| count).sum();
    writeln!(out, "\nsegments    pool    count       items        live")?;
    for ((state, pool), (count, items, live)) in by_use {
        writeln!(out, "{state:12}{pool:6}{count:7}{items:12}{:>12}", bytes(live))?;
    }
    writeln!(out, "{:12}{:6}{:7}", "never used", "", report.segments.saturating_sub(used))?;
    if each {
        writeln!(out, "\n number state     pool  class  begun ago   filled    live       items")?;
        for segment in inspection.segments() {
            let age = segment.begun.map_or(String::new(), |begun| {
                duration(u64::from(inspection.now().saturating_sub(begun)))
            });
            let of_segment = |part: usize| percent(part as u64, report.segment_bytes);
            let note = if segment.is_suspect { " to be recounted" } else { "" };
            let note = if segment.is_taken { " taken" } else { note };
            writeln!(
                out,
                "{:7} {:9} {:6}{:5} {age:>10} {:>8}{:>8}{:12}{note}",
                segment.number,
                segment.state,
                pool(&segment),
                segment.ttl_class,
                of_segment(segment.filled_bytes),
                of_segment(segment.live_bytes),
                segment.items
            )?;
        }
    }
    Ok(())
}

fn list_items(inspection: &Inspection, arguments: &Arguments, out: &mut impl Write) -> Result<()> {
    let mut largest: Vec<Dumped> = Vec::new();
    let mut listed: Vec<Dumped> = Vec::new();
    let mut matching = 0_u64;
    inspection.dump(|item| {
        if arguments.keys.as_ref().is_some_and(|prefix| item.key.starts_with(prefix.as_bytes())) {
            matching += 1;
            if listed.len() < arguments.limit {
                listed.push(item.clone());
            }
        }
        keep_largest(&mut largest, item, arguments.largest);
        true
    });
    let now = inspection.now();
    let mut show = |item: &Dumped| {
        let ttl = match item.meta.deadline.0 {
            0 => "forever".to_owned(),
            deadline => format!("for {}", duration(u64::from(deadline.saturating_sub(now)))),
        };
        writeln!(out, "{:>12}  {ttl:>14}  {}", item.meta.value_bytes, item.key.escape_ascii())
    };
    if !largest.is_empty() {
        writeln!(io::stdout(), "\nlargest items: bytes of the value, TTL, key")?;
        largest.iter().try_for_each(&mut show)?;
    }
    if let Some(prefix) = &arguments.keys {
        writeln!(
            io::stdout(),
            "\n{} of {} with the prefix {}",
            listed.len(),
            counted(matching, "key"),
            Quoted::text(prefix)
        )?;
        listed.iter().try_for_each(&mut show)?;
    }
    Ok(())
}

/// Keeps the items with the longest values, in descending order.
fn keep_largest(largest: &mut Vec<Dumped>, item: Dumped, count: usize) {
    let place = largest.partition_point(|kept| kept.meta.value_bytes >= item.meta.value_bytes);
    if place < count {
        largest.insert(place, item);
        largest.truncate(count);
    }
}

fn pool(segment: &SegmentReport) -> &'static str {
    match (segment.begun, segment.is_small) {
        (None, _) => "",
        (Some(_), true) => "small",
        (Some(_), false) => "main",
    }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{} %", (part * 100).checked_div(whole).unwrap_or(0))
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn duration(secs: u64) -> String {
    match secs {
        0..120 => format!("{secs} s"),
        120..7200 => format!("{} min", secs / 60),
        7200..172_800 => format!("{} h", secs / 3600),
        _ => format!("{} days", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_shown_in_a_readable_unit() {
        assert_eq!([bytes(9000), bytes(65_536), bytes(1 << 30)], ["9000 B", "64 KiB", "1024 MiB"]);
        assert_eq!([duration(90), duration(3600), duration(90_000)], ["90 s", "60 min", "25 h"]);
        assert_eq!(percent(1, 0), "0 %");
    }
}
