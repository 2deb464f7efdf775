//! What was done to the keys, and what of it a crash may take.

use std::collections::BTreeMap;

/// The value of each key, by the number of the write that made it.
pub(crate) type Items = BTreeMap<u8, u32>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Set(u8, u32),
    Delete(u8),
    Flush,
    /// A flush that is due at this time.
    Delay(u64),
}

/// The items, and the delayed flush that is pending.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct State {
    pub(crate) items: Items,
    pub(crate) delay: Option<u64>,
}

impl State {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Set(key, write) => {
                self.items.insert(key, write);
            }
            Change::Delete(key) => {
                self.items.remove(&key);
            }
            Change::Flush => *self = Self::default(),
            Change::Delay(due) => self.delay = Some(due),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct History {
    /// What no crash may take.
    durable: State,
    /// Changes since then.
    since: Vec<Change>,
}

impl History {
    pub(crate) fn did(&mut self, change: Change) {
        self.since.push(change);
    }

    /// Everything so far was acknowledged as durable.
    pub(crate) fn acknowledge(&mut self) {
        for change in self.since.drain(..) {
            self.durable.apply(change);
        }
    }

    /// Checks what recovery found: what some prefix of the changes left. Goes on from there.
    pub(crate) fn recovered(&mut self, found: State) {
        let mut state = self.durable.clone();
        let mut prefixes = vec![state.clone()];
        for change in &self.since {
            state.apply(*change);
            prefixes.push(state.clone());
        }
        assert!(
            prefixes.contains(&found),
            "recovery found {found:?}\nacknowledged was {:?}\nthen came {:?}",
            self.durable,
            self.since
        );
        *self = Self { durable: found, since: Vec::new() };
    }
}
