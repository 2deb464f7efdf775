//! One operation, during which processes are killed.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use larder::Cache;
use larder_testkit::{Random, memory_folder};

use crate::judge::{self, Allowed, Judge, contents};
use crate::operations::Operation;
use crate::plan::{Plan, REPAIR};
use crate::stopped;
use crate::victim::{Victim, open};
use crate::watch::Watched;

/// One operation and its test data.
pub(crate) struct Trial<'a> {
    name: &'a str,
    plan: &'a Plan,
    folder: tempfile::TempDir,
    /// The region before the operation.
    base: Vec<u8>,
    allowed: Allowed,
    random: Random,
    /// Copies after the changes at which children are killed or at which a repair is tested.
    kept: Vec<(u64, Vec<u8>)>,
}

/// The number of changes of the region that an operation makes.
#[derive(Clone, Copy, Default)]
struct Extent {
    changes: u64,
    /// Number of changes that other processes may notice.
    reachable: u64,
    judged: u64,
}

impl<'a> Trial<'a> {
    pub(crate) fn of(operation: &'a Operation, plan: &'a Plan) -> Self {
        let folder = memory_folder();
        let path = folder.path().join("prepared");
        let detail = (operation.prepare)(&path);
        let base = fs::read(&path).unwrap();
        let before = contents(&open(&path), &detail);
        let undisturbed = Victim { path: path.clone(), detail: detail.clone(), is_traced: false };
        (operation.act)(&undisturbed);
        let after = contents(&open(&path), &detail);
        let Operation { evicts, loses, .. } = *operation;
        let allowed = Allowed { before, after, evicts, loses, detail };
        let random = Random::with_seed(plan.seed | 1);
        Self { name: operation.name, plan, folder, base, allowed, random, kept: Vec::new() }
    }

    pub(crate) fn run(&mut self) -> Result<String, String> {
        let (path, witness) = self.begin(&self.base);
        let whole = Extent::of(&mut Watched::start(self.name, &path, &self.allowed.detail));
        drop(witness);
        let mut some = |count| -> Vec<u64> {
            (0..count).map(|_| 1 + self.random.below(whole.changes)).collect()
        };
        let (kills, stops, repairs) =
            (some(self.plan.killed), some(self.plan.stopped), some(self.plan.repaired));
        let keep = [&kills[..], &repairs[..]].concat();
        let (path, witness) = self.begin(&self.base);
        let mut watched = Watched::start(self.name, &path, &self.allowed.detail);
        let Extent { changes, reachable, judged } =
            self.judge_changes(&mut watched, whole, true, &keep)?;
        drop((watched, witness));
        let mut same = 0;
        for at in &kills {
            same += u64::from(self.kill_at(*at)?);
        }
        let mut slowest = Duration::ZERO;
        for at in stops {
            slowest = slowest.max(self.stop_at(at)?);
        }
        let repairs = self.repair(&repairs)?;
        let beside = match stopped::OPERATIONS.contains(&self.name) {
            true => format!("; {}", self.stop_beside_writers()?),
            false => String::new(),
        };
        let killed = kills.len();
        Ok(format!(
            "{changes} changes, {reachable} of reachable memory, {judged} states judged; {killed} killed, {same} of them in the same state; {repairs}; with a stopped process an operation took {slowest:.1?}{beside}"
        ))
    }

    /// Creates a file with a region, and a cache that uses it.
    fn begin(&self, region: &[u8]) -> (PathBuf, Cache) {
        let path = self.folder.path().join("stepped");
        fs::write(&path, region).unwrap();
        let witness = open(&path);
        witness.get("no such key");
        (path, witness)
    }
}

impl Extent {
    /// Lets a child finish.
    fn of(watched: &mut Watched) -> Self {
        let mut extent = Self::default();
        while let Some(change) = watched.next_change() {
            extent.reachable += u64::from(change.is_reachable);
        }
        Self { changes: watched.changes, ..extent }
    }
}

