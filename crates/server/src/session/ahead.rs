//! Looks ahead at commands in the input that will be executed later. A worker prefetches the memory
//! for their keys, and looks several keys up on the disk together.

use larder::DiskNeed;
use larder_protocol::{Arithmetic, Command, Copied, Delete, Fetch, Parsed};
use larder_stats::Timing;

use super::suspended::asking;
use super::{Session, State, payload_bytes};

impl Session {
    /// Returns the keys of the first commands of `input` without executing anything. The same input
    /// is passed to [`Self::receive`] later.
    pub(crate) fn keys_ahead<'a>(
        &self,
        input: &'a [u8],
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.ahead(input).map(|(key, _)| key)
    }

    /// Same as [`Self::keys_ahead`], but also returns for which purpose each command needs the item
    /// of its key: to read it, to replace it, or to make a change that depends on it.
    pub(super) fn ahead<'a>(
        &self,
        input: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], DiskNeed)> + use<'a> {
        let mut parser = self.parser.clone();
        let mut rest = match &self.state {
            State::Command => input,
            State::Suspended(suspended) => {
                input.get(suspended.payload_bytes()..).unwrap_or_default()
            }
            _ => &[],
        };
        std::iter::from_fn(move || {
            loop {
                let (command, frame, consumed) = match parser.next(rest) {
                    Parsed::Command { command, frame, consumed } => (command, frame, consumed),
                    Parsed::Skipped { consumed } => {
                        rest = &rest[consumed..];
                        continue;
                    }
                    Parsed::NeedMore | Parsed::Bad(_) => return None,
                };
                rest = &rest[consumed..];
                let asking = asking(&command);
                match command {
                    Command::Get { key, .. }
                    | Command::Delete(Delete { key, .. })
                    | Command::Arithmetic(Arithmetic { key, .. })
                    | Command::Fetch(Fetch { key, .. })
                    | Command::Touch { key, .. } => return Some((key, asking)),
                    Command::Store(store) => {
                        rest = rest.get(payload_bytes(&store, &frame)..).unwrap_or_default();
                        return Some((store.key, asking));
                    }
                    Command::Copy(Copied { key, base64: false, .. }) => return Some((key, asking)),
                    Command::EndOfKeys => {}
                    _ => return None,
                }
            }
        })
    }

    /// Returns the statistic that measures the first command of `input`; `None` if the session is
    /// in the middle of a response or the command is incomplete.
    pub(crate) fn timing_ahead(&self, input: &[u8]) -> Option<Timing> {
        match self.state {
            State::Command => {}
            State::Payload(_) => return Some(Timing::Set),
            _ => return None,
        }
        let (mut parser, mut rest) = (self.parser.clone(), input);
        loop {
            match parser.next(rest) {
                Parsed::Command { command, .. } => return Some(timing(&command)),
                Parsed::Skipped { consumed } => rest = &rest[consumed..],
                Parsed::Bad(_) => return Some(Timing::Other),
                Parsed::NeedMore => return None,
            }
        }
    }
}

/// Returns the statistic that measures a batch whose first command is `command`.
fn timing(command: &Command<'_>) -> Timing {
    match command {
        Command::Get { .. } | Command::LeaseGet { .. } | Command::Fetch(_) => Timing::Get,
        Command::Store(_) => Timing::Set,
        _ => Timing::Other,
    }
}
