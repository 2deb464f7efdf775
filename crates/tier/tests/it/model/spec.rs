//! The promises to clients: the history of changes, and the part of it that a crash may lose.

use super::address::Address;
use super::disk::Value;
use super::region::KEYS;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Change {
    Set(u8, Value),
    Delete(u8),
    Flush,
    Delay,
}

/// The items, and whether a delayed flush is pending.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Items {
    pub(crate) values: [Option<Value>; KEYS],
    pub(crate) delayed: bool,
}

impl Items {
    fn apply(mut self, change: Change) -> Self {
        match change {
            Change::Set(key, value) => self.values[usize::from(key)] = Some(value),
            Change::Delete(key) => self.values[usize::from(key)] = None,
            Change::Flush => self = Self::default(),
            Change::Delay => self.delayed = true,
        }
        self
    }

    /// Returns the items that a client can read.
    pub(crate) fn seen(mut self, struck: bool) -> Self {
        for value in &mut self.values {
            *value = value.filter(|value| !(value.expires && struck));
        }
        self
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Event {
    at: Address,
    change: Change,
    /// True if memory shows the change. A reservation that memory does not show may be lost.
    published: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Spec {
    /// The state that no crash may lose.
    base: Items,
    /// The changes since then, in the order of their addresses.
    events: Vec<Event>,
}

impl Spec {
    /// Adds a change with its address, which determines its order.
    pub(crate) fn reserve(&mut self, at: Address, change: Change) {
        let behind = self.events.iter().position(|event| event.at > at);
        let place = behind.unwrap_or(self.events.len());
        self.events.insert(place, Event { at, change, published: false });
    }

    /// Marks the change as visible in memory.
    pub(crate) fn publish(&mut self, at: Address) {
        for event in self.events.iter_mut().filter(|event| event.at == at) {
            event.published = true;
        }
    }

    /// Adds a change that is visible in memory although it is not in the log.
    pub(crate) fn publish_unlogged(&mut self, change: Change) {
        let at = self.events.last().map_or(Address::NONE, |event| event.at);
        self.events.push(Event { at, change, published: true });
    }

    pub(crate) fn now(&self) -> Items {
        let published = self.events.iter().filter(|event| event.published);
        published.fold(self.base, |items, event| items.apply(event.change))
    }

    /// Returns the address of the last change that a response about the key reveals.
    pub(crate) fn last_change(&self, key: u8) -> Address {
        let of_key = |event: &&Event| match event.change {
            Change::Set(of, _) | Change::Delete(of) => of == key,
            Change::Flush => true,
            Change::Delay => false,
        };
        let mut published = self.events.iter().filter(|event| event.published);
        published.rfind(of_key).map_or(Address::NONE, |event| event.at)
    }

    /// Called when a client has received a response that reveals the change at `at`. This change
    /// and all earlier ones must survive from now on.
    pub(crate) fn answer(&mut self, at: Address) {
        let kept = self.events.iter().filter(|event| event.at > at || !event.published).copied();
        let kept = kept.collect();
        let answered = self.events.iter().filter(|event| event.at <= at && event.published);
        self.base = answered.fold(self.base, |items, event| items.apply(event.change));
        self.events = kept;
    }

    /// Checks the state after memory was lost: `found` must be the result of a prefix of the
    /// history.
    pub(crate) fn recover(&mut self, found: Items, struck: bool) -> Result<(), String> {
        let mut ends = vec![self.base];
        let mut allowed = vec![self.base];
        for event in &self.events {
            let with: Vec<Items> = ends.iter().map(|items| items.apply(event.change)).collect();
            allowed.extend(&with);
            if event.published {
                ends = with;
            } else {
                ends.extend(with);
            }
        }
        let found = found.seen(struck);
        if !allowed.iter().any(|items| items.seen(struck) == found) {
            return Err(format!("recovery found {found:?}; allowed is {allowed:?}"));
        }
        *self = Self { base: found, events: Vec::new() };
        Ok(())
    }
}
