//! Commands that need the disk: the session stops before them, until what they need was read.

use larder::Asking;
use larder_item::{KEY_BYTES_MAX, StoreMode};
use larder_protocol::{Command, Fetch, Frame, Parsed, Store};

use super::Session;
use super::batch::Batch;
use super::observer::key_of;
use super::payload::{Payload, payload_bytes};
use crate::session::execute::Executor;

impl Session {
    /// True if the first command of `input` must wait until its key was looked up on the disk.
    pub(super) fn must_ask(&mut self, batch: &Batch<'_>, input: &[u8]) -> bool {
        let Parsed::Command { command, frame, consumed } = self.parser.clone().next(input) else {
            return false;
        };
        let Some(key) = key_of(&command) else { return false };
        if let Command::Store(store) = &command
            && input.len() - consumed < payload_bytes(store, &frame)
        {
            // Once its value is there.
            return false;
        }
        let mut bytes = [0; KEY_BYTES_MAX];
        let key = match &frame {
            Frame::Meta(frame) if frame.base64 => frame.decoded_key(&mut bytes).unwrap_or(key),
            _ => key,
        };
        let must_ask = batch.executor.cache().asks_disk(key, asking(&command));
        if must_ask {
            self.asked = Some(key.into());
        }
        must_ask
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
        Command::Get { exptime: None, .. }
        | Command::LeaseGet { .. }
        | Command::Inspect { .. }
        | Command::Fetch(Fetch { exptime: None, vivify: None, .. }) => Asking::Reads,
        Command::Store(store) => asking_of(store),
        _ => Asking::Changes,
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
