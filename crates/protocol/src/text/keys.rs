//! The keys of one `get`, `gets`, `gat`, `gats`, `lease-get` or `metaget`, yielded one by one.

use larder_item::KEY_BYTES_MAX;
use memchr::memchr;

use crate::command::Command;
use crate::frame::Frame;
use crate::lines::line::Line;
use crate::lines::words::trim_spaces;
use crate::parsed::Parsed;

/// The rest of a checked line that contains keys. The caller keeps the line itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    ask: Ask,
    /// Bytes of the line that are not consumed yet, including its end.
    left_bytes: usize,
}

/// The command to yield for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Get { with_cas: bool, exptime: Option<i64> },
    Lease,
    Inspect,
}

impl Ask {
    #[inline]
    pub(super) fn command(self, key: &[u8]) -> Command<'_> {
        match self {
            Self::Get { with_cas, exptime } => Command::Get { key, with_cas, exptime },
            Self::Lease => Command::LeaseGet { key },
            Self::Inspect => Command::Inspect { key },
        }
    }
}

impl Keys {
    /// Returns the keys in `names`, the last part of `line`, which begins with the first key.
    /// Checks all keys before the first one is yielded. Returns `None` if there is no key or a key
    /// is too long.
    #[inline]
    pub(super) fn of(line: &Line<'_>, names: &[u8], ask: Ask) -> Option<Self> {
        if names.is_empty() || !all_short(names) {
            return None;
        }
        let end_bytes = line.bytes - line.text.len();
        Some(Self { ask, left_bytes: names.len() + end_bytes })
    }

    /// Returns the next key. At the end of the line, consumes the line and returns
    /// [`Command::EndOfKeys`]. `input` begins at the first byte that is not consumed.
    #[inline]
    pub(super) fn next<'a>(&mut self, input: &'a [u8]) -> Parsed<'a> {
        let Some(with_end) = input.get(..self.left_bytes) else {
            return Parsed::NeedMore;
        };
        let names = Line::new(with_end).text;
        if names.is_empty() {
            return Parsed::Command {
                command: Command::EndOfKeys,
                frame: Frame::default(),
                consumed: with_end.len(),
            };
        }
        self.take_first(names, 0)
    }

    /// Consumes the first key of `names` and the spaces after it.
    #[inline]
    pub(super) fn take_first<'a>(&mut self, names: &'a [u8], skipped_bytes: usize) -> Parsed<'a> {
        let key_bytes = memchr(b' ', names).unwrap_or(names.len());
        let (key, rest) = names.split_at(key_bytes);
        let used_bytes = names.len() - trim_spaces(rest).len();
        self.left_bytes -= used_bytes;
        Parsed::Command {
            command: self.ask.command(key),
            frame: Frame::default(),
            consumed: skipped_bytes + used_bytes,
        }
    }
}

/// True if no key exceeds the length limit.
#[inline]
fn all_short(names: &[u8]) -> bool {
    names.len() <= KEY_BYTES_MAX
        || names.split(|byte| *byte == b' ').all(|key| key.len() <= KEY_BYTES_MAX)
}
