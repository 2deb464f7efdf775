//! `mg` and `me`: items with their metadata, and recache tokens. When an item is stale or about to
//! expire, one client receives its recache token, and with it the task of storing a new value; the
//! others receive the old value.

use std::task::Poll;

use larder::copies::Fetched;
use larder::{
    LargeValue, Miss, Piece, PromotionPolicy, Read, ReadOptions, StoreError, StoreMode,
    StoreRequest, Stored,
};
use larder_item::{Deadline, Meta, Second};
use larder_protocol::{Command, Fetch, Frame, Response, ServerError, Shown, TokenHolder, render};
use larder_stats::{ClassCounter, Counter};

use crate::observe::classes::ItemSize;

use super::cluster::may_be_key;
use super::store::change_error;
use super::{Call, CommandResult, Executor, READ_ATTEMPTS_MAX};

/// The results of earlier attempts at a fetch.
#[derive(Clone, Copy)]
struct EarlierAttempts {
    /// The holder of the recache token, if an attempt has found that the item is due.
    token_holder: TokenHolder,
    /// Whether the item had been read before the fetch; `None` until known. The attempts themselves
    /// are reads.
    fetched: Option<bool>,
}

/// The part of the response that one attempt at a fetch has appended to the output.
enum Attempt {
    /// The item's metadata.
    Head,
    /// The item's metadata and its value.
    Item,
    /// The item's metadata. The value follows in pieces, of which this is the first.
    Beginning(Piece, Box<LargeValue>),
    /// Nothing: the fetch is a miss.
    Nothing,
    /// Nothing: the disk did not return the item.
    Failed(StoreError),
    /// Nothing. The disk must be read first.
    Pending,
    /// Nothing. Another thread has changed the item in the meantime.
    Again,
}

impl Executor {
    /// Executes `mg`. Counts as a get, or as a touch if the item receives a new exptime.
    pub(super) fn fetch(
        &self,
        fetch: &Fetch<'_>,
        call: Call<'_>,
        out: &mut Vec<u8>,
    ) -> CommandResult {
        if may_be_key(fetch.key)
            && let Some(response) = self.read_cluster(&Command::Fetch(*fetch), call.frame, out)
        {
            return response.into();
        }
        let start = out.len();
        let mut settled = EarlierAttempts { token_holder: TokenHolder::NoPeer, fetched: None };
        for _ in 0..READ_ATTEMPTS_MAX {
            let executed = match self.attempt(fetch, &mut settled, call, out) {
                Attempt::Head => Response::Shown.into(),
                Attempt::Item => Response::Hit.into(),
                Attempt::Beginning(first, large) => CommandResult::Large(first, large),
                Attempt::Nothing => break,
                Attempt::Pending => return CommandResult::Pending,
                Attempt::Failed(error) => {
                    return change_error(error, ServerError::DiskUnreadable).into();
                }
                Attempt::Again => {
                    out.truncate(start);
                    continue;
                }
            };
            let (command, outcome) = match fetch.exptime {
                None => (Counter::CmdGet, Counter::GetHits),
                Some(_) => (Counter::CmdTouch, Counter::TouchHits),
            };
            self.counters.bump(command);
            self.counters.bump(outcome);
            return executed;
        }
        self.counters.bump(Counter::CmdGet);
        self.counters.bump(Counter::GetMisses);
        Response::Miss.into()
    }

