//! The history of changes, and the part of it that a crash may lose.

use std::collections::BTreeMap;

/// The value of each key, as the number of its write.
pub(crate) type Items = BTreeMap<u8, u32>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Set(u8, u32),
    Delete(u8),
    Flush,
    /// A flush that is due at this time.
    Delay(u64),
}

/// The items, and the pending delayed flush.
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
    /// The state that no crash may lose.
    durable: State,
    /// The changes since then.
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

    /// Checks that recovery found the result of a prefix of the changes, and continues from there.
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
