//! Judges the events of each key at each place.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::explain::{Promise, Teller, Violation};
use super::record::{Did, Event, History};
use super::versions::{Impossible, NEVER, Versions};

/// The number of violations of each promise that are reported for a key.
const REPORTED_MAX: usize = 3;

impl History {
    /// Returns the contradictions between the history and the promises, at most three of each
    /// promise for each key.
    /// The time is linear in the number of events, except for sorting, if few commands are under
    /// way at a time.
    pub fn judge(&self) -> Vec<Violation> {
        let mut by_key: Vec<Vec<Event>> = vec![Vec::new(); self.keys.len()];
        for event in &self.events {
            by_key[event.key].push(*event);
        }
        let mut found = Vec::new();
        for (key, mut events) in by_key.into_iter().enumerate() {
            events.sort_unstable_by_key(|event| event.begun);
            let mut judge = Judge::of(self, key, &events);
            judge.versions_are_possible();
            judge.copies_at_rest_are_current();
            for place in 0..self.places.len() {
                judge.place(place);
            }
            found.append(&mut judge.found);
        }
        found
    }
}

/// Something that reads must not fall below.
#[derive(Clone, Copy)]
struct Floor {
    /// The moment after which it was stored or removed.
    from: u64,
    /// The index of the event that showed, stored or removed it.
    event: usize,
}

impl Floor {
    fn raise(floor: &mut Option<Self>, from: u64, event: usize) {
        if floor.is_none_or(|floor| floor.from < from) {
            *floor = Some(Self { from, event });
        }
    }
}

struct Judge<'a> {
    history: &'a History,
    key: usize,
    events: &'a [Event],
    versions: Versions,
    /// The acknowledged changes, sorted by the moment of the acknowledgement.
    changes: Vec<usize>,
    found: Vec<Violation>,
}

impl<'a> Judge<'a> {
    fn of(history: &'a History, key: usize, events: &'a [Event]) -> Self {
        let versions = Versions::of(events);
        let is_change = |at: &usize| matches!(events[*at].did, Did::Wrote(_) | Did::Removed);
        let mut changes: Vec<usize> = (0..events.len()).filter(is_change).collect();
        changes.sort_unstable_by_key(|at| events[*at].answered);
        Self { history, key, events, versions, changes, found: Vec::new() }
    }

