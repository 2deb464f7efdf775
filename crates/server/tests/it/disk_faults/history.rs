//! A client of a store that remembers its changes in order. A *store* is a disk tier that keeps all
//! items, so after a failure the server must start with the effects of some first part of these
//! changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use larder_testkit::Stream;

use super::value;

/// A change of one of the client's keys.
pub(crate) struct Change {
    key: u32,
    /// The number in the value that was set; `None` if the key was deleted.
    number: Option<u32>,
    pub(crate) answered: Option<Instant>,
}

impl Change {
    /// Returns how many bytes the change occupies in the log's memory, without the record's header.
    pub(crate) fn bytes(&self) -> usize {
        self.number.map_or(0, |number| value_of(number).len())
    }
}

/// The changes that a client has requested, one after the other, on its own keys.
pub(crate) struct History {
    name: u32,
    numbers: u32,
    changes: Vec<Change>,
}

impl History {
    pub(crate) fn new(name: u32) -> Self {
        Self { name, numbers: 0, changes: Vec::new() }
    }

    /// Changes keys until a response is an error or the connection ends, and returns that error.
    pub(crate) fn work(&mut self, stream: &mut Stream, is_over: &AtomicBool) -> Result<()> {
        while !is_over.load(Relaxed) {
            self.change(stream)?;
        }
        Ok(())
    }

    /// Makes one change.
    pub(crate) fn change(&mut self, stream: &mut Stream) -> Result<()> {
        self.numbers += 1;
        let number = self.numbers;
        let key = number.wrapping_mul(2_654_435_761) % KEYS;
        let name = self.key(key);
        let (request, number) = match number % 5 {
            0 => (format!("delete {name}\r\n").into_bytes(), None),
            _ => {
                let value = value_of(number);
                let head = format!("set {name} 0 0 {}\r\n", value.len());
                ([head.as_bytes(), &value, b"\r\n"].concat(), Some(number))
            }
        };
        self.changes.push(Change { key, number, answered: None });
        let answer = stream.ask(&request, b"\r\n")?;
        ensure!(
            [&b"STORED\r\n"[..], b"DELETED\r\n", b"NOT_FOUND\r\n"].contains(&&answer[..]),
            "{}",
            answer.escape_ascii()
        );
        let last = self.changes.last_mut().context("a change")?;
        last.answered = Some(Instant::now());
        Ok(())
    }

    /// Returns the number of changes that were answered.
    pub(crate) fn answered(&self) -> usize {
        self.changes.iter().filter(|change| change.answered.is_some()).count()
    }

    /// Checks that a store contains the effects of the first changes up to some change, and of no
    /// later one. Returns the later changes, which are lost, and forgets them.
    pub(crate) fn check(&mut self, stream: &mut Stream) -> Result<Vec<Change>> {
        let mut found = HashMap::new();
        for key in 0..KEYS {
            if let Some(value) = value(stream, &self.key(key))? {
                let number = std::str::from_utf8(value.get(..8).context("a number")?)?.parse()?;
                ensure!(value == value_of(number), "{} has bytes of no client", self.key(key));
                found.insert(key, number);
            }
        }
        let kept = self.longest_beginning(&found).with_context(|| {
            let name = self.name;
            format!("what client {name} finds is not what some of its changes have left: {found:?}")
        })?;
        Ok(self.changes.split_off(kept))
    }

    /// Returns the number of changes, counted from the first, after which the keys had this state.
    /// If they had it several times, returns the highest number.
    fn longest_beginning(&self, found: &HashMap<u32, u32>) -> Option<usize> {
        let mut has: HashMap<u32, Option<u32>> = HashMap::new();
        let mut different = found.len();
        let mut longest = (different == 0).then_some(0);
        for (at, Change { key, number, .. }) in self.changes.iter().enumerate() {
            let wanted = found.get(key).copied();
            let before = has.insert(*key, *number).flatten();
            different -= usize::from(before != wanted);
            different += usize::from(*number != wanted);
            if different == 0 {
                longest = Some(at + 1);
            }
        }
        longest
    }

    fn key(&self, key: u32) -> String {
        format!("{}-{key}", self.name)
    }
}

fn value_of(number: u32) -> Vec<u8> {
    let bytes = if number.is_multiple_of(7) { 20_000 } else { number as usize % 3000 };
    format!("{number:08}").into_bytes().into_iter().cycle().take(8 + bytes).collect()
}

const KEYS: u32 = 150;
