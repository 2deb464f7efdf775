//! A model of a cache, as a map in memory. A test runs the same operations on a cache and on the
//! model, and compares the results.

use std::collections::HashMap;

use larder_item::{Deadline, Direction, Number, Second, StoreMode};

/// An item of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelItem {
    /// The value.
    pub value: Vec<u8>,
    /// The client's flags.
    pub flags: u32,
    /// The second in which the item expires.
    pub deadline: Deadline,
    /// The cas token that the cache under test assigned to the item. The model cannot predict it.
    pub cas: u64,
    /// True if the value is marked stale.
    pub stale: bool,
    /// True if a client has received the recache token.
    pub token_sent: bool,
    /// True if the item was read or touched since it was stored.
    pub fetched: bool,
}

impl ModelItem {
    /// Resets the state that belonged to the old value.
    fn begin_anew(&mut self) {
        (self.stale, self.token_sent, self.fetched) = (false, false, false);
    }
}

/// The outcome of a store, or of another change that checks a cas token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The change was made. The test must pass the new token to [`Model::set_cas`].
    Stored,
    /// The condition of the store's mode does not hold.
    NotStored,
    /// The item has a different token.
    Exists,
    /// The item does not exist.
    NotFound,
}

/// The outcome of an arithmetic command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticOutcome {
    /// The new number. The test must pass the new token to [`Model::set_cas`].
    Number(u64),
    /// The item does not exist.
    NotFound,
    /// The item has a different token.
    Exists,
    /// The value is not a number.
    NonNumeric,
}

/// A cache without limits: it never evicts items.
#[derive(Clone, Debug, Default)]
pub struct Model {
    items: HashMap<Vec<u8>, ModelItem>,
    now: Second,
    clear_at: Option<Second>,
}

impl Model {
    /// Creates an empty cache whose clock shows `now`.
    pub fn new(now: Second) -> Self {
        Self { now, ..Self::default() }
    }

    /// Returns the second that the model's clock shows.
    pub fn now(&self) -> Second {
        self.now
    }

    /// Moves the clock and removes expired items.
    pub fn tick(&mut self, now: Second) {
        self.now = now;
        if self.clear_at.is_some_and(|at| at <= now) {
            self.clear();
        }
        self.items.retain(|_, item| !item.deadline.is_past(now));
    }

    /// Returns the live item of a key.
    pub fn get(&self, key: &[u8]) -> Option<&ModelItem> {
        self.items.get(key)
    }

    /// Returns a copy of the live item of a key, and marks the item as fetched. The copy is from
    /// before the mark.
    pub fn read(&mut self, key: &[u8]) -> Option<ModelItem> {
        let item = self.items.get_mut(key)?;
        let before = item.clone();
        item.fetched = true;
        Some(before)
    }

