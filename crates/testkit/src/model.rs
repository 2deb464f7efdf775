//! The simple oracle: a cache as a map, with nothing clever in it.

use std::collections::HashMap;

use larder_item::{Deadline, Direction, Number, Second, StoreMode};

/// An item of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelItem {
    /// The value.
    pub value: Vec<u8>,
    /// The client's bits.
    pub flags: u32,
    /// When it dies.
    pub deadline: Deadline,
    /// The token that the cache under test gave it.
    pub cas: u64,
}

/// What a store comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Stored; the model wants to be told the token by [`Model::set_cas`].
    Stored,
    /// The mode's condition does not hold.
    NotStored,
    /// Another token.
    Exists,
    /// No item.
    NotFound,
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

    /// All keys of live items.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.items.keys().map(Vec::as_slice)
    }

    /// Stores.
    pub fn store(
        &mut self,
        key: &[u8],
        mode: StoreMode,
        cas: Option<u64>,
        item: ModelItem,
    ) -> Outcome {
        let extends = matches!(mode, StoreMode::Append | StoreMode::Prepend);
        match (self.items.get_mut(key), mode) {
            (Some(_), StoreMode::Add) => return Outcome::NotStored,
            (None, StoreMode::Add) => {}
            (None, _) if extends => return Outcome::NotStored,
            (None, _) if cas.is_some() => return Outcome::NotFound,
            (None, StoreMode::Replace) => return Outcome::NotStored,
            (Some(old), _) if cas.is_some_and(|cas| cas != old.cas) => return Outcome::Exists,
            (Some(old), StoreMode::Append) => {
                old.value.extend_from_slice(&item.value);
                return Outcome::Stored;
            }
            (Some(old), StoreMode::Prepend) => {
                old.value.splice(0..0, item.value);
                return Outcome::Stored;
            }
            _ => {}
        }
        if !item.deadline.is_past(self.now) {
            self.items.insert(key.to_vec(), item);
        } else {
            self.items.remove(key);
        }
        Outcome::Stored
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

    /// Gives a new deadline; false where there is no item.
    pub fn touch(&mut self, key: &[u8], deadline: Deadline) -> bool {
        let Some(item) = self.items.get_mut(key) else {
            return false;
        };
        item.deadline = deadline;
        if deadline.is_past(self.now) {
            self.items.remove(key);
        }
        true
    }

    /// Moves a counter: none where there is no item, an error where it is no number.
    ///
    /// # Errors
    /// The value is no number.
    pub fn arithmetic(
        &mut self,
        key: &[u8],
        direction: Direction,
        delta: u64,
    ) -> Result<Option<u64>, larder_item::NotANumber> {
        let Some(item) = self.items.get_mut(key) else {
            return Ok(None);
        };
        let moved = Number::parse(&item.value)?.moved(direction, delta);
        let text = moved.0.to_string();
        let width = text.len().max(item.value.len());
        item.value = format!("{text:<width$}").into_bytes();
        Ok(Some(moved.0))
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
