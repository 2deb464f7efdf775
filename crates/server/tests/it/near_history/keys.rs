//! The keys of a history, and the values that clients write.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};

use anyhow::{Context, Result, ensure};
use larder_protocol::follow::Terms;
use larder_testkit::history::Version;
use larder_testkit::{Address, Stream};

use super::cluster::Origins;

/// What clients do with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A text that no command removes, except for a flush. Its versions have a total order.
    Lasting,
    /// A text that clients also delete.
    Deleted,
    /// A text that `delete_prefix` removes.
    Prefixed,
    /// A counter.
    Counter,
    /// A counter that clients also delete.
    DeletedCounter,
}

impl Kind {
    pub(super) fn is_counter(self) -> bool {
        matches!(self, Self::Counter | Self::DeletedCounter)
    }

    pub(super) fn is_deleted(self) -> bool {
        matches!(self, Self::Deleted | Self::Prefixed | Self::DeletedCounter)
    }

    fn letter(self) -> char {
        match self {
            Self::Lasting => 'l',
            Self::Deleted => 'd',
            Self::Prefixed => 'p',
            Self::Counter => 'n',
            Self::DeletedCounter => 'm',
        }
    }
}

pub(super) const KINDS: [Kind; 8] = [
    Kind::Lasting,
    Kind::Deleted,
    Kind::Lasting,
    Kind::Prefixed,
    Kind::Counter,
    Kind::DeletedCounter,
    Kind::Deleted,
    Kind::Prefixed,
];

/// The number of keys that are tried for each name.
const CANDIDATES: usize = 4000;
/// A counter begins at the number of its write times this.
const COUNTS: u64 = 1_000_000;
/// More than the default of `--near-item-max`.
const LARGE_BYTES: usize = 100 << 10;

/// The names of the keys of a round, in the order of [`KINDS`].
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) names: Vec<String>,
    /// The number of the origin of each key.
    pub(super) owners: Vec<usize>,
    pub(super) prefix: String,
}

impl Keys {
    /// Chooses names that no earlier round had. If the first of the origins has change streams, the
    /// first key and the second one belong to it and share a bucket, and so do the third and the
    /// fourth.
    pub(super) fn of_round(round: u64, origins: &Origins) -> Self {
        let name = |kind: Kind, number| format!("h{round}{}{number}", kind.letter());
        // Each origin owns some of the keys.
        let count = origins.addresses.len();
        let owned = |(number, kind): (usize, &Kind)| {
            let mut names = (0..CANDIDATES).map(|again| name(*kind, number + again * KINDS.len()));
            names.find(|name| origins.owner_of(name) == number % count).unwrap_or_default()
        };
        let mut names: Vec<String> = KINDS.iter().enumerate().map(owned).collect();
        // Servers without change streams respond with an error.
        if let Ok(terms) = terms(&origins.addresses[0]) {
            for pair in [0, 2] {
                let named = |kind: Kind| {
                    // The numbers of the pairs differ, so that no two keys have the same name.
                    let numbers = (10 + pair) * CANDIDATES..(11 + pair) * CANDIDATES;
                    let names = numbers.map(move |number| name(kind, number));
                    names.filter(|name| origins.owner_of(name) == 0)
                };
                let buckets: HashMap<u32, String> =
                    named(KINDS[pair]).map(|key| (terms.bucket_of(key.as_bytes()), key)).collect();
                let shared = named(KINDS[pair + 1]).find_map(|key| {
                    Some((buckets.get(&terms.bucket_of(key.as_bytes()))?.clone(), key))
                });
                if let Some((first, second)) = shared {
                    (names[pair], names[pair + 1]) = (first, second);
                }
            }
        }
        let owners = names.iter().map(|name| origins.owner_of(name)).collect();
        Self { names, owners, prefix: format!("h{round}{}", Kind::Prefixed.letter()) }
    }

    /// Returns the value of a new write.
    pub(super) fn value(&self, key: usize, write: u64, is_large: bool) -> Vec<u8> {
        if KINDS[key].is_counter() {
            return (write * COUNTS).to_string().into_bytes();
        }
        let mut value = format!("{}:{write}", self.names[key]).into_bytes();
        if is_large {
            value.resize(LARGE_BYTES, b'~');
        }
        value
    }

    /// Returns the version that a value represents: its last write.
    pub(super) fn version(&self, key: usize, value: &[u8]) -> Result<Version> {
        let text = || format!("key {}: {}", self.names[key], value.escape_ascii());
        let number = |word: &str| word.parse::<u64>().with_context(text);
        let read = std::str::from_utf8(value).with_context(text)?;
        if KINDS[key].is_counter() {
            let number = number(read)?;
            return Ok(Version { write: number / COUNTS, count: number % COUNTS });
        }
        let (name, writes) = read.split_once(':').with_context(text)?;
        ensure!(name == self.names[key], "a value of another key: {}", text());
        let writes = writes.replace('~', "");
        let writes = writes.split(',').map(number).collect::<Result<Vec<u64>>>()?;
        Ok(Version::of(*writes.last().with_context(text)?))
    }
}

/// Asks an origin for the terms of a change stream, and ends the stream.
fn terms(origin: &Address) -> Result<Terms> {
    let mut stream = Stream::connect(origin)?;
    stream.write_all(b"larder_follow 60000\r\n")?;
    let mut line = Vec::new();
    BufReader::new(stream).read_until(b'\n', &mut line)?;
    Terms::read(line.trim_ascii_end()).context("no change streams")
}