    /// Returns the keys of all live items.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.items.keys().map(Vec::as_slice)
    }

    /// Stores an item. If `takes_older` is true, a store whose cas token is lower than the token of
    /// the current item also succeeds, and the new item is stale.
    pub fn store(
        &mut self,
        key: &[u8],
        mode: StoreMode,
        cas: Option<u64>,
        takes_older: bool,
        mut item: ModelItem,
    ) -> Outcome {
        let extends = matches!(mode, StoreMode::Append | StoreMode::Prepend);
        match (self.items.get_mut(key), mode) {
            (Some(_), StoreMode::Add) => return Outcome::NotStored,
            (None, StoreMode::Add) => {}
            (None, _) if extends => return Outcome::NotStored,
            (None, _) if cas.is_some() => return Outcome::NotFound,
            (None, StoreMode::Replace) => return Outcome::NotStored,
            (Some(old), _) if takes_older && !extends && cas.is_some_and(|cas| cas < old.cas) => {
                (item.stale, item.token_sent, item.deadline) = (true, old.token_sent, old.deadline);
            }
            (Some(old), _) if cas.is_some_and(|cas| cas != old.cas) => return Outcome::Exists,
            (Some(old), StoreMode::Append) => {
                old.value.extend_from_slice(&item.value);
                old.begin_anew();
                return Outcome::Stored;
            }
            (Some(old), StoreMode::Prepend) => {
                old.value.splice(0..0, item.value);
                old.begin_anew();
                return Outcome::Stored;
            }
            _ => {}
        }
        self.items.insert(key.to_vec(), item);
        self.drop_if_dead(key);
        Outcome::Stored
    }

    fn drop_if_dead(&mut self, key: &[u8]) {
        if self.items.get(key).is_some_and(|item| item.deadline.is_past(self.now)) {
            self.items.remove(key);
        }
    }

    /// Records the token that the cache assigned to the last stored item of a key.
    pub fn set_cas(&mut self, key: &[u8], cas: u64) {
        if let Some(item) = self.items.get_mut(key) {
            item.cas = cas;
        }
    }

    /// Removes an item. Returns false on a miss.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        self.items.remove(key).is_some()
    }

    /// Compares the token of a key's item.
    pub fn compare(&self, key: &[u8], cas: Option<u64>) -> Outcome {
        match self.items.get(key) {
            None => Outcome::NotFound,
            Some(item) if cas.is_some_and(|cas| cas != item.cas) => Outcome::Exists,
            Some(_) => Outcome::Stored,
        }
    }

    /// Sets the deadline of an item. Returns false on a miss.
    pub fn touch(&mut self, key: &[u8], deadline: Deadline) -> bool {
        let Some(item) = self.items.get_mut(key) else {
            return false;
        };
        (item.deadline, item.fetched) = (deadline, true);
        self.drop_if_dead(key);
        true
    }

    /// Marks an item stale and sets the deadline if one is given.
    pub fn mark_stale(
        &mut self,
        key: &[u8],
        cas: Option<u64>,
        deadline: Option<Deadline>,
    ) -> Outcome {
        let outcome = self.compare(key, cas);
        if outcome == Outcome::Stored
            && let Some(item) = self.items.get_mut(key)
        {
            (item.stale, item.token_sent) = (true, false);
            item.deadline = deadline.unwrap_or(item.deadline);
            self.drop_if_dead(key);
        }
        outcome
    }

    /// Gives the recache token to a client. Returns false if a client already has it, or the item
    /// has a different cas token.
    pub fn claim(&mut self, key: &[u8], cas: Option<u64>) -> bool {
        let may_win = self.compare(key, cas) == Outcome::Stored;
        match self.items.get_mut(key) {
            Some(item) if may_win => !std::mem::replace(&mut item.token_sent, true),
            _ => false,
        }
    }

    /// Adds to or subtracts from a counter and sets the deadline if one is given. A number that
    /// needs more bytes than the old value becomes a new item.
    pub fn arithmetic(
        &mut self,
        key: &[u8],
        direction: Direction,
        delta: u64,
        cas: Option<u64>,
        deadline: Option<Deadline>,
    ) -> ArithmeticOutcome {
        match self.compare(key, cas) {
            Outcome::NotFound => return ArithmeticOutcome::NotFound,
            Outcome::Exists => return ArithmeticOutcome::Exists,
            Outcome::Stored | Outcome::NotStored => {}
        }
        let Some(item) = self.items.get_mut(key) else {
            return ArithmeticOutcome::NotFound;
        };
        let Ok(number) = Number::parse(&item.value) else {
            return ArithmeticOutcome::NonNumeric;
        };
        let moved = number.moved(direction, delta);
        let text = moved.0.to_string();
        if text.len() > item.value.len() {
            item.begin_anew();
        }
        let width = text.len().max(item.value.len());
        item.value = format!("{text:<width$}").into_bytes();
        item.deadline = deadline.unwrap_or(item.deadline);
        self.drop_if_dead(key);
        ArithmeticOutcome::Number(moved.0)
    }

    /// Removes all items and cancels a scheduled clear.
    pub fn clear(&mut self) {
        self.items.clear();
        self.clear_at = None;
    }

    /// Schedules a clear.
    pub fn clear_at(&mut self, at: Second) {
        self.clear_at = Some(at);
        self.tick(self.now);
    }
}
