//! The shared memory, the callers, and their steps.

use super::rules::{Rule, Rules};

/// The number of callers, each in its own process.
pub(super) const CALLERS: usize = 3;

/// How many processes are killed, and how many changes other programs make.
const KILLS: u8 = 1;
const CHANGES: u8 = 1;

/// The rank of a time among the times of a state.
type Time = u8;

/// Identifies a load by its leader: a caller leads at most once.
type LoadId = usize;

/// The next step of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Next {
    Begin,
    Look,
    TakeLease,
    ReadNote,
    TakeBasis,
    LookAgain,
    CallLoader,
    /// The loader runs.
    Return,
    Store,
    FailedAt,
    WriteNote,
    Release,
    Ended,
    Killed,
}

#[derive(Clone, Hash, Debug)]
struct Caller {
    next: Next,
    /// The time at which it began.
    began: Time,
    /// The time at which its own load failed.
    failed: Time,
    /// The number of changes when it took the basis, and when its loader read the source.
    basis: u8,
    read_at: u8,
    is_cancelled: bool,
    /// True if its loader failed, or was cancelled.
    has_failed: bool,
    /// True if it saw the lease of a load that failed, so that it must raise an error.
    owes: bool,
    /// The load whose lease it saw last.
    waits_for: Option<LoadId>,
    /// For each load, whether it had ended before this caller began.
    ended_before: [bool; CALLERS],
}

/// A note about a failed load.
#[derive(Clone, Copy, Hash, Debug)]
struct Note {
    failed: Time,
    load: LoadId,
}

#[derive(Clone, Hash, Debug)]
pub(super) struct World {
    /// The number of changes that the value in the cache reflects; `None` if the key is absent.
    value: Option<u8>,
    lease: Option<usize>,
    note: Option<Note>,
    callers: [Caller; CALLERS],
    now: Time,
    kills: u8,
    changes: u8,
    /// False for callers that leave no notes about failed loads.
    has_notes: bool,
    /// A broken promise that no later state shows.
    fault: Option<&'static str>,
}

impl World {
    pub(super) fn start(has_notes: bool) -> Self {
        let caller = Caller {
            next: Next::Begin,
            began: 0,
            failed: 0,
            basis: 0,
            read_at: 0,
            is_cancelled: false,
            has_failed: false,
            owes: false,
            waits_for: None,
            ended_before: [false; CALLERS],
        };
        Self {
            value: None,
            lease: None,
            note: None,
            callers: std::array::from_fn(|_| caller.clone()),
            now: 0,
            kills: 0,
            changes: 0,
            has_notes,
            fault: None,
        }
    }

