//! The simple oracle: a cache as a map, with nothing clever in it.

use std::collections::HashMap;

use larder_item::{Deadline, Direction, Number, Second, StoreMode};

/// An item of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelItem {
    /// The value.
    pub value: Vec<u8>,
    /// The client's bits.
    pub flags: u32,
    /// When it dies.
    pub deadline: Deadline,
    /// The token that the cache under test gave it.
    pub cas: u64,
    /// Is its value out of date?
    pub stale: bool,
    /// Was the right to bring a new value given to somebody?
    pub token_sent: bool,
    /// Was it read or touched since it was stored?
    pub fetched: bool,
}

impl ModelItem {
    /// What becomes of an item whose value is another one.
    fn begin_anew(&mut self) {
        (self.stale, self.token_sent, self.fetched) = (false, false, false);
    }
}

/// What a store, or another change under a token, comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Stored, or done; the model wants to be told the token by [`Model::set_cas`].
    Stored,
    /// The mode's condition does not hold.
    NotStored,
    /// Another token.
    Exists,
    /// No item.
    NotFound,
}

/// What moving a counter comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The number that it shows; the model wants to be told the token by [`Model::set_cas`].
    Number(u64),
    /// No item.
    NotFound,
    /// Another token.
    Exists,
    /// The value is no number.
    NonNumeric,
}

/// A cache without limits.
#[derive(Clone, Debug, Default)]
pub struct Model {
    items: HashMap<Vec<u8>, ModelItem>,
    now: Second,
    clear_at: Option<Second>,
}

impl Model {
    /// An empty cache at a second.
    pub fn new(now: Second) -> Self {
        Self { now, ..Self::default() }
    }

    /// The model's clock.
    pub fn now(&self) -> Second {
        self.now
    }

    /// Moves the clock; what dies by it is gone.
    pub fn tick(&mut self, now: Second) {
        self.now = now;
        if self.clear_at.is_some_and(|at| at <= now) {
            self.clear();
        }
        self.items.retain(|_, item| !item.deadline.is_past(now));
    }

    /// The live item of a key.
    pub fn get(&self, key: &[u8]) -> Option<&ModelItem> {
        self.items.get(key)
    }

    /// The live item of a key, as it is before it counts as read.
    pub fn read(&mut self, key: &[u8]) -> Option<ModelItem> {
        let item = self.items.get_mut(key)?;
        let before = item.clone();
        item.fetched = true;
        Some(before)
    }

    /// All keys of live items.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.items.keys().map(Vec::as_slice)
    }

    /// Stores; `takes_older` says that a token lower than the item's leaves a stale item in place of the one that is
    /// there.
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

    /// Notes the token that the cache gave the item stored last under a key.
    pub fn set_cas(&mut self, key: &[u8], cas: u64) {
        if let Some(item) = self.items.get_mut(key) {
            item.cas = cas;
        }
    }

    /// Removes; false where there is nothing.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        self.items.remove(key).is_some()
    }

    /// Is there an item, and with this token?
    pub fn compare(&self, key: &[u8], cas: Option<u64>) -> Outcome {
        match self.items.get(key) {
            None => Outcome::NotFound,
            Some(item) if cas.is_some_and(|cas| cas != item.cas) => Outcome::Exists,
            Some(_) => Outcome::Stored,
        }
    }

    /// Gives a new deadline; false where there is no item.
    pub fn touch(&mut self, key: &[u8], deadline: Deadline) -> bool {
        let Some(item) = self.items.get_mut(key) else {
            return false;
        };
        (item.deadline, item.fetched) = (deadline, true);
        self.drop_if_dead(key);
        true
    }

    /// Marks an item stale, and gives it another deadline where there is one.
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

    /// Gives the right to bring a new value away; false where somebody has it, or the item is another one.
    pub fn claim(&mut self, key: &[u8], cas: Option<u64>) -> bool {
        let may_win = self.compare(key, cas) == Outcome::Stored;
        match self.items.get_mut(key) {
            Some(item) if may_win => !std::mem::replace(&mut item.token_sent, true),
            _ => false,
        }
    }

    /// Moves a counter, and gives it another deadline where there is one. A number that needs more bytes than there
    /// are is another item.
    pub fn arithmetic(
        &mut self,
        key: &[u8],
        direction: Direction,
        delta: u64,
        cas: Option<u64>,
        deadline: Option<Deadline>,
    ) -> Counted {
        match self.compare(key, cas) {
            Outcome::NotFound => return Counted::NotFound,
            Outcome::Exists => return Counted::Exists,
            Outcome::Stored | Outcome::NotStored => {}
        }
        let Some(item) = self.items.get_mut(key) else {
            return Counted::NotFound;
        };
        let Ok(number) = Number::parse(&item.value) else {
            return Counted::NonNumeric;
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
        Counted::Number(moved.0)
    }

    /// Removes everything, and calls off a clear that was to come.
    pub fn clear(&mut self) {
        self.items.clear();
        self.clear_at = None;
    }

    /// Clears at a second.
    pub fn clear_at(&mut self, at: Second) {
        self.clear_at = Some(at);
        self.tick(self.now);
    }
}