    /// Reads the item, then does what the item turns out to need: claims the recache token and sets
    /// the new exptime. The token is claimed after the read, because only the read shows that the
    /// item is due. A second read then writes the response.
    fn attempt(
        &self,
        fetch: &Fetch<'_>,
        settled: &mut EarlierAttempts,
        call: Call<'_>,
        out: &mut Vec<u8>,
    ) -> Attempt {
        let (key, frame) = (fetch.key, call.frame);
        let call = match settled.token_holder {
            TokenHolder::NoPeer => call,
            // An earlier attempt has found who has the token. If the command were suspended now and
            // executed again, it would find the token taken. So from here on it reads the disk
            // itself.
            TokenHolder::ThisPeer | TokenHolder::AnotherPeer => call.without_asking(),
        };
        let (start, mut head_end, mut meta) = (out.len(), 0, Meta::default());
        let head = |out: &mut Vec<u8>, read: &Meta| {
            render::shown(out, &self.shown_by(fetch, read, settled), frame);
            (head_end, meta) = (out.len(), *read);
        };
        let reading = ReadOptions {
            noted: fetch.noted && settled.fetched.is_none(),
            value: fetch.with_value,
        };
        let raw = self.cache.raw(call.wait);
        let Poll::Ready(read) = raw.read(key, reading, returns(fetch), out, head) else {
            return Attempt::Pending;
        };
        let large = match read {
            Read::Hit(_) => None,
            Read::Large(_, large) => Some(large),
            Read::Miss(miss) => return self.missed(fetch, miss, call, out),
            Read::Failed(error) => return Attempt::Failed(error),
        };
        settled.fetched.get_or_insert(meta.fetched);
        if settled.token_holder == TokenHolder::NoPeer && self.is_due(fetch, &meta) {
            settled.token_holder = if self.cache.claim(key, meta.cas) {
                TokenHolder::ThisPeer
            } else {
                TokenHolder::AnotherPeer
            };
            return Attempt::Again;
        }
        if let Some(exptime) = fetch.exptime
            && let Some(failed) = self.touch_read(key, exptime, call)
        {
            out.truncate(start);
            return failed;
        }
        let attempt = match large {
            _ if !shows_value(fetch, &meta) => {
                out.truncate(head_end);
                Attempt::Head
            }
            None => Attempt::Item,
            Some(mut large) => match large.take_piece() {
                Ok(Some(first)) => Attempt::Beginning(first, large),
                Ok(None) => Attempt::Item,
                Err(_) => return Attempt::Again,
            },
        };
        let hits = match fetch.exptime {
            Some(_) => ClassCounter::TouchHits,
            None => ClassCounter::GetHits,
        };
        self.count_class(ItemSize::new(key.len(), &meta), hits);
        attempt
    }

    /// Sets the new exptime of an item that was read. Returns the outcome if that is impossible.
    fn touch_read(&self, key: &[u8], exptime: i64, call: Call<'_>) -> Option<Attempt> {
        let wait = call.without_asking().wait;
        match self.touch_to(key, self.deadline(exptime), false, wait) {
            Ok(true) => None,
            Err(error @ StoreError::Journal(_)) => Some(Attempt::Failed(error)),
            Ok(false) | Err(_) => Some(Attempt::Nothing),
        }
    }

    /// Handles a miss. The request may ask for an item to be created.
    fn missed(
        &self,
        fetch: &Fetch<'_>,
        miss: Miss,
        Call { wait, frame }: Call<'_>,
        out: &mut Vec<u8>,
    ) -> Attempt {
        let Some(exptime) = fetch.vivify else {
            self.count_miss(miss);
            return Attempt::Nothing;
        };
        let deadline = self.deadline(exptime);
        let request = StoreRequest {
            deadline,
            version: fetch.version,
            token_sent: true,
            ..StoreRequest::new(fetch.key, StoreMode::Add)
        };
        let Poll::Ready(stored) = self.cache.raw(wait).store(&request, b"") else {
            return Attempt::Pending;
        };
        match stored {
            Ok(Stored::Stored { cas, .. }) => {
                let size =
                    ItemSize { key_bytes: fetch.key.len(), value_bytes: 0, has_flags: false };
                self.count_class(size, ClassCounter::GetHits);
                let meta = Meta { deadline, cas, seen: self.cache.now(), ..Meta::default() };
                let shown = Shown {
                    token_holder: TokenHolder::ThisPeer,
                    ttl_before_secs: None,
                    ..self.shown(fetch.key, &meta, fetch.with_value)
                };
                render::shown(out, &shown, frame);
                if fetch.noted {
                    // The client that creates an item counts as a reader of it.
                    let reading = ReadOptions { noted: true, value: false };
                    let raw = self.cache.raw(wait.without_asking());
                    let _ = raw.read(fetch.key, reading, PromotionPolicy::Always, out, |_, _| ());
                }
                if fetch.with_value { Attempt::Item } else { Attempt::Head }
            }
            Ok(_) => Attempt::Again,
            Err(error @ StoreError::Journal(_)) => Attempt::Failed(error),
            Err(_) => Attempt::Nothing,
        }
    }

    /// True if a client should refresh the item, no client has the recache token yet, and this
    /// client may store a new value. Otherwise the token would be lost to the clients that may.
    fn is_due(&self, fetch: &Fetch<'_>, meta: &Meta) -> bool {
        !meta.token_sent
            && (meta.stale || self.dies_early(fetch, meta))
            && fetch.claims
            && !self.only_reads.get()
    }

    fn dies_early(&self, fetch: &Fetch<'_>, meta: &Meta) -> bool {
        let Some(recache) = fetch.recache else { return false };
        let deadline = match fetch.exptime {
            Some(exptime) if fetch.touch_first => self.deadline(exptime),
            _ => meta.deadline,
        };
        deadline != Deadline::NEVER && deadline.0 < self.deadline(recache).0
    }

