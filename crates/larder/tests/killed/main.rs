//! A process is killed at any instruction of any operation: a valid cache remains, and no process
//! waits for the dead one.
//!
//! A child performs one operation, one instruction at a time. After each instruction that changed
//! the memory, a copy of the memory shows the state that a kill at this point would leave: its row
//! is still attached, and no process holds its lock. Each copy is judged twice: by a process that
//! opens it later, and by a process that was attached all the time. Some children are really
//! killed, to show that the copies match the state after a kill.
//!
//! `LARDER_KILLED=all` judges every copy (`make crash`). `LARDER_KILLED=1000` judges about 1000
//! copies of each operation, drawn anew each time. The default is a fixed sample.
//! `LARDER_KILLED_SEED` selects another sample; an argument selects the operations with that part
//! in their name.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod judge;
mod operations;
mod tracer;
mod victim;

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use judge::{Allowed, Judge, Random, contents};
use larder_region::Memory;
use larder_testkit::memory_folder;
use operations::{OPERATIONS, Operation};
use tracer::Tracee;
use victim::{MEMORY_BYTES, Victim, open};

/// The extent of the test.
struct Plan {
    seed: u64,
    /// Largest number of judged copies of each operation; `None` for all.
    judged_max: Option<u64>,
    /// Number of children of each operation that are really killed.
    killed: u64,
    /// Number of long-stopped children of each operation beside which other processes continue.
    stopped: u64,
    /// Number of copies of each operation that are repaired one instruction at a time.
    repaired: u64,
}

