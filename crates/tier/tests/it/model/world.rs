//! The complete state of the model, and all steps that are possible next.

use std::fmt;

use super::address::LEASED;
use super::client::Client;
use super::disk::{Disk, Manifest};
use super::reclaimer::Reclaimer;
use super::recovery::Recovery;
use super::region::{Region, Slot, Trained};
use super::rules::{Rule, Rules};
use super::scenario::{Budget, Scenario};
use super::spec::{Change, Spec};
use super::{client, crash, reclaimer, recovery};

/// A step: its actor and its action.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) actor: &'static str,
    pub(crate) number: Option<u8>,
    pub(crate) what: &'static str,
}

impl Step {
    pub(crate) fn of(actor: &'static str, what: &'static str) -> Self {
        Self { actor, number: None, what }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "{} {number}: {}", self.actor, self.what),
            None => write!(f, "{}: {}", self.actor, self.what),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    Running,
    Down,
    Recovering(Box<Recovery>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) disk: Disk,
    /// The region of the running process.
    pub(crate) region: Option<Region>,
    pub(crate) phase: Phase,
    pub(crate) clients: Vec<Client>,
    pub(crate) reclaimer: Reclaimer,
    pub(crate) spec: Spec,
    /// True once the clock has struck: items have expired, and the delayed flush is due.
    pub(crate) struck: bool,
    /// True if a sync failed in this process.
    pub(crate) failed: bool,
    pub(crate) budget: Budget,
    pub(crate) fault: Option<String>,
}

/// Returns the steps that are possible next.
pub(crate) type Successors = Vec<(Step, World)>;

impl World {
    pub(crate) fn new(scenario: &Scenario, rules: Rules) -> Self {
        let mut disk = Disk::new(scenario.extents, scenario.units);
        let mut region = Region::empty(&disk);
        region.lease = recovery::granted(LEASED, rules);
        disk.replace_manifest(Manifest { lease: LEASED, ..Manifest::default() }, true);
        Self {
            disk,
            region: Some(region),
            phase: Phase::Running,
            clients: vec![Client::default(); scenario.programs.len()],
            reclaimer: Reclaimer::Idle,
            spec: Spec::default(),
            struck: false,
            failed: false,
            budget: scenario.budget,
            fault: None,
        }
    }

    pub(crate) fn region(&mut self) -> &mut Region {
        self.region.as_mut().unwrap()
    }

    pub(crate) fn slot(&mut self, key: u8) -> &mut Slot {
        &mut self.region().slots[usize::from(key)]
    }

