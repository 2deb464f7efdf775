//! The versions of one key: when each was stored, and which are newer than others.

use std::collections::{HashMap, HashSet};

use super::record::{Did, Event, Version};

/// The moment of events that did not happen.
pub(super) const NEVER: u64 = u64::MAX;

/// A version of a key.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) version: Version,
    /// The version was stored after this moment.
    pub(super) from: u64,
    /// The version was stored before this moment.
    pub(super) until: u64,
    /// The cas token, if any answer contained it.
    pub(super) cas: Option<u64>,
    /// The moment at which the write was acknowledged.
    pub(super) acknowledged: u64,
    /// The indices of the event that wrote the version, and of the first one that showed it.
    pub(super) written: Option<usize>,
    pub(super) shown: Option<usize>,
    /// The indices of the versions that may overlap in time, but are newer because of their cas
    /// token or their count.
    pub(super) newer: Vec<usize>,
}

/// Contradictions that concern a single version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Impossible {
    /// An event shows a version that no client has begun to write.
    Unwritten { event: usize },
    /// Two events show different cas tokens of one version.
    TwoTokens { first: usize, second: usize },
}

/// The versions and the removals of one key.
#[derive(Debug, Default)]
pub(super) struct Versions {
    pub(super) lives: Vec<Life>,
    index: HashMap<Version, usize>,
    /// The moments when each removal began and when it was certainly over, sorted by the latter.
    removals: Vec<(u64, u64)>,
    /// For each removal: the earliest beginning of it and the later ones.
    earliest: Vec<u64>,
    pub(super) impossible: Vec<Impossible>,
}

impl Versions {
    /// Reads the events of one key, which are sorted by their beginning.
    pub(super) fn of(events: &[Event]) -> Self {
        let mut versions = Self { removals: vec![(0, 0)], ..Self::default() };
        let mut increments = 0;
        for (at, event) in events.iter().enumerate() {
            match event.did {
                Did::Wrote(shown) => {
                    increments += u64::from(shown.version.count > 0);
                    versions.write(at, event, shown.version);
                    versions.lives[versions.index[&shown.version]].acknowledged = event.answered;
                }
                Did::MayHaveWritten(version) => versions.write(at, event, version),
                Did::MayHaveCounted => increments += 1,
                Did::Removed | Did::MayHaveRemoved => {
                    versions.removals.push((event.begun, event.answered));
                }
                Did::Read(_) => {}
            }
        }
        versions.sort_removals();
        versions.add_unacknowledged_counts(events, increments);
        versions.show(events);
        versions.order_counts();
        versions.find_newer();
        versions
    }

    /// Returns the index of a version.
    pub(super) fn find(&self, version: Version) -> Option<usize> {
        self.index.get(&version).copied()
    }

    /// Returns the earliest beginning of the removals that may be executed after a moment. The
    /// absence before the first write counts as a removal at the beginning of the history.
    pub(super) fn earliest_removal(&self, after: u64) -> u64 {
        let at = self.removals.partition_point(|(_, until)| *until < after);
        self.earliest.get(at).copied().unwrap_or(NEVER)
    }

    fn add(&mut self, version: Version, from: u64) -> usize {
        *self.index.entry(version).or_insert_with(|| {
            self.lives.push(Life {
                version,
                from,
                until: NEVER,
                cas: None,
                acknowledged: NEVER,
                written: None,
                shown: None,
                newer: Vec::new(),
            });
            self.lives.len() - 1
        })
    }

    fn write(&mut self, at: usize, event: &Event, version: Version) {
        let life = self.add(version, event.begun);
        self.lives[life].written = Some(at);
    }

    fn sort_removals(&mut self) {
        self.removals.sort_unstable_by_key(|(_, until)| *until);
        self.earliest = self.removals.iter().map(|(begun, _)| *begun).collect();
        for at in (1..self.earliest.len()).rev() {
            self.earliest[at - 1] = self.earliest[at - 1].min(self.earliest[at]);
        }
    }

    /// Adds the counts that reads show and no answer to an increment contained.
    fn add_unacknowledged_counts(&mut self, events: &[Event], increments: u64) {
        for event in events {
            let Did::Read(Some(shown)) = event.did else { continue };
            let begun = self.find(Version::of(shown.version.write));
            if let Some(begun) = begun.filter(|_| shown.version.count <= increments) {
                let from = self.lives[begun].from;
                self.add(shown.version, from);
            }
        }
    }

    /// Notes the earliest answer that shows each version, and its cas token.
    fn show(&mut self, events: &[Event]) {
        let mut tokens: HashMap<Version, usize> = HashMap::new();
        let mut reported = HashSet::new();
        for (at, event) in events.iter().enumerate() {
            let (Did::Read(Some(shown)) | Did::Wrote(shown)) = event.did else { continue };
            let life = self.find(shown.version).map(|life| &mut self.lives[life]);
            let Some(life) = life.filter(|life| life.from < event.answered) else {
                self.impossible.push(Impossible::Unwritten { event: at });
                continue;
            };
            if event.answered < life.until {
                (life.until, life.shown) = (event.answered, Some(at));
            }
            if shown.cas.is_some() {
                let first = *tokens.entry(shown.version).or_insert(at);
                if *life.cas.get_or_insert(shown.cas.unwrap_or_default())
                    != shown.cas.unwrap_or_default()
                    && reported.insert(shown.version)
                {
                    self.impossible.push(Impossible::TwoTokens { first, second: at });
                }
            }
        }
    }

    /// Narrows the intervals of the counts of one counter, since lower counts are older.
    fn order_counts(&mut self) {
        let mut sorted: Vec<usize> = (0..self.lives.len()).collect();
        sorted.sort_unstable_by_key(|life| self.lives[*life].version);
        let is_next = |before: &Life, after: &Life| before.version.write == after.version.write;
        for at in 1..sorted.len() {
            let (before, after) = (sorted[at - 1], sorted[at]);
            if is_next(&self.lives[before], &self.lives[after]) {
                self.lives[after].from = self.lives[after].from.max(self.lives[before].from);
            }
        }
        for at in (1..sorted.len()).rev() {
            let (before, after) = (sorted[at - 1], sorted[at]);
            if is_next(&self.lives[before], &self.lives[after]) {
                self.lives[before].until = self.lives[before].until.min(self.lives[after].until);
            }
        }
    }

    /// Finds the pairs of versions that overlap in time, and which of the two is newer.
    fn find_newer(&mut self) {
        let mut sorted: Vec<usize> =
            (0..self.lives.len()).filter(|life| self.lives[*life].until != NEVER).collect();
        sorted.sort_unstable_by_key(|life| self.lives[*life].from);
        let mut active: Vec<usize> = Vec::new();
        for life in sorted {
            let from = self.lives[life].from;
            active.retain(|of| self.lives[*of].until >= from);
            for of in &active {
                for (older, newer) in [(*of, life), (life, *of)] {
                    if self.is_newer(older, newer) {
                        self.lives[older].newer.push(newer);
                    }
                }
            }
            active.push(life);
        }
    }

    /// True if a version is newer than another one because of its count or its cas token.
    fn is_newer(&self, older: usize, newer: usize) -> bool {
        let (older, newer) = (&self.lives[older], &self.lives[newer]);
        if older.version.write == newer.version.write {
            return older.version.count < newer.version.count;
        }
        // In the other order, a removal between the two would explain the lower token.
        older.cas.zip(newer.cas).is_some_and(|(lower, higher)| lower < higher)
            && self.earliest_removal(newer.from) > older.until
    }
}