fn main() {
    if let Some((name, victim)) = victim::of_environment() {
        return play(&name, &victim);
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let seed = std::env::var("LARDER_KILLED_SEED").ok().and_then(|seed| seed.parse().ok());
    let asked = std::env::var("LARDER_KILLED").ok();
    let plan = match asked.as_deref() {
        Some(copies) => {
            let anew =
                || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
            let seed = seed.unwrap_or_else(anew);
            let number = || {
                let number = copies.parse().ok().filter(|number| *number > 0);
                number.expect("LARDER_KILLED is `all` or a number of copies, at least 1")
            };
            let judged_max = (copies != "all").then(number);
            Plan { seed, judged_max, killed: 20, stopped: 12, repaired: 4 }
        }
        None => {
            let seed = seed.unwrap_or(1);
            Plan { seed, judged_max: Some(40), killed: 1, stopped: 1, repaired: 1 }
        }
    };
    println!("LARDER_KILLED_SEED={}", plan.seed);
    let is_wanted = |operation: &&Operation| match wanted.is_empty() {
        true => asked.is_some() || !operation.is_long,
        false => wanted.iter().any(|part| operation.name.contains(part)),
    };
    let chosen: Vec<&Operation> = OPERATIONS.iter().filter(is_wanted).collect();
    assert!(!chosen.is_empty(), "no operation has one of these names: {wanted:?}");
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(8) {
            scope.spawn(|| {
                while let Some(operation) = chosen.get(next.fetch_add(1, Relaxed)) {
                    let begun = Instant::now();
                    match Trial::of(operation, &plan).run() {
                        Ok(said) => {
                            println!("{} … {said}, {:.1?}", operation.name, begun.elapsed())
                        }
                        Err(why) => {
                            failed.fetch_add(1, Relaxed);
                            println!("{} … FAILED: {why}", operation.name);
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    assert_eq!(failed, 0, "operations left an invalid cache");
}

fn play(name: &str, victim: &Victim) {
    if name == REPAIR {
        drop(victim.steps(|| open(&victim.path)));
    } else {
        let operation = OPERATIONS.iter().find(|operation| operation.name == name);
        (operation.unwrap().act)(victim);
    }
}

/// Largest number of times that a sample checks for changes of the index or the segment headers.
const LOOKS_MAX: u64 = 100_000;

/// The name under which a victim repairs the state that another one left.
const REPAIR: &str = "repair";

/// One operation and its test data.
struct Trial<'a> {
    name: &'a str,
    plan: &'a Plan,
    folder: tempfile::TempDir,
    /// The region before the operation.
    base: Vec<u8>,
    allowed: Allowed,
    random: Random,
    /// Copies at the instructions where children are killed.
    kept: Vec<(u64, Vec<u8>)>,
}

/// The result of stepping through an operation.
struct Stepped {
    steps: u64,
    changes: u64,
    judged: u64,
}

impl<'a> Trial<'a> {
    fn of(operation: &'a Operation, plan: &'a Plan) -> Self {
        let folder = memory_folder();
        let path = folder.path().join("prepared");
        let detail = (operation.prepare)(&path);
        let base = fs::read(&path).unwrap();
        let before = contents(&open(&path), &detail);
        let undisturbed = Victim { path: path.clone(), detail: detail.clone(), is_traced: false };
        (operation.act)(&undisturbed);
        let after = contents(&open(&path), &detail);
        let allowed = Allowed { before, after, evicts: operation.evicts, detail };
        let random = Random(plan.seed | 1);
        Self { name: operation.name, plan, folder, base, allowed, random, kept: Vec::new() }
    }

    fn run(&mut self) -> Result<String, String> {
        let total = self.count_steps();
        let kills: Vec<u64> = (0..self.plan.killed).map(|_| self.random.below(total)).collect();
        let repaired: Vec<u64> =
            (0..self.plan.repaired).map(|_| self.random.below(total)).collect();
        let gap = self.plan.judged_max.map_or(1, |max| (total / max).max(1));
        let stepped = self.step_through(self.name, gap, &kills, &repaired)?;
        let mut same = 0;
        for at in &kills {
            same += u64::from(self.kill_at(*at)?);
        }
        let stops: Vec<u64> = (0..self.plan.stopped).map(|_| self.random.below(total)).collect();
        let mut slowest = Duration::ZERO;
        for at in stops {
            slowest = slowest.max(self.stop_at(at)?);
        }
        let repairs = self.repair(&repaired)?;
        let Stepped { steps, changes, judged } = stepped;
        let killed = kills.len();
        Ok(format!(
            "{steps} instructions, {changes} changes seen, {judged} judged; {killed} killed, {same} of them in the same state; {repairs}; beside a stopped process an operation took {slowest:.1?}"
        ))
    }

    /// Creates a file with the original region, and a cache that uses it.
    fn begin(&self, region: &[u8]) -> (std::path::PathBuf, larder::Cache) {
        let path = self.folder.path().join("stepped");
        fs::write(&path, region).unwrap();
        let witness = open(&path);
        witness.get("nobody's");
        (path, witness)
    }

    fn count_steps(&self) -> u64 {
        let (path, _witness) = self.begin(&self.base);
        let mut tracee = Tracee::start(self.name, &path, &self.allowed.detail);
        while tracee.step() {}
        tracee.steps
    }
}

impl Trial<'_> {
    /// Steps through the operation and judges the state after each change.
    fn step_through(
        &mut self,
        name: &str,
        gap: u64,
        kept: &[u64],
        repaired: &[u64],
    ) -> Result<Stepped, String> {
        let (path, witness) = self.begin(&self.base.clone());
        let mut seen = Copy::of(&path);
        let mut tracee = Tracee::start(name, &path, &self.allowed.detail);
        let mut judge = Judge::new(self.folder.path(), self.plan.seed);
        let (mut changes, mut judged) = (0, 0);
        let (mut next, mut next_look) = (self.random.below(gap) + 1, 1);
        let look_gap = self.plan.judged_max.map_or(1, |max| gap * max / LOOKS_MAX + 1);
        loop {
            let goes_on = tracee.step();
            let step = tracee.steps;
            let is_kept = kept.contains(&step) || repaired.contains(&step);
            let is_due = step >= next || is_kept || !goes_on;
            if !is_due && (step < next_look || !seen.has_index_changed()) {
                continue;
            }
            if step >= next {
                next = step + 1 + self.random.below(2 * gap - 1);
            }
            next_look = step + 1 + self.random.below(2 * look_gap - 1);
            let is_changed = seen.update();
            changes += u64::from(is_changed);
            // The more copies there are, the fewer of them are judged.
            let often = self.plan.judged_max.map_or(0, |max| 2 * judged / max);
            if is_changed && self.random.below(1 + often * often) == 0 {
                judged += 1;
                let verdict = judge
                    .later(&seen.bytes, &self.allowed)
                    .and_then(|()| judge.survivor(&self.base, &seen.bytes, &self.allowed));
                verdict.map_err(|why| self.report(&why, &tracee, &seen.bytes))?;
            }
            if is_kept {
                self.kept.push((step, seen.bytes.clone()));
            }
            if !goes_on {
                break;
            }
        }
        drop(witness);
        Ok(Stepped { steps: tracee.steps, changes, judged })
    }

    fn report(&self, why: &str, tracee: &Tracee, region: &[u8]) -> String {
        let left = std::env::temp_dir().join(format!("larder-killed-{}", self.name));
        let _ = fs::write(&left, region);
        let (step, place) = (tracee.steps, tracee.place());
        format!(
            "{why}\n  killed after instruction {step}, at {place} of this program; the region is in {left:?}"
        )
    }

    /// Kills a child at an instruction. True if the memory equals the copy made at the same
    /// instruction.
    fn kill_at(&mut self, at: u64) -> Result<bool, String> {
        let (path, witness) = self.begin(&self.base);
        let mut tracee = Tracee::start(self.name, &path, &self.allowed.detail);
        while tracee.steps < at && tracee.step() {}
        tracee.kill();
        let left = fs::read(&path).unwrap();
        let is_same = self.kept.iter().any(|(step, copy)| *step == at && is_same(copy, &left));
        let mut judge = Judge::new(self.folder.path(), self.plan.seed);
        let cache = open(&path);
        let verdict = judge.judge(&cache, &self.allowed);
        drop(witness);
        verdict.map_err(|why| format!("{why}\n  really killed after instruction {at}"))?;
        Ok(is_same)
    }

    /// Stops a child at an instruction: other processes may be refused, but must not wait long.
    /// Then lets it finish.
    fn stop_at(&mut self, at: u64) -> Result<Duration, String> {
        let (path, witness) = self.begin(&self.base);
        let mut tracee = Tracee::start(self.name, &path, &self.allowed.detail);
        while tracee.steps < at && tracee.step() {}
        let slowest = judge::go_on_beside(&witness, &mut self.random).map_err(|why| {
            format!("{why}\n  stopped after instruction {at}, {}", tracee.place())
        })?;
        tracee.kill();
        witness.maintain();
        let valid = witness.validate();
        valid.map_err(|broken| format!("{broken}\n  killed when stopped after {at}"))?;
        Ok(slowest)
    }

    /// Kills processes that repair the state left at some instructions.
    fn repair(&mut self, at: &[u64]) -> Result<String, String> {
        let left: Vec<(u64, Vec<u8>)> =
            self.kept.iter().filter(|(step, _)| at.contains(step)).cloned().collect();
        let (mut steps, mut judged) = (0, 0);
        for (step, region) in left {
            let path = self.folder.path().join("repaired");
            fs::write(&path, &region).unwrap();
            let gap = self.plan.judged_max.map_or(7, |max| 60_000 / max);
            let mut seen = Copy::of(&path);
            let mut judge = Judge::new(self.folder.path(), self.plan.seed);
            let mut tracee = Tracee::start(REPAIR, &path, "");
            while tracee.step() {
                let is_due = self.random.below(gap) == 0 || seen.has_index_changed();
                if is_due && seen.update() {
                    judged += 1;
                    let verdict = judge.later(&seen.bytes, &self.allowed);
                    verdict.map_err(|why| {
                        let why = self.report(&why, &tracee, &seen.bytes);
                        format!("{why}\n  while repairing the state after instruction {step}")
                    })?;
                }
            }
            steps += tracee.steps;
        }
        Ok(format!("repaired in {steps} instructions, {judged} judged"))
    }
}

/// Size of a segment in a cache this small, in bytes.
const SEGMENT_BYTES: usize = 64 << 10;

/// A region that is checked for changes repeatedly.
struct Copy {
    memory: Memory,
    bytes: Vec<u8>,
    /// End of the first segment, which holds the index.
    index_end: usize,
}

impl Copy {
    fn of(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let memory = Memory::shared(&file, MEMORY_BYTES as usize).unwrap();
        let bytes = fs::read(path).unwrap();
        let index_end = bytes.len() % SEGMENT_BYTES + SEGMENT_BYTES;
        Self { memory, bytes, index_end: index_end.max(2 * SEGMENT_BYTES) }
    }

    /// True if anything but records has changed.
    fn has_index_changed(&self) -> bool {
        !self.memory.equals(0, &self.bytes[..self.index_end])
    }

    /// Copies the changes. True if there were any.
    fn update(&mut self) -> bool {
        const PART: usize = 16 << 10;
        let mut changed = false;
        for (index, part) in self.bytes.chunks_mut(PART).enumerate() {
            if !self.memory.equals(index * PART, part) {
                let mut now = Vec::with_capacity(PART);
                self.memory.read(index * PART, part.len(), &mut now);
                part.copy_from_slice(&now);
                changed = true;
            }
        }
        changed
    }
}

/// True if two regions are equal except for the process ids of their peers.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    use larder_region::layout::{PEER_BYTES, global};
    let is_id = |at: usize| {
        let peer = at.wrapping_sub(global::END);
        peer < 16 * PEER_BYTES && (8..16).contains(&(peer % PEER_BYTES))
    };
    one.len() == other.len() && (0..one.len()).all(|at| one[at] == other[at] || is_id(at))
}