    pub(crate) fn fail(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    /// True if a delayed flush is due but not yet logged.
    pub(crate) fn is_due(&self) -> bool {
        let pending = self.region.as_ref().is_some_and(|region| region.delay != Default::default());
        self.struck && pending
    }

    /// True if a client or reclaim has locked the key's group.
    pub(crate) fn is_locked(&self, scenario: &Scenario, key: u8) -> bool {
        let holds = |(client, program): (&Client, &&[client::Op])| client.holds(program, key);
        self.clients.iter().zip(scenario.programs).any(holds) || self.reclaimer.holds(key)
    }

    pub(crate) fn successors(&self, scenario: &Scenario, rules: Rules) -> Successors {
        let mut next = Vec::new();
        crash::steps(self, &mut next);
        match &self.phase {
            Phase::Running => {
                client::steps(self, scenario, rules, &mut next);
                reclaimer::steps(self, scenario, rules, &mut next);
                self.flusher(rules, &mut next);
                self.lease(rules, &mut next);
                self.dictionary(rules, &mut next);
                self.evictions(scenario, &mut next);
                self.due_flush(&mut next);
            }
            Phase::Recovering(recovery) => recovery::steps(self, recovery, rules, &mut next),
            Phase::Down => {}
        }
        if self.budget.strike && !self.struck {
            let mut world = self.clone();
            world.struck = true;
            next.push((Step::of("clock", "strikes"), world));
        }
        next
    }

    fn flusher(&self, rules: Rules, next: &mut Successors) {
        if self.failed && rules.keep(Rule::ErrorIsFinal) {
            return;
        }
        let mut world = self.clone();
        let Self { region: Some(region), disk, .. } = &mut world else { return };
        if region.write(disk, rules) {
            next.push((Step::of("flusher", "writes a unit"), world));
        }
        if self.budget.failed_writes > 0 {
            let mut world = self.clone();
            world.budget.failed_writes -= 1;
            world.failed = true;
            let Self { region: Some(region), disk, .. } = &mut world else { return };
            if region.fail_write(disk, rules) {
                next.push((Step::of("flusher", "fails to write a unit"), world));
            }
        }
        self.summaries(rules, next);
        if !self.disk.is_dirty() {
            return;
        }
        let mut world = self.clone();
        world.disk.sync();
        if let Self { region: Some(region), disk, .. } = &mut world {
            region.on_sync(disk, rules);
        }
        next.push((Step::of("flusher", "syncs"), world));
        if self.budget.failed_syncs > 0 {
            let mut world = self.clone();
            world.budget.failed_syncs -= 1;
            world.disk.fail_sync();
            world.failed = true;
            if !rules.keep(Rule::ErrorIsFinal) {
                // The next sync finds no dirty pages and succeeds.
                if let Self { region: Some(region), disk, .. } = &mut world {
                    region.on_sync(disk, rules);
                }
            }
            next.push((Step::of("flusher", "fails to sync"), world));
        }
    }

    /// Writes the summary of a closed segment.
    fn summaries(&self, rules: Rules, next: &mut Successors) {
        if self.budget.summaries == 0 {
            return;
        }
        let mut world = self.clone();
        world.budget.summaries -= 1;
        let Self { region: Some(region), disk, .. } = &mut world else { return };
        if region.summarize(disk, rules) {
            next.push((Step::of("flusher", "writes a summary"), world));
        }
    }

    /// Leases more segment numbers, first in the manifest, then in the region.
    fn lease(&self, rules: Rules, next: &mut Successors) {
        let mut world = self.clone();
        let manifest = self.disk.manifest();
        let (number, lease) = (world.region().next_number, world.region().lease);
        if number <= lease || self.failed {
            return;
        }
        if manifest.lease <= lease {
            let lease = manifest.lease + LEASED;
            let durable = rules.keep(Rule::LeaseIsDurable);
            world.disk.replace_manifest(Manifest { lease, ..manifest }, durable);
            next.push((Step::of("flusher", "leases numbers"), world));
        } else {
            world.region().lease = manifest.lease;
            next.push((Step::of("flusher", "hands the lease to writers"), world));
        }
    }

    /// Trains a dictionary: writes its file, names it in the manifest, then uses it for records.
    fn dictionary(&self, rules: Rules, next: &mut Successors) {
        let mut world = self.clone();
        let manifest = self.disk.manifest();
        let Some(region) = &self.region else { return };
        let what = match region.trained {
            None if self.budget.trainings == 0 || self.failed => return,
            None => {
                world.budget.trainings -= 1;
                let durable = rules.keep(Rule::DictionaryBeforeManifest);
                let number = manifest.dictionaries + 1;
                let dictionary = world.disk.write_dictionary(number, durable);
                world.region().trained = Some(Trained::Written(dictionary));
                if !rules.keep(Rule::DictionaryBeforeRecord) {
                    world.region().dictionary = dictionary;
                }
                "writes a dictionary"
            }
            Some(Trained::Written(dictionary)) => {
                let dictionaries = dictionary.number;
                world.disk.replace_manifest(Manifest { dictionaries, ..manifest }, true);
                world.region().trained = Some(Trained::Named(dictionary));
                "names it in the manifest"
            }
            Some(Trained::Named(dictionary)) => {
                world.region().dictionary = dictionary;
                world.region().trained = None;
                "hands it to writers"
            }
        };
        next.push((Step::of("flusher", what), world));
    }

    fn evictions(&self, scenario: &Scenario, next: &mut Successors) {
        if self.budget.evictions == 0 {
            return;
        }
        for key in 0..scenario.keys {
            let mut world = self.clone();
            let Slot::Memory { value, home } = *world.slot(key) else { continue };
            if self.is_locked(scenario, key) {
                continue;
            }
            world.budget.evictions -= 1;
            let slot = Slot::Memory { value, home };
            let expired = value.expires && self.struck;
            if expired || world.region().is_flushed(slot) {
                *world.slot(key) = Slot::Empty;
            } else {
                match world.region().disk_slot(home) {
                    Some(slot) => *world.slot(key) = slot,
                    None => world.fail(format!("the home {home:?} of key {key} is gone")),
                }
            }
            next.push((Step { actor: "eviction of key", number: Some(key), what: "" }, world));
        }
    }

    /// Logs a delayed flush that is due.
    fn due_flush(&self, next: &mut Successors) {
        let mut world = self.clone();
        if !self.is_due() || !world.region().has_room(false) {
            return;
        }
        world.flush_now(false);
        next.push((Step::of("clock", "a due flush is logged"), world));
    }

    /// Logs a flush and raises the flush address in one step.
    pub(crate) fn flush_now(&mut self, asked: bool) -> super::address::Address {
        use super::disk::Record;
        use super::region::State;
        let at = self.region().reserve(Record::Flush, State::Complete);
        self.region().flush = at;
        self.region().delay = Default::default();
        // A due flush that was already visible to clients is not a second flush.
        if asked || self.spec.now().delayed {
            self.spec.reserve(at, Change::Flush);
            self.spec.publish(at);
        }
        at
    }
}
