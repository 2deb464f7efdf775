//! Reports commands to `watch` clients and prefix counters. A request skips all of this unless at
//! least one of them is active.

use std::task::Poll;

use larder::{PromotionPolicy, Read, ReadOptions, Wait};
use larder_item::{Meta, StoreMode};
use larder_protocol::text::watched::{self, FetchResult, Size, StoreOutcome};
use larder_protocol::{
    Arithmetic, Command, Delete, Fetch, Frame, Remains, Response, ServerError, Store, Topics,
};

use crate::log::Interest;
use crate::observe::prefixes::Access;
use crate::observe::watch::{self, Watchers};
use crate::session::execute::{Call, Executor};

/// Observes the commands of one connection.
#[derive(Clone, Copy)]
pub(crate) struct Observer<'a> {
    pub(crate) executor: &'a Executor,
    pub(crate) interest: Interest,
    pub(crate) connection: u64,
}

impl Observer<'_> {
    /// Called before a command is executed. Looks up its item, reports the lookup, and returns the
    /// item's metadata.
    pub(crate) fn before(self, command: &Command<'_>, call: Call<'_>) -> Option<Meta> {
        let topics = Topics::FETCHERS | Topics::DELETIONS;
        if !self.interest.counts_prefixes() && !self.interest.topics().meet(topics) {
            return None;
        }
        let key = key_of(command)?;
        let (sought, meta) = self.look_for(key, call.wait);
        self.watchers().report(Topics::FETCHERS, |out| {
            let size = meta.map_or(Size::default(), |meta| self.size(key, &meta));
            watched::item_get(out, key, sought, size, self.connection);
        });
        if self.interest.counts_prefixes()
            && let Some(access) = access(command, call.frame, meta.is_some())
        {
            self.executor.server().statistics.prefixes.count(key, access);
        }
        meta
    }

    /// Called after a command has been executed. `meta` is the result of [`Observer::before`].
    pub(crate) fn after(
        self,
        command: &Command<'_>,
        frame: &Frame<'_>,
        meta: Option<Meta>,
        response: &Response,
    ) {
        match command {
            Command::Store(store) => self.stored(store, response),
            Command::Delete(Delete { key, remains: Remains::Nothing, .. })
                if *response == Response::Deleted && !matches!(frame, Frame::Binary(_)) =>
            {
                self.watchers().report(Topics::DELETIONS, |out| {
                    let name = if matches!(frame, Frame::Meta(_)) { "md" } else { "delete" };
                    let size = meta.map_or(Size::default(), |meta| self.size(key, &meta));
                    watched::deleted(out, key, name, size);
                });
            }
            _ => {}
        }
    }

    /// Called after a store has been executed, either immediately or when its value was complete.
    pub(crate) fn stored(self, store: &Store<'_>, response: &Response) {
        let outcome = match response {
            Response::Stored(_) => StoreOutcome::Stored,
            Response::NotStored => StoreOutcome::NotStored,
            Response::Exists => StoreOutcome::Exists,
            Response::NotFound => StoreOutcome::NotFound,
            Response::ServerError(ServerError::TooLarge) => StoreOutcome::TooLarge,
            Response::ServerError(ServerError::OutOfMemoryStoring) => StoreOutcome::NoMemory,
            // Other failures are not reported.
            _ => return,
        };
        let key = store.key;
        let now = self.executor.cache().now();
        let asked = Meta {
            flags: store.flags,
            deadline: self.executor.deadline(store.exptime),
            value_bytes: store.value_bytes,
            ..Meta::default()
        };
        let (meta, size) = match outcome {
            StoreOutcome::Stored => {
                let meta = self.executor.cache().peek(key).unwrap_or(asked);
                (meta, self.size(key, &meta))
            }
            StoreOutcome::TooLarge | StoreOutcome::NoMemory => (Meta::default(), Size::default()),
            _ => (asked, self.size(key, &asked)),
        };
        let ttl_secs = watch::ttl_secs(meta.deadline, now).unwrap_or(0);
        let command = match store {
            Store { cas: Some(_), .. } => "cas",
            Store { mode: StoreMode::Set, .. } => "set",
            Store { mode: StoreMode::Add, .. } => "add",
            Store { mode: StoreMode::Replace, .. } => "replace",
            Store { mode: StoreMode::Append, .. } => "append",
            Store { mode: StoreMode::Prepend, .. } => "prepend",
        };
        self.watchers().report(Topics::MUTATIONS, |out| {
            watched::item_store(out, key, outcome, command, ttl_secs, size, self.connection);
        });
    }

    fn watchers(&self) -> &Watchers {
        &self.executor.server().watchers
    }

    /// Looks up an item without reading it.
    fn look_for(self, key: &[u8], wait: Wait<'_>) -> (FetchResult, Option<Meta>) {
        let raw = self.executor.cache().raw(wait);
        let reading = ReadOptions { noted: false, value: false };
        match raw.read(key, reading, PromotionPolicy::Always, &mut Vec::new(), |_, _| ()) {
            Poll::Ready(Read::Hit(meta) | Read::Large(meta, _)) => (FetchResult::Found, Some(meta)),
            Poll::Ready(Read::Miss(larder::Miss::Absent) | Read::Failed(_)) | Poll::Pending => {
                (FetchResult::NotFound, None)
            }
            Poll::Ready(Read::Miss(larder::Miss::Expired)) => (FetchResult::Expired, None),
            Poll::Ready(Read::Miss(larder::Miss::Flushed)) => (FetchResult::Flushed, None),
        }
    }

    fn size(&self, key: &[u8], meta: &Meta) -> Size {
        watch::size(&self.executor.server().statistics.classes, key.len(), meta)
    }
}

/// Returns the key that a command looks up.
pub(super) fn key_of<'a>(command: &Command<'a>) -> Option<&'a [u8]> {
    match *command {
        Command::Get { key, .. }
        | Command::LeaseGet { key }
        | Command::Fetch(Fetch { key, .. })
        | Command::Inspect { key }
        | Command::Store(Store { key, .. })
        | Command::Delete(Delete { key, .. })
        | Command::Arithmetic(Arithmetic { key, .. })
        | Command::Touch { key, .. } => Some(key),
        _ => None,
    }
}

/// Returns how the prefix counters count a command. Meta commands are not counted. A touch counts
/// as a get only in the binary protocol.
fn access(command: &Command<'_>, frame: &Frame<'_>, hit: bool) -> Option<Access> {
    if matches!(frame, Frame::Meta(_)) {
        return None;
    }
    match command {
        Command::Get { .. } | Command::Fetch(_) => Some(Access::Get { hit }),
        Command::Touch { .. } if matches!(frame, Frame::Binary(_)) => Some(Access::Get { hit }),
        Command::Store(_) => Some(Access::Set),
        Command::Delete(_) => Some(Access::Delete),
        _ => None,
    }
}
