//! The names in the simulated directory.

use std::collections::BTreeMap;

/// The number of a file on its disk.
pub(super) type InodeNumber = u64;

/// A change of the names.
#[derive(Clone, Debug)]
enum NameChange {
    Create(String, InodeNumber),
    Rename { from: String, to: String },
    Exchange(String, String),
}

type Table = BTreeMap<String, InodeNumber>;

fn apply(change: &NameChange, table: &mut Table) {
    match change {
        NameChange::Create(name, number) => {
            table.insert(name.clone(), *number);
        }
        NameChange::Rename { from, to } => {
            if let Some(number) = table.remove(from) {
                table.insert(to.clone(), number);
            }
        }
        NameChange::Exchange(one, other) => {
            if let (Some(first), Some(second)) = (table.remove(one), table.remove(other)) {
                table.insert(one.clone(), second);
                table.insert(other.clone(), first);
            }
        }
    }
}

/// The names in the cache and on the platter.
#[derive(Debug, Default)]
pub(super) struct Names {
    durable: Table,
    cached: Table,
    /// The changes between `durable` and `cached`.
    unsynced: Vec<NameChange>,
}

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<InodeNumber> {
        self.cached.get(name).copied()
    }

    /// True if the file has a name, or may have one after a power loss.
    pub(super) fn leads_to(&self, number: InodeNumber) -> bool {
        let created = self
            .unsynced
            .iter()
            .any(|change| matches!(change, NameChange::Create(_, created) if *created == number));
        let named = |table: &Table| table.values().any(|named| *named == number);
        created || named(&self.durable) || named(&self.cached)
    }

    pub(super) fn create(&mut self, name: &str, number: InodeNumber) {
        self.change(NameChange::Create(name.to_owned(), number));
    }

    /// Returns false if `from` does not exist.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> bool {
        let exists = self.cached.contains_key(from);
        if exists {
            self.change(NameChange::Rename { from: from.to_owned(), to: to.to_owned() });
        }
        exists
    }

    /// Returns false if one of the files does not exist.
    pub(super) fn exchange(&mut self, one: &str, other: &str) -> bool {
        let exist = self.cached.contains_key(one) && self.cached.contains_key(other);
        if exist {
            self.change(NameChange::Exchange(one.to_owned(), other.to_owned()));
        }
        exist
    }

    fn change(&mut self, change: NameChange) {
        apply(&change, &mut self.cached);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.cached);
        self.unsynced.clear();
    }

    /// Keeps a random number of the first changes, like a journaling file system.
    pub(super) fn lose_power(&mut self, rng: &mut fastrand::Rng) {
        let kept = rng.usize(..=self.unsynced.len());
        for change in self.unsynced.drain(..).take(kept) {
            apply(&change, &mut self.durable);
        }
        self.cached.clone_from(&self.durable);
    }
}