    pub(super) fn successors(&self, rules: Rules) -> Vec<(String, Self)> {
        let mut next = Vec::new();
        let mut add = |name: String, change: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            change(&mut world);
            world.rank_times();
            next.push((name, world));
        };
        for who in 0..CALLERS {
            match self.callers[who].next {
                Next::Ended | Next::Killed => continue,
                Next::Return => {
                    add(format!("the loader of {who} returns"), &|world| world.returns(who, rules));
                    add(format!("the loader of {who} fails"), &|world| world.fails(who, rules));
                    add(format!("{who} is cancelled"), &|world| {
                        world.callers[who].is_cancelled = true;
                        world.fails(who, rules);
                    });
                }
                step => add(format!("{who}: {step:?}"), &|world| world.step(who, rules)),
            }
            if self.kills < KILLS {
                add(format!("{who} is killed"), &|world| world.kill(who));
            }
        }
        if self.changes < CHANGES {
            add("another program deletes the key".to_owned(), &|world| {
                world.changes += 1;
                world.value = None;
            });
        }
        next
    }

    pub(super) fn fault(&self, is_last: bool) -> Option<String> {
        if let Some(fault) = self.fault {
            return Some(fault.to_owned());
        }
        let running = self.callers.iter().filter(|caller| caller.next == Next::Return).count();
        if running > 1 {
            return Some("two loaders run at the same time".to_owned());
        }
        if self.value.is_some_and(|value| value < self.changes) {
            return Some("the stored value is older than a change".to_owned());
        }
        let has_ended = |caller: &Caller| matches!(caller.next, Next::Ended | Next::Killed);
        (is_last && !self.callers.iter().all(has_ended)).then(|| "a caller never ends".to_owned())
    }

    fn clock(&mut self) -> Time {
        self.now += 1;
        self.now
    }

    fn step(&mut self, who: usize, rules: Rules) {
        match self.callers[who].next {
            Next::Begin => self.begin(who),
            Next::Look => self.look(who, rules),
            Next::TakeLease => self.take_lease(who, rules),
            Next::ReadNote => self.read_note(who, rules),
            Next::TakeBasis => {
                self.callers[who].basis = self.changes;
                let looks = rules.keep(Rule::LookAfterLease);
                self.callers[who].next = if looks { Next::LookAgain } else { Next::CallLoader };
            }
            Next::LookAgain => {
                let is_stored = self.value.is_some();
                self.callers[who].next = if is_stored { Next::Release } else { Next::CallLoader };
            }
            Next::CallLoader => self.call_loader(who),
            Next::Store => self.store(who),
            Next::FailedAt => self.failed_at(who),
            Next::WriteNote => self.write_note(who, rules),
            Next::Release => self.release(who, rules),
            Next::Return | Next::Ended | Next::Killed => {}
        }
    }

    fn begin(&mut self, who: usize) {
        let has_ended = |caller: &Caller| matches!(caller.next, Next::Ended | Next::Killed);
        self.callers[who].ended_before = std::array::from_fn(|load| has_ended(&self.callers[load]));
        self.callers[who].began = self.clock();
        self.callers[who].next = Next::Look;
    }

    fn look(&mut self, who: usize, rules: Rules) {
        self.callers[who].next = match self.value {
            Some(_) => Next::Ended,
            None if rules.keep(Rule::NoteAfterLease) => Next::TakeLease,
            None if self.error_for(who, rules) => return self.raise(who),
            None => Next::TakeLease,
        };
    }

    fn take_lease(&mut self, who: usize, rules: Rules) {
        match self.lease {
            None => self.lease = Some(who),
            Some(holder) => self.callers[who].waits_for = Some(holder),
        }
        let is_leader = self.lease == Some(who);
        self.callers[who].next = match (rules.keep(Rule::NoteAfterLease), is_leader) {
            (true, _) => Next::ReadNote,
            (false, true) => Next::TakeBasis,
            (false, false) => Next::Look,
        };
    }

    /// True if the caller has to raise the error of the note.
    fn error_for(&self, who: usize, rules: Rules) -> bool {
        let is_late = |note: Note| self.callers[who].began <= note.failed;
        self.note.is_some_and(|note| !rules.keep(Rule::FailedAfterBegin) || is_late(note))
    }

    fn raise(&mut self, who: usize) {
        let load = self.note.map_or(who, |note| note.load);
        if self.callers[who].ended_before[load] {
            self.fault = Some("a caller raises the error of a load that was over");
        }
        if self.callers[load].is_cancelled {
            self.fault = Some("a caller raises the error of a load that was cancelled");
        }
        let is_leader = self.lease == Some(who);
        self.callers[who].next = if is_leader { Next::Release } else { Next::Ended };
    }

    fn read_note(&mut self, who: usize, rules: Rules) {
        if self.error_for(who, rules) {
            return self.raise(who);
        }
        let is_leader = self.lease == Some(who);
        self.callers[who].next = if is_leader { Next::TakeBasis } else { Next::Look };
    }

    fn call_loader(&mut self, who: usize) {
        let caller = &mut self.callers[who];
        caller.read_at = self.changes;
        caller.next = Next::Return;
        if caller.owes {
            self.fault = Some("a caller loads although the load that it waited for has failed");
        }
        if self.value.is_some() {
            self.fault = Some("a loader runs although the value is stored");
        }
    }

    fn returns(&mut self, who: usize, rules: Rules) {
        if !rules.keep(Rule::BasisBeforeLoader) {
            self.callers[who].basis = self.changes;
        }
        self.callers[who].next = Next::Store;
    }

    fn store(&mut self, who: usize) {
        let caller = &mut self.callers[who];
        if caller.basis == self.changes {
            self.value = Some(caller.read_at);
        }
        caller.next = Next::Release;
    }

    /// The loader fails, or its task is cancelled.
    fn fails(&mut self, who: usize, rules: Rules) {
        let caller = &mut self.callers[who];
        let leaves_note =
            self.has_notes && (!caller.is_cancelled || !rules.keep(Rule::CancelLeavesNoNote));
        let is_first = rules.keep(Rule::NoteBeforeRelease);
        caller.has_failed = true;
        caller.next = if leaves_note && is_first { Next::FailedAt } else { Next::Release };
    }

    /// Reads the time of the failure. The callers that have seen the lease until now wait for this
    /// load; a later caller finds the lease of a load that is over.
    fn failed_at(&mut self, who: usize) {
        self.callers[who].failed = self.clock();
        self.callers[who].next = Next::WriteNote;
        if !self.callers[who].is_cancelled {
            let waits = |caller: &&mut Caller| caller.waits_for == Some(who);
            self.callers.iter_mut().filter(waits).for_each(|caller| caller.owes = true);
        }
    }

    fn write_note(&mut self, who: usize, rules: Rules) {
        self.note = Some(Note { failed: self.callers[who].failed, load: who });
        let is_first = rules.keep(Rule::NoteBeforeRelease);
        self.callers[who].next = if is_first { Next::Release } else { Next::Ended };
    }

    fn release(&mut self, who: usize, rules: Rules) {
        self.lease = None;
        let is_late =
            self.has_notes && self.callers[who].has_failed && !rules.keep(Rule::NoteBeforeRelease);
        self.callers[who].next = if is_late { Next::FailedAt } else { Next::Ended };
    }

    fn kill(&mut self, who: usize) {
        self.kills += 1;
        self.callers[who].next = Next::Killed;
        if self.lease == Some(who) {
            self.lease = None;
        }
        // A process that is killed before it has left a note has not failed for the others.
        if self.note.is_none_or(|note| note.load != who) {
            let waits = |caller: &&mut Caller| caller.waits_for == Some(who);
            self.callers.iter_mut().filter(waits).for_each(|caller| caller.owes = false);
        }
    }

    /// Replaces the times by their ranks, so that waiting does not make new states.
    fn rank_times(&mut self) {
        let mut times: Vec<&mut Time> = Vec::new();
        for caller in &mut self.callers {
            times.extend([&mut caller.began, &mut caller.failed]);
        }
        if let Some(note) = &mut self.note {
            times.push(&mut note.failed);
        }
        times.push(&mut self.now);
        let mut ranks: Vec<Time> = times.iter().map(|time| **time).collect();
        ranks.sort_unstable();
        ranks.dedup();
        for time in times {
            *time = Time::try_from(ranks.partition_point(|rank| rank < time)).unwrap_or(Time::MAX);
        }
    }
}
