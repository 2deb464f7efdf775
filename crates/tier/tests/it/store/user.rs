//! A thread that changes its own keys, and tracks which values each may have after a power loss.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use larder_tier::format::Item;
use larder_tier::store::{Change, Durable, FindError, Known, Refusal, Unreadable};

use super::keys::pairs;
use super::{NOW, TestStore};

const KEYS: u8 = 12;

/// A state of a key: the number of its write.
type State = Option<u32>;

pub(crate) struct User {
    number: u8,
    rng: Rng,
    writes: u32,
    /// The possible states of each key: the last acknowledged state, and all later ones.
    may_have: BTreeMap<u8, Vec<State>>,
    /// The keys whose item is in the user's memory.
    resident: Vec<u8>,
}

/// Returns the value of a write: its number, repeated. A few values are long.
fn value_of(write: u32) -> Vec<u8> {
    let len = match write % 16 {
        0 => 300_000,
        1..4 => 20_000,
        _ => write as usize % 2000,
    };
    write.to_le_bytes().iter().copied().cycle().take(4 + len).collect()
}

fn only_disk(error: &FindError) {
    assert!(matches!(error.cause, Unreadable::Disk(_)), "a read meets no damage: {error}");
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

impl User {
    pub(crate) fn new(number: u8, rng: Rng) -> Self {
        let may_have = (0..KEYS).map(|key| (key, vec![None])).collect();
        Self { number, rng, writes: 0, may_have, resident: Vec::new() }
    }

    /// Each key shares its tag with a key of another user.
    fn key(&self, key: u8) -> &'static [u8] {
        let pair = &pairs()[usize::from(self.number % 3) * usize::from(KEYS) + usize::from(key)];
        match key.is_multiple_of(2) {
            true => &pair[0],
            // The second key of a pair. The next user has the first one.
            false => {
                let next = usize::from((self.number + 1) % 3) * usize::from(KEYS);
                &pairs()[next + usize::from(key) - 1][1]
            }
        }
    }

    /// Checks every key. Its value counts as acknowledged, because a start has synced it.
    pub(crate) fn check_all_after_start(&mut self, store: &TestStore) {
        self.resident.clear();
        for key in 0..KEYS {
            let found = self.find(store, key).unwrap();
            let may_have = &self.may_have[&key];
            let number = self.number;
            assert!(
                may_have.contains(&found),
                "key {number}/{key} has {found:?}, not one of {may_have:?}"
            );
            self.may_have.insert(key, vec![found]);
        }
    }

    /// Marks all recorded changes as durable.
    pub(crate) fn note_all_durable(&mut self) {
        for states in self.may_have.values_mut() {
            states.drain(..states.len() - 1);
        }
    }

    fn find(&self, store: &TestStore, key: u8) -> Result<State, ()> {
        let (_, item) = store.find(self.key(key)).map_err(|error| only_disk(&error))?;
        Ok(item.map(|item| {
            let write = item.version as u32;
            assert_eq!(item.value, value_of(write), "the value of a write is its own");
            write
        }))
    }

    /// Runs until the store fails.
    pub(crate) fn work(&mut self, store: &TestStore) {
        while self.step(store).is_ok() {}
    }

    fn step(&mut self, store: &TestStore) -> Result<(), ()> {
        let key = self.rng.u8(..KEYS);
        match self.rng.u8(..10) {
            0..6 => {
                self.writes += 1;
                let write = self.writes * 256 + u32::from(self.number);
                let (name, value) = (self.key(key), value_of(write));
                let item = Item {
                    key: name,
                    value: &value,
                    flags: 0,
                    version: write.into(),
                    deadline_unix_secs: None,
                    stale: false,
                    token_sent: false,
                    number: false,
                };
                self.change(store, key, Some(write), |change, known| {
                    store.put(&item, change, known)
                })
            }
            6..8 => {
                let name = self.key(key);
                self.change(store, key, None, |change, known| store.remove(name, change, known))
            }
            8 => {
                self.resident.retain(|resident| *resident != key);
                Ok(())
            }
            _ => {
                let found = self.find(store, key)?;
                let expected = *self.may_have[&key].last().unwrap();
                assert_eq!(
                    found, expected,
                    "key {}/{key} has the last recorded change",
                    self.number
                );
                Ok(())
            }
        }
    }

    fn change(
        &mut self,
        store: &TestStore,
        key: u8,
        state: State,
        record: impl Fn(&Change<'_>, &Known) -> Result<(), Refusal>,
    ) -> Result<(), ()> {
        let mut known = Known::default();
        let is_resident = self.resident.contains(&key);
        let change = Change { now_unix_secs: NOW, is_resident, is_gone: &|| false };
        self.may_have.get_mut(&key).unwrap().push(state);
        loop {
            match record(&change, &known) {
                Ok(()) => break,
                Err(Refusal::NeedsDisk) => {
                    known = store.find(self.key(key)).map_err(|error| only_disk(&error))?.0;
                }
                Err(Refusal::Busy) => store.wait_for_progress(far()).map_err(drop)?,
                Err(refusal @ (Refusal::Full | Refusal::Failed)) => {
                    // Nothing was changed.
                    self.may_have.get_mut(&key).unwrap().pop();
                    return if refusal == Refusal::Full { Ok(()) } else { Err(()) };
                }
                Err(other) => panic!("{other}"),
            }
        }
        self.resident.retain(|resident| *resident != key);
        if state.is_some() && self.rng.bool() {
            self.resident.push(key);
        }
        if self.rng.bool() {
            let awaited = store.awaited(self.key(key));
            match awaited.map_or(Durable::Yes, |at| store.wait_durable(at)) {
                Durable::Yes => {
                    self.may_have.insert(key, vec![state]);
                }
                _ => return Err(()),
            }
        }
        Ok(())
    }
}