    fn teller(&self) -> Teller<'_> {
        Teller { history: self.history, key: self.key, events: self.events }
    }

    fn report(
        &mut self,
        promise: Promise,
        violation: impl FnOnce(Teller<'_>, &Versions) -> Violation,
    ) {
        if self.found.iter().filter(|found| found.promise == promise).count() < REPORTED_MAX {
            let violation = violation(self.teller(), &self.versions);
            self.found.push(violation);
        }
    }

    fn versions_are_possible(&mut self) {
        for impossible in self.versions.impossible.clone() {
            match impossible {
                Impossible::Unwritten { event } => {
                    self.report(Promise::Written, |teller, _| teller.unwritten(event));
                }
                Impossible::TwoTokens { first, second } => {
                    self.report(Promise::Once, |teller, _| teller.two_tokens(first, second));
                }
            }
        }
    }

    fn copies_at_rest_are_current(&mut self) {
        let (history, key) = (self.history, self.key);
        for resting in history.resting.iter().filter(|resting| resting.key == key) {
            let is_same = match (resting.there, resting.origin) {
                (Some(there), Some(origin)) => {
                    let tokens = there.cas.zip(origin.cas);
                    there.version == origin.version
                        && tokens.is_none_or(|(there, origin)| there == origin)
                }
                (there, origin) => there == origin,
            };
            if !is_same {
                self.report(Promise::AtRest, |teller, _| teller.not_current(resting));
            }
        }
    }

    /// Judges the reads at a place in the order of their beginning. The floor rises with what the
    /// place answers, and with changes that are acknowledged anywhere and due.
    fn place(&mut self, place: usize) {
        let (events, max_stale) = (self.events, self.history.places[place].max_stale);
        let first_answers = self.first_answers(place);
        let (mut seen, mut due) = (None, None);
        let mut changes = 0;
        let mut answers: BinaryHeap<Reverse<(u64, u64, usize)>> = BinaryHeap::new();
        for (at, event) in events.iter().enumerate().filter(|(_, event)| event.place == place) {
            while let Some(Reverse((answered, from, by))) = answers.peek().copied()
                && answered < event.begun
            {
                answers.pop();
                Floor::raise(&mut seen, from, by);
            }
            while let Some(change) = self.changes.get(changes).copied()
                && events[change].answered.saturating_add(max_stale) < event.begun
            {
                changes += 1;
                Floor::raise(&mut due, self.stored_after(change), change);
            }
            let from = match event.did {
                Did::Read(None) => self.miss(at, seen, due),
                Did::Read(Some(_)) => self.hit(at, [seen, due], &first_answers),
                Did::Wrote(_) | Did::Removed => Some(self.stored_after(at)),
                Did::MayHaveWritten(_) | Did::MayHaveCounted | Did::MayHaveRemoved => None,
            };
            if let Some(from) = from {
                answers.push(Reverse((event.answered, from, at)));
            }
        }
    }

    /// Returns the moment after which a change was executed.
    fn stored_after(&self, change: usize) -> u64 {
        let event = &self.events[change];
        let Did::Wrote(shown) = event.did else { return event.begun };
        self.versions.find(shown.version).map_or(0, |life| self.versions.lives[life].from)
    }

    /// Returns the earliest event at a place that showed each version, in the order of
    /// [`Versions::lives`].
    fn first_answers(&self, place: usize) -> HashMap<usize, usize> {
        let mut first: HashMap<usize, usize> = HashMap::new();
        for (at, event) in self.events.iter().enumerate().filter(|(_, of)| of.place == place) {
            let (Did::Read(Some(shown)) | Did::Wrote(shown)) = event.did else { continue };
            let Some(life) = self.versions.find(shown.version) else { continue };
            let earliest = first.entry(life).or_insert(at);
            if event.answered < self.events[*earliest].answered {
                *earliest = at;
            }
        }
        first
    }

    /// Judges a read that found nothing. Returns the moment after which the item was removed.
    fn miss(&mut self, at: usize, seen: Option<Floor>, due: Option<Floor>) -> Option<u64> {
        let answered = self.events[at].answered;
        let mut removed = 0;
        for (floor, promise) in [(seen, Promise::NeverBack), (due, Promise::Bounded)] {
            let Some(floor) = floor else { continue };
            let earliest = self.versions.earliest_removal(floor.from);
            if earliest >= answered {
                self.report(promise, |teller, _| teller.absent(promise, at, floor.event));
            }
            removed = removed.max(earliest);
        }
        (removed < answered).then_some(removed)
    }

    /// Judges a read that found an item. Returns the moment after which it was stored.
    fn hit(
        &mut self,
        at: usize,
        floors: [Option<Floor>; 2],
        first_answers: &HashMap<usize, usize>,
    ) -> Option<u64> {
        let event = &self.events[at];
        let Did::Read(Some(shown)) = event.did else { return None };
        let life = &self.versions.lives[self.versions.find(shown.version)?];
        let [seen, due] = floors.map(|floor| floor.filter(|floor| life.until < floor.from));
        let (from, max_stale) = (life.from, self.history.places[event.place].max_stale);
        let by = |newer: &usize| first_answers.get(newer).copied();
        let before = |at: &usize| self.events[*at].answered < event.begun;
        let is_due = |newer: &&usize| {
            let acknowledged = self.versions.lives[**newer].acknowledged;
            acknowledged != NEVER && acknowledged.saturating_add(max_stale) < event.begun
        };
        let seen = seen.map(|floor| floor.event);
        let seen = seen.or_else(|| life.newer.iter().filter_map(by).find(before));
        let due = due.map(|floor| floor.event);
        let due = due.or_else(|| {
            let newer = life.newer.iter().find(is_due)?;
            self.versions.lives[*newer].written
        });
        for (floor, promise) in [(seen, Promise::NeverBack), (due, Promise::Bounded)] {
            let Some(floor) = floor else { continue };
            self.report(promise, |teller, versions| teller.older(promise, at, floor, versions));
        }
        (seen.is_none() && due.is_none()).then_some(from)
    }
}