    #[inline]
    fn shown_by<'k>(&self, fetch: &Fetch<'k>, meta: &Meta, settled: &EarlierAttempts) -> Shown<'k> {
        let mut shown = self.shown(fetch.key, meta, shows_value(fetch, meta));
        shown.fetched = settled.fetched.unwrap_or(meta.fetched);
        shown.token_holder = match settled.token_holder {
            TokenHolder::NoPeer if meta.token_sent => TokenHolder::AnotherPeer,
            holder => holder,
        };
        if let Some(exptime) = fetch.exptime {
            shown.ttl_secs = ttl_secs(self.deadline(exptime), self.cache.now());
        }
        shown
    }

    /// Appends an item that the near cache has fetched. Returns the response that follows.
    pub(crate) fn show_fetched(
        &self,
        command: &Command<'_>,
        item: &Fetched,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Response {
        let Some(key) = command.key() else { return Response::Miss };
        let meta = Meta {
            value_bytes: item.value.len(),
            flags: item.flags,
            cas: item.cas,
            seen: self.cache.now(),
            ..Meta::default()
        };
        let with_value = match command {
            Command::Fetch(fetch) => {
                let ttl_secs = item.ttl_ms.map(|ms| Second::try_from(ms.div_ceil(1000)));
                let ttl_secs = ttl_secs.map(|secs| secs.unwrap_or(Second::MAX));
                let shown = self.shown(key, &meta, fetch.with_value);
                let shown = Shown { ttl_secs, ttl_before_secs: ttl_secs, ..shown };
                render::shown(out, &shown, frame);
                fetch.with_value
            }
            Command::Get { with_cas, .. } => {
                render::hit_head(out, key, &meta, *with_cas, frame);
                true
            }
            _ => return Response::Miss,
        };
        if !with_value {
            return Response::Shown;
        }
        out.extend_from_slice(&item.value);
        Response::Hit
    }

    /// Returns an item in the form that responses show.
    #[inline]
    fn shown<'k>(&self, key: &'k [u8], meta: &Meta, with_value: bool) -> Shown<'k> {
        let now = self.cache.now();
        let ttl_secs = ttl_secs(meta.deadline, now);
        Shown {
            key,
            meta: *meta,
            with_value,
            // Only `me` shows the deadline, and `inspect` sets it.
            deadline_unix_secs: None,
            ttl_secs,
            ttl_before_secs: ttl_secs,
            idle_secs: now.saturating_sub(meta.seen),
            fetched: meta.fetched,
            stale: meta.stale,
            token_holder: TokenHolder::NoPeer,
            class: 0,
            item_bytes: 0,
        }
    }

    /// Executes `me`. It does not count as a read or as any other command.
    pub(super) fn inspect(
        &self,
        key: &[u8],
        Call { wait, frame }: Call<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Response> {
        let Poll::Ready(found) = self.cache.raw(wait).peek(key) else { return Poll::Pending };
        self.counters.bump(Counter::CmdMeta);
        let Ok(Some(meta)) = found else { return Poll::Ready(Response::Miss) };
        let classes = &self.server.statistics.classes;
        let size = ItemSize::new(key.len(), &meta);
        let deadline_unix_secs = match meta.deadline {
            Deadline::NEVER => None,
            Deadline(second) => Some(self.cache.epoch().unix_of(second)),
        };
        let shown = Shown {
            deadline_unix_secs,
            class: classes.class_of(size),
            item_bytes: classes.item_bytes(size),
            ..self.shown(key, &meta, false)
        };
        render::inspected(out, &shown, frame);
        Poll::Ready(Response::Shown)
    }
}

/// True if the fetch changes nothing except the mark that the item was read.
pub(crate) fn is_read(fetch: &Fetch<'_>) -> bool {
    fetch.exptime.is_none() && fetch.vivify.is_none()
}

/// Returns when an item that is only on disk must be promoted to memory. The recache token is
/// stored in the item's disk record, and a touch needs the item in memory.
fn returns(fetch: &Fetch<'_>) -> PromotionPolicy {
    match fetch.recache {
        None if is_read(fetch) => PromotionPolicy::IfReused,
        _ => PromotionPolicy::Always,
    }
}

/// True if the response includes the value. False if the peer already has it.
fn shows_value(fetch: &Fetch<'_>, meta: &Meta) -> bool {
    fetch.with_value && fetch.known_cas != Some(meta.cas)
}

pub(super) fn ttl_secs(deadline: Deadline, now: Second) -> Option<u32> {
    (deadline != Deadline::NEVER).then(|| deadline.0.saturating_sub(now))
}