impl Trial<'_> {
    /// Lets a child finish and checks the memory after its changes: each different state of the
    /// reachable memory once, or a sample of these states. `whole` is the extent of the operation.
    fn judge_changes(
        &mut self,
        watched: &mut Watched,
        whole: Extent,
        has_survivor: bool,
        keep: &[u64],
    ) -> Result<Extent, String> {
        let mut judge = Judge::new(self.folder.path(), self.plan.seed);
        let mut known = HashSet::new();
        let mut extent = Extent::default();
        while let Some(change) = watched.next_change() {
            extent.changes += 1;
            if keep.contains(&watched.changes) {
                self.kept.push((watched.changes, watched.copy.bytes.clone()));
            }
            if !change.is_reachable {
                continue;
            }
            extent.reachable += 1;
            let is_drawn = self
                .plan
                .judged_max
                .is_none_or(|max| self.random.below(whole.reachable.max(1)) < max);
            if !is_drawn || !known.insert(watched.copy.fingerprint()) {
                continue;
            }
            extent.judged += 1;
            let noisy = watched.copy.with_noise(&mut self.random);
            let copy = &watched.copy.bytes;
            let verdict = judge.later(&noisy, &self.allowed).and_then(|()| match has_survivor {
                true => judge.survivor(&self.base, copy, &self.allowed),
                false => Ok(()),
            });
            verdict.map_err(|why| self.report(&why, watched))?;
        }
        Ok(extent)
    }

    fn report(&self, why: &str, watched: &Watched) -> String {
        let left = std::env::temp_dir().join(format!("larder-killed-{}", self.name));
        let _ = fs::write(&left, &watched.copy.bytes);
        let (change, place) = (watched.changes, watched.tracee.place());
        format!(
            "{why}\n  killed after change {change}, at {place} of this program; the region is in {left:?}"
        )
    }

    /// Kills a child after a change. True if the memory equals the copy made after the same change.
    fn kill_at(&mut self, at: u64) -> Result<bool, String> {
        let (path, witness) = self.begin(&self.base);
        let mut watched = Watched::start(self.name, &path, &self.allowed.detail);
        watched.run_to(at);
        watched.tracee.kill();
        let left = fs::read(&path).unwrap();
        let is_same = self.kept.iter().any(|(change, copy)| *change == at && is_same(copy, &left));
        let mut judge = Judge::new(self.folder.path(), self.plan.seed);
        let cache = open(&path);
        let verdict = judge.judge(&cache, &self.allowed);
        drop(witness);
        verdict.map_err(|why| format!("{why}\n  really killed after change {at}"))?;
        Ok(is_same)
    }

    /// Stops a child after a change: operations of other processes may be refused, but must not
    /// wait long. Then kills the child.
    fn stop_at(&mut self, at: u64) -> Result<Duration, String> {
        let (path, witness) = self.begin(&self.base);
        let mut watched = Watched::start(self.name, &path, &self.allowed.detail);
        watched.run_to(at);
        let slowest = judge::go_on_beside(&witness, &mut self.random).map_err(|why| {
            format!("{why}\n  stopped after change {at}, {}", watched.tracee.place())
        })?;
        watched.tracee.kill();
        witness.maintain();
        let valid = witness.validate();
        valid.map_err(|broken| format!("{broken}\n  killed when stopped after {at}"))?;
        Ok(slowest)
    }

    /// Stops children, and runs writers that do not need the group that a child has locked.
    fn stop_beside_writers(&mut self) -> Result<String, String> {
        let path = self.folder.path().join("beside");
        fs::write(&path, &self.base).unwrap();
        let keys = stopped::Keys::of(&path);
        let base = fs::read(&path).unwrap();
        let (path, witness) = self.begin(&base);
        let mut watched = Watched::start(self.name, &path, &self.allowed.detail);
        let mut reachable = Vec::new();
        while let Some(change) = watched.next_change() {
            if change.is_reachable {
                reachable.push(watched.changes);
            }
        }
        drop((watched, witness));
        let mut slowest = Vec::new();
        for _ in 0..self.plan.stopped_beside_writers {
            let at = reachable[self.random.below(reachable.len() as u64) as usize];
            let (path, witness) = self.begin(&base);
            let mut watched = Watched::start(self.name, &path, &self.allowed.detail);
            watched.run_to(at);
            let took = keys.store_beside(&watched.copy, &witness).map_err(|why| {
                let place = watched.tracee.place();
                format!("{why}\n  with a process stopped after change {at}, at {place}")
            })?;
            slowest.push(took);
        }
        stopped::judge(slowest)
    }

    /// Kills processes that repair the state that was left after some changes.
    fn repair(&mut self, at: &[u64]) -> Result<String, String> {
        let left: Vec<(u64, Vec<u8>)> =
            self.kept.iter().filter(|(change, _)| at.contains(change)).cloned().collect();
        let mut all = Extent::default();
        for (change, region) in left {
            let path = self.folder.path().join("repaired");
            let begin = || {
                fs::write(&path, &region).unwrap();
                Watched::start(REPAIR, &path, "")
            };
            let whole = Extent::of(&mut begin());
            let repaired = self.judge_changes(&mut begin(), whole, false, &[]);
            let repaired = repaired.map_err(|why| {
                format!("{why}\n  while repairing the state after change {change}")
            })?;
            all.changes += repaired.changes;
            all.judged += repaired.judged;
        }
        let Extent { changes, judged, .. } = all;
        Ok(format!("repaired in {changes} changes, {judged} states judged"))
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
