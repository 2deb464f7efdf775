//! Hints: the client reports a sample of its reads in the server's memory to the server, which
//! would otherwise evict items in use.

use larder_item::Second;
use larder_protocol::local;

/// Number of reads after which hints are sent.
const KEYS_MAX: usize = 64;
/// Age of the oldest hint, in seconds, after which hints are sent.
const AGE_SECS_MAX: Second = 1;
/// Maximum number of bytes that are kept while no connection accepts them.
const BYTES_MAX: usize = 64 << 10;

/// Hint lines that are not sent yet.
#[derive(Debug, Default)]
pub(super) struct Hints {
    /// The last line is not terminated yet.
    lines: Vec<u8>,
    /// Offset of the last line.
    last_at: usize,
    /// The number of keys in `lines`.
    keys: usize,
    /// The second of the first read, in the cache's time.
    since: Second,
}

impl Hints {
    /// Records a read at second `now`. True if the hints should be sent now.
    pub(super) fn push(&mut self, key: &[u8], now: Second) -> bool {
        if self.lines.len() > BYTES_MAX {
            self.clear();
        }
        if self.keys == 0 {
            self.since = now;
        }
        let longest = key.len().div_ceil(3) * 4 + 1;
        if self.lines.len() - self.last_at + longest > local::HINT_BYTES_MAX {
            self.end_line();
        }
        if self.lines.len() == self.last_at {
            self.lines.extend_from_slice(local::HINT);
        }
        local::push_key(&mut self.lines, key);
        self.keys += 1;
        self.keys >= KEYS_MAX || now.abs_diff(self.since) > AGE_SECS_MAX
    }

    /// Moves all lines to the end of `out`.
    pub(super) fn move_to(&mut self, out: &mut Vec<u8>) {
        if self.keys > 0 {
            self.end_line();
            out.extend_from_slice(&self.lines);
        }
        self.clear();
    }

    fn end_line(&mut self) {
        self.lines.extend_from_slice(b"\r\n");
        self.last_at = self.lines.len();
    }

    fn clear(&mut self) {
        self.lines.clear();
        (self.last_at, self.keys) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete_and_within_the_length_limit() {
        let mut hints = Hints::default();
        let mut out = Vec::new();
        hints.move_to(&mut out);
        assert_eq!(out, b"");
        for number in 1..=KEYS_MAX {
            let are_due = hints.push(&vec![b'k'; number * 3 % 250 + 1], 5);
            assert_eq!(are_due, number == KEYS_MAX);
        }
        hints.move_to(&mut out);
        assert!(!hints.push(b"k", 6));
        assert!(!hints.push(b"k", 7));
        assert!(hints.push(b"k", 8));
        let lines: Vec<_> = out.split(|byte| *byte == b'\n').collect();
        assert_eq!(lines.last(), Some(&&b""[..]));
        let mut keys = 0;
        for line in &lines[..lines.len() - 1] {
            let line = line.strip_suffix(b"\r").unwrap();
            assert!(line.len() <= local::HINT_BYTES_MAX, "{}", line.len());
            keys += local::keys(line.strip_prefix(local::HINT).unwrap()).count();
        }
        assert_eq!(keys, KEYS_MAX);
    }

    #[test]
    fn hints_are_dropped_if_no_connection_takes_them() {
        let mut hints = Hints::default();
        (0..100_000).for_each(|_| {
            hints.push(b"a key", 5);
        });
        assert!(hints.lines.len() <= BYTES_MAX + 1000);
    }
}
