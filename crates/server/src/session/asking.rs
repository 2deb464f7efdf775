//! Commands that need the disk: the session stops before them, until what they need was read.

use larder::Asking;
use larder_item::StoreMode;
use larder_protocol::{Command, Store};

use super::Session;
use super::batch::{Batch, ParsedCommand};
use super::observer::key_of;
use super::payload::{Payload, payload_bytes};
use crate::session::execute::{Executor, is_read};

impl Session {
    /// Returns the key that must be looked up on the disk before a command. Reads find out
    /// themselves (see [`Executed::AsksDisk`](crate::session::execute::Executed::AsksDisk)), unless
    /// an observer looks at the item before them.
    pub(super) fn asked_before(batch: &Batch<'_>, parsed: ParsedCommand<'_>) -> Option<Box<[u8]>> {
        if finds_out(parsed.command) && batch.interest.is_none() {
            return None;
        }
        if let Command::Store(store) = parsed.command
            && parsed.input.len() - parsed.consumed < payload_bytes(store, parsed.frame)
        {
            // Once its value is there.
            return None;
        }
        let key = key_of(parsed.command)?;
        let cache = batch.executor.cache();
        cache.asks_disk(key, asking(parsed.command)).then(|| key.into())
    }

    /// Returns the keys to look up on the disk: that of the command which waits, and those of reads
    /// behind it in `input`.
    pub(crate) fn keys_to_ask(&mut self, executor: &Executor, input: &[u8]) -> Vec<Box<[u8]>> {
        let cache = executor.cache();
        // It may have waited for room only.
        cache.note_disk_waited(true);
        let asked = self.asked.take().filter(|key| cache.asks_disk(key, Asking::Changes));
        cache.note_disk_waited(false);
        let mut keys: Vec<Box<[u8]>> = asked.into_iter().collect();
        for (key, asking) in self.ahead(input).take(AHEAD_MAX) {
            let is_new = asking == Asking::Reads && keys.iter().all(|asked| **asked != *key);
            if is_new && cache.asks_disk(key, asking) {
                keys.push(key.into());
            }
        }
        keys
    }
}

/// Returns the key to look up if `input` completes the value of a store that must wait for that.
pub(super) fn asked_of(executor: &Executor, payload: &Payload, input: &[u8]) -> Option<Box<[u8]>> {
    let store = payload.ended_by(input.len())?;
    executor.cache().asks_disk(store.key, asking_of(&store)).then(|| store.key.into())
}

/// Returns how a command depends on the item of its key.
pub(super) fn asking(command: &Command<'_>) -> Asking {
    match command {
        Command::Get { exptime: None, .. } | Command::LeaseGet { .. } | Command::Inspect { .. } => {
            Asking::Reads
        }
        Command::Fetch(fetch) if is_read(fetch) => Asking::Reads,
        Command::Store(store) => asking_of(store),
        _ => Asking::Changes,
    }
}

/// True if the command itself finds out that it needs the disk.
fn finds_out(command: &Command<'_>) -> bool {
    match command {
        Command::Get { exptime: None, .. } | Command::LeaseGet { .. } => true,
        Command::Fetch(fetch) => is_read(fetch),
        _ => false,
    }
}

fn asking_of(store: &Store<'_>) -> Asking {
    let is_plain = store.mode == StoreMode::Set
        && store.cas.is_none()
        && store.lease.is_none()
        && !store.invalidate;
    if is_plain { Asking::Replaces } else { Asking::Changes }
}

/// How many commands ahead keys are looked up together.
const AHEAD_MAX: usize = 16;
