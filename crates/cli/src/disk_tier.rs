//! `larder fsck` and `larder inspect` for the directory of a disk tier.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use larder::{TierError, TierFindings, TierInspection, TierItem, TierMode};

use larder_loadgen::argument::counted;

use crate::outcome::Outcome;
use crate::transfer::{DirectoryProgress, Progress, now_unix_secs, report, summary};
use crate::units;

/// Reads the directory's log to its end.
pub(crate) fn fsck(path: &Path) -> Result<Outcome> {
    let mut out = std::io::stdout().lock();
    let started = Instant::now();
    let directory = TierInspection::open(path)?;
    let findings = match read(&directory) {
        Ok(findings) => findings,
        Err(error @ TierError::Start(_)) => {
            show_damage(&directory, &error)?;
            return Ok(Outcome::Missed);
        }
        Err(error) => return Err(error.into()),
    };
    let TierFindings { items, segments, flipped, .. } = findings;
    let took = units::duration_of(started.elapsed());
    let (items, segments) = (counted(items, "item"), counted(segments as u64, "segment"));
    let result = match flipped {
        0 => "no damage found".to_owned(),
        _ => format!(
            "{} in MANIFEST or in headers of the log; nothing is lost, and larderd corrects them \
             when it starts. Check the disk",
            counted(flipped, "flipped bit"),
        ),
    };
    writeln!(out, "checked {items} in {segments} in {took}: {result}")?;
    describe_lost(&findings, &mut out)?;
    describe_end(&directory, &findings, &mut out)?;
    Ok(if flipped == 0 { Outcome::Done } else { Outcome::Missed })
}

/// Describes the directory.
pub(crate) fn inspect(path: &Path) -> Result<Outcome> {
    let directory = TierInspection::open(path)?;
    let findings = read(&directory)?;
    let mut out = std::io::stdout().lock();
    let mut line = |name: &str, value: String| writeln!(out, "{name:12}{value}");
    line("path", directory.path().display().to_string())?;
    line("identity", format!("{:032x}", directory.identity()))?;
    line("made", date(directory.made_unix_secs()))?;
    let mode = match directory.mode() {
        TierMode::Store => "store: all items, durably",
        TierMode::Cache => "cache: what memory evicted",
    };
    line("mode", mode.to_owned())?;
    let size = directory.size_bytes();
    let segments = counted(findings.segments as u64, "segment");
    line("size", format!("{size} bytes, {segments} in use"))?;
    line("items", format!("{}, {} bytes including headers", findings.items, findings.bytes))?;
    line("dead", format!("{} that will be reclaimed", counted(findings.dead, "record")))?;
    describe_lost(&findings, &mut out)?;
    describe_end(&directory, &findings, &mut out)?;
    Ok(Outcome::Done)
}

fn describe_lost(findings: &TierFindings, out: &mut impl Write) -> Result<()> {
    if findings.lost > 0 {
        let items = counted(findings.lost, "item");
        writeln!(out, "{items} lost to earlier damage: their keys fail until set or deleted")?;
    }
    Ok(())
}

fn date(unix_secs: u64) -> String {
    units::date(i64::try_from(unix_secs).unwrap_or(i64::MAX))
}

fn describe_end(
    directory: &TierInspection,
    findings: &TierFindings,
    out: &mut impl Write,
) -> Result<()> {
    match (directory.mode(), directory.is_clean()) {
        (_, true) => writeln!(out, "the last stop was clean")?,
        (TierMode::Cache, false) => {
            writeln!(out, "the last stop was not clean: the next start is empty")?;
        }
        (TierMode::Store, false) => {
            let end = findings.cut.map(|cut| format!(": the log ends at {cut}"));
            writeln!(out, "the last stop was not clean{}", end.unwrap_or_default())?;
        }
    }
    if let Some(due) = findings.due_unix_secs {
        writeln!(out, "a flush is due: {}", date(due))?;
    }
    Ok(())
}

/// Reads the complete log in spite of damage, and reports all damage.
fn show_damage(directory: &TierInspection, first: &TierError) -> Result<(), TierError> {
    let mut progress = Progress::begin("read", Some(1), false);
    let shown = DirectoryProgress::new(&mut progress);
    let part = |done, total| shown.note_part(done, total);
    let note = |item: &TierItem<'_>, _| shown.note_item(item.key.len() + item.value.len());
    let salvaged = directory.salvage(now_unix_secs(), part, report, note)?;
    progress.clear();
    if salvaged.damages == 0 {
        eprintln!("larder: damaged: {first}");
    }
    eprint!("{}", summary(&salvaged));
    let path = directory.path().display();
    eprintln!(
        "larder: a server that must read the log of a store does not start on it. Restore the \
         directory from a backup, save the readable items with larder export {path} FILE \
         --past-damage readable, or start larderd once with --tier-accept-loss, which drops items \
         that may be out of date"
    );
    Ok(())
}

fn read(directory: &TierInspection) -> Result<TierFindings, TierError> {
    let mut progress = Progress::begin("read", Some(1), false);
    let shown = DirectoryProgress::new(&mut progress);
    let findings = directory.read(
        now_unix_secs(),
        |done, total| shown.note_part(done, total),
        |item| {
            shown.note_item(item.key.len() + item.value.len());
            true
        },
    );
    progress.clear();
    findings
}
