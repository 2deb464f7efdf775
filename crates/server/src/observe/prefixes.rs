//! `stats detail`: counts commands by the prefix of their keys.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use larder_protocol::text::dump::push_word;

/// The counters. All workers share one lock: counting is optional and off by default.
#[derive(Debug)]
pub(crate) struct Prefixes {
    /// The byte that ends the prefix of a key.
    delimiter: u8,
    counts: Mutex<BTreeMap<Box<[u8]>, Counts>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// The effect of a command on a key, as far as the counters distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Get { hit: bool },
    Set,
    Delete,
}

impl Prefixes {
    /// Creates empty counters. A prefix ends before the first `delimiter`.
    pub(crate) fn new(delimiter: u8) -> Self {
        Self { delimiter, counts: Mutex::default() }
    }

    /// Counts a command. A key without a delimiter has no prefix.
    pub(crate) fn count(&self, key: &[u8], access: Access) {
        let Some(end) = key.iter().position(|byte| *byte == self.delimiter) else {
            return;
        };
        let prefix = &key[..end];
        let mut all = self.counts();
        let is_full = all.len() >= PREFIXES_MAX;
        let counts = match all.get_mut(prefix) {
            Some(counts) => counts,
            None if is_full => return,
            None => all.entry(prefix.into()).or_default(),
        };
        match access {
            Access::Get { hit } => {
                counts.gets += 1;
                counts.hits += u64::from(hit);
            }
            Access::Set => counts.sets += 1,
            Access::Delete => counts.deletes += 1,
        }
    }

    /// Removes all counters.
    pub(crate) fn reset(&self) {
        self.counts().clear();
    }

    /// Appends the lines of the prefixes after `last`, about `bytes_max` bytes of them, and
    /// advances `last`. Returns true at the end. All lines together may be 8 MiB long.
    pub(crate) fn dump(
        &self,
        last: &mut Option<Box<[u8]>>,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let (counts, end) = (self.counts(), out.len() + bytes_max);
        let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut shown: Option<&Box<[u8]>> = None;
        for (prefix, counts) in counts.range::<[u8], _>((from, Bound::Unbounded)) {
            if out.len() >= end {
                *last = shown.cloned();
                return false;
            }
            let Counts { gets, hits, sets, deletes } = counts;
            out.extend_from_slice(b"PREFIX ");
            push_word(out, prefix);
            let numbers = format_args!(" get {gets} hit {hits} set {sets} del {deletes}\r\n");
            out.write_fmt(numbers).expect("a vector takes any number of bytes");
            shown = Some(prefix);
        }
        true
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Box<[u8]>, Counts>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of prefixes. Clients choose them, up to 250 bytes long.
const PREFIXES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(prefixes: &Prefixes) -> String {
        let (mut out, mut last) = (Vec::new(), None);
        while !prefixes.dump(&mut last, 50, &mut out) {}
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn commands_are_counted_up_to_the_first_delimiter() {
        let prefixes = Prefixes::new(b'/');
        prefixes.count(b"a/b/c", Access::Get { hit: true });
        prefixes.count(b"a/", Access::Get { hit: false });
        prefixes.count(b"/", Access::Set);
        prefixes.count(b"plain:key", Access::Set);
        prefixes.count(b"a/b", Access::Delete);
        let lines = "PREFIX  get 0 hit 0 set 1 del 0\r\nPREFIX a get 2 hit 1 set 0 del 1\r\n";
        assert_eq!(dump(&prefixes), lines);
        prefixes.reset();
        assert_eq!(dump(&prefixes), "");
    }

    #[test]
    fn a_prefix_with_a_line_end_in_it_does_not_end_the_list() {
        let prefixes = Prefixes::new(b':');
        prefixes.count(b"a\r\nEND\r\n:k", Access::Set);
        assert_eq!(dump(&prefixes), "PREFIX a%0D%0AEND%0D%0A get 0 hit 0 set 1 del 0\r\n");
    }

    #[test]
    fn the_number_of_prefixes_is_bounded() {
        let prefixes = Prefixes::new(b':');
        for number in 0..PREFIXES_MAX + 5 {
            prefixes.count(format!("{number}:k").as_bytes(), Access::Set);
        }
        prefixes.count(b"0:k", Access::Set);
        let dump = dump(&prefixes);
        assert_eq!(dump.lines().count(), PREFIXES_MAX);
        assert!(dump.starts_with("PREFIX 0 get 0 hit 0 set 2 del 0\r\n"), "{}", &dump[..50]);
    }
}
