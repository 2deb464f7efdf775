//! Commands that need the disk, in a cache with a disk tier. A session must not wait for the disk,
//! because its worker serves other connections. It stops before such a command, its caller reads
//! the disk, and the session then executes the command.

use larder::{DiskNeed, Wait};
use larder_item::StoreMode;
use larder_protocol::{Command, OwnedCommand, OwnedFrame, Store};

use super::batch::{Batch, ParsedCommand, Step, words};
use super::observer::key_of;
use super::payload::{Payload, payload_bytes};
use super::{Next, Session, State};
use crate::session::execute::{Executor, is_read};

/// A command that waits for a disk read.
#[derive(Debug)]
pub(super) struct SuspendedCommand {
    command: OwnedCommand,
    frame: OwnedFrame,
    /// The part of the command that the log may show.
    words: Box<[u8]>,
    /// Length of the command in bytes.
    consumed: usize,
}

impl Session {
    /// Keeps a command until the disk was read. The value of a store stays in the input.
    #[cold]
    pub(super) fn suspend(&mut self, parsed: ParsedCommand<'_>) -> Step {
        let ParsedCommand { command, frame, input, consumed, .. } = parsed;
        let words = words(Some(command), frame, input, consumed).into();
        let Some(command) = command.keep() else {
            // Only commands on an item need the disk.
            return Step::Stop(consumed, Next::Close);
        };
        self.asked = Some(command.key().into());
        let suspended = SuspendedCommand { command, frame: frame.keep(), words, consumed };
        self.state = State::Suspended(Box::new(suspended));
        Step::Stop(consumed, Next::Disk)
    }

    /// Executes the suspended command. If it is a store, `input` begins with its value.
    #[cold]
    pub(super) fn resume(&mut self, batch: &mut Batch<'_>, input: &[u8]) -> Step {
        let State::Suspended(suspended) = std::mem::replace(&mut self.state, State::Command) else {
            return Step::GoOn(0);
        };
        let SuspendedCommand { command, frame, words, consumed } = &*suspended;
        let (command, frame) = (&command.command(), &frame.frame_with(command.key()));
        let (consumed, rest) = (*consumed, input);
        let parsed = ParsedCommand { command, frame, input: words, consumed, rest };
        // The command was judged before it was suspended, and has used up one request of a rate.
        let judges = batch.interest.judges();
        batch.interest = batch.interest.observed();
        let step = match self.only_reads(command) {
            true => batch.executor.only_reading(|| self.run(batch, parsed)),
            false => self.run(batch, parsed),
        };
        batch.interest = batch.interest.judged(judges);
        match step {
            Step::GoOn(bytes) => Step::GoOn(bytes - consumed),
            Step::Stop(bytes, next) => Step::Stop(bytes - consumed, next),
        }
    }

    /// True if a command must be suspended before it is executed, because an observer looks up its
    /// item first. Other commands find out during execution that they need the disk.
    pub(super) fn must_suspend(batch: &Batch<'_>, parsed: ParsedCommand<'_>) -> bool {
        if !batch.wait.asks() || !batch.interest.reports() {
            return false;
        }
        if let Command::Store(store) = parsed.command
            && parsed.rest.len() < payload_bytes(store, parsed.frame)
        {
            // The command is suspended once its value has arrived.
            return false;
        }
        let raw = batch.executor.cache().raw(batch.wait);
        key_of(parsed.command).is_some_and(|key| raw.needs_disk(key, asking(parsed.command)))
    }

    /// Returns the keys to look up on the disk: the key of the suspended command, and the keys of
    /// reads that follow it in `input`.
    pub(crate) fn keys_to_ask(
        &mut self,
        executor: &Executor,
        wait: Wait<'_>,
        input: &[u8],
    ) -> Vec<Box<[u8]>> {
        let raw = executor.cache().raw(wait);
        // If the command was suspended only until the disk accepted earlier changes, its key need
        // not be looked up.
        let asked = self.asked.take().filter(|key| raw.must_look_up(key, DiskNeed::Changes));
        let mut keys: Vec<Box<[u8]>> = asked.into_iter().collect();
        for (key, asking) in self.ahead(input).take(AHEAD_MAX) {
            let is_new = asking == DiskNeed::Reads && keys.iter().all(|asked| **asked != *key);
            if is_new && self.may_read_key(key) && raw.must_look_up(key, asking) {
                keys.push(key.into());
            }
        }
        keys
    }
}

impl SuspendedCommand {
    /// Returns how many bytes of the input are the value of the store, including its line end.
    pub(super) fn payload_bytes(&self) -> usize {
        match self.command.command() {
            Command::Store(store) => payload_bytes(&store, &self.frame.frame()),
            _ => 0,
        }
    }

    /// Returns the memory that the command owns, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.command.key().len() + self.words.len()
    }
}

/// Returns the key of a store that must not be executed before its key was looked up on the disk,
/// if `input` completes the value of the store; otherwise `None`.
pub(super) fn asked_of(batch: &Batch<'_>, payload: &Payload, input: &[u8]) -> Option<Box<[u8]>> {
    let store = payload.ended_by(input.len())?;
    let raw = batch.executor.cache().raw(batch.wait);
    raw.needs_disk(store.key, asking_of(&store)).then(|| store.key.into())
}

/// Returns for which purpose a command needs the item of its key: to read it, to replace it, or to
/// make a change that depends on it.
pub(super) fn asking(command: &Command<'_>) -> DiskNeed {
    match command {
        Command::Get { exptime: None, .. }
        | Command::LeaseGet { .. }
        | Command::Inspect { .. }
        | Command::Copy(_) => DiskNeed::Reads,
        Command::Fetch(fetch) if is_read(fetch) => DiskNeed::Reads,
        Command::Store(store) => asking_of(store),
        _ => DiskNeed::Changes,
    }
}

fn asking_of(store: &Store<'_>) -> DiskNeed {
    let is_plain = store.mode == StoreMode::Set
        && store.cas.is_none()
        && store.lease.is_none()
        && !store.invalidate;
    if is_plain { DiskNeed::Replaces } else { DiskNeed::Changes }
}

/// The maximum number of commands whose keys are looked up together.
const AHEAD_MAX: usize = 16;
