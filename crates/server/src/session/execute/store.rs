//! Stores of values that arrive complete or in parts.

use std::task::Poll;

use larder::{DiskNeed, Refusal, Stale, StoreError, StoreRequest, Stored, Upload, Wait, waited};
use larder_item::StoreMode;
use larder_protocol::{self as protocol, ClientError, Frame, Response, ServerError, Store};
use larder_stats::{ClassCounter, Counter};

use super::{Call, Executor};
use crate::observe::classes::ItemSize;

impl Executor {
    /// Stores `payload`, which is a value and its line end.
    #[inline]
    pub(crate) fn store(
        &self,
        store: &Store<'_>,
        payload: &[u8],
        Call { wait, frame }: Call<'_>,
    ) -> Poll<Response> {
        let Some(value) = frame.value_of(payload) else {
            return Poll::Ready(self.bad_data_chunk(store));
        };
        let raw = self.cache.raw(wait);
        if let Some(token) = store.lease {
            // The attempt uses up the lease. If the disk were read only afterwards, the repeated
            // command would no longer have a lease.
            if wait.asks() && raw.needs_disk(store.key, DiskNeed::Changes) {
                return Poll::Pending;
            }
            let raw = self.cache.raw(wait.without_asking());
            let put = |request: &StoreRequest<'_>| waited(raw.store(request, value));
            return Poll::Ready(self.store_leased(store, token, put));
        }
        if self.is_warming.get() && store.mode == StoreMode::Add {
            let put = |request: &StoreRequest<'_>| raw.unannounced().store(request, value);
            return self.store_copied(store, put);
        }
        let mut stored = raw.store(&self.request(store), value);
        if let (Poll::Ready(Ok(Stored::NotStored)), Some(created)) = (&stored, self.creation(store))
        {
            stored = raw.store(&created, value);
        }
        stored.map(|stored| self.stored(store, stored))
    }

    /// Stores a complete value without a line end.
    pub(super) fn store_value(&self, store: &Store<'_>, value: &[u8]) -> Response {
        self.stored(store, self.cache.store(&self.request(store), value))
    }

    /// Executes a store with a lease. It succeeds if the lease is still valid, and no other client
    /// has stored the item in the meantime.
    #[cold]
    fn store_leased(
        &self,
        store: &Store<'_>,
        token: u64,
        put: impl FnOnce(&StoreRequest<'_>) -> Result<Stored, StoreError>,
    ) -> Response {
        let request = StoreRequest { mode: StoreMode::Add, ..self.request(store) };
        let (leases, now) = (&self.server.leases, self.cache.now());
        let stored = leases.redeem(store.key, token, now, || put(&request));
        self.stored(store, stored.unwrap_or(Ok(Stored::NotStored)))
    }

    /// Returns the store that creates the item if an append or prepend did not find it.
    fn creation<'k>(&self, store: &Store<'k>) -> Option<StoreRequest<'k>> {
        let exptime = store.vivify.filter(|_| extends(store.mode))?;
        let Store { key, flags, version, .. } = *store;
        let deadline = self.deadline(exptime);
        Some(StoreRequest { flags, version, deadline, ..StoreRequest::new(key, StoreMode::Add) })
    }

    /// Checks a store before its value arrives. Returns the error if it cannot be executed. In that
    /// case the item that it would have replaced has been removed.
    pub(crate) fn refusal(&self, store: &Store<'_>, frame: &Frame<'_>) -> Option<Response> {
        if self.cache.accepts(store.key.len(), store.value_bytes) {
            return None;
        }
        Some(self.give_up(store, frame, StoreError::TooLarge))
    }

    /// True if the value should be stored as it arrives instead of once it is complete.
    pub(crate) fn takes_in_parts(&self, store: &Store<'_>) -> bool {
        store.value_bytes > self.cache.upload_bytes_min()
    }

    /// Begins to store a value in parts.
    pub(crate) fn begin_upload(&self, store: &Store<'_>) -> Result<Upload, Response> {
        self.cache
            .upload(store.key, store.value_bytes)
            .map_err(|error| self.not_stored(store, error))
    }

    /// Abandons a store whose value could not be stored.
    pub(crate) fn give_up_upload(&self, store: &Store<'_>, frame: &Frame<'_>) -> Response {
        self.give_up(store, frame, StoreError::NoMemory)
    }

    /// A failed meta store removes the item regardless of its mode. Of the other stores, only a
    /// plain set does.
    fn give_up(&self, store: &Store<'_>, frame: &Frame<'_>, error: StoreError) -> Response {
        self.cache.give_up(&match frame {
            Frame::Meta(_) => StoreRequest::new(store.key, StoreMode::Set),
            Frame::Text { .. } | Frame::Binary(_) => self.request(store),
        });
        self.not_stored(store, error)
    }

    /// Completes a store whose value arrived in parts. An append that may create the item must know
    /// beforehand whether it does.
    pub(crate) fn finish_upload(
        &self,
        store: &Store<'_>,
        upload: Upload,
        wait: Wait<'_>,
    ) -> Response {
        if let Some(token) = store.lease {
            let put = |request: &StoreRequest<'_>| upload.store_as(request, wait);
            return self.store_leased(store, token, put);
        }
        if self.is_warming.get() && store.mode == StoreMode::Add {
            return self.finish_copied(store, upload, wait);
        }
        let is_absent = || matches!(waited(self.cache.raw(wait).peek(store.key)), Ok(None));
        let created = self.creation(store).filter(|_| is_absent());
        let request = created.unwrap_or_else(|| self.request(store));
        self.stored(store, upload.store_as(&request, wait))
    }

    /// Responds to a value that is not followed by a line end. memcached has already allocated an
    /// item at this point, and counts the command.
    pub(crate) fn bad_data_chunk(&self, store: &Store<'_>) -> Response {
        self.counters.bump(Counter::CmdSet);
        self.count_class(size_of(store), ClassCounter::CmdSet);
        ClientError::BadDataChunk.into()
    }

    #[inline]
    pub(super) fn stored(&self, store: &Store<'_>, stored: Result<Stored, StoreError>) -> Response {
        let stored = match stored {
            Ok(stored) => stored,
            // The appended part itself was small enough, but the result would be too large.
            // memcached answers NOT_STORED.
            Err(StoreError::TooLarge) if extends(store.mode) => Stored::NotStored,
            Err(error) => return self.not_stored(store, error),
        };
        let size = size_of(store);
        self.counters.bump(Counter::CmdSet);
        self.count_class(size, ClassCounter::CmdSet);
        if store.cas.is_some() && !extends(store.mode) {
            match stored {
                Stored::Stored { .. } => {
                    self.counters.bump(Counter::CasHits);
                    self.count_class(size, ClassCounter::CasHits);
                }
                Stored::Exists => {
                    self.counters.bump(Counter::CasBadval);
                    self.count_class(size, ClassCounter::CasBadval);
                }
                Stored::NotStored | Stored::NotFound => self.counters.bump(Counter::CasMisses),
            }
        }
        match stored {
            Stored::Stored { cas, value_bytes } => {
                Response::Stored(protocol::Stored { cas, value_bytes })
            }
            Stored::NotStored => Response::NotStored,
            Stored::Exists => Response::Exists,
            Stored::NotFound => Response::NotFound,
        }
    }

    #[cold]
    fn not_stored(&self, store: &Store<'_>, error: StoreError) -> Response {
        match error {
            StoreError::TooLarge => {
                self.counters.bump(Counter::StoreTooLarge);
                ServerError::TooLarge.into()
            }
            StoreError::NoMemory => {
                self.counters.bump(Counter::StoreNoMemory);
                self.count_class(size_of(store), ClassCounter::OutOfMemory);
                ServerError::OutOfMemoryStoring.into()
            }
            StoreError::Key(_) => ClientError::BadFormat.into(),
            StoreError::Stuck(_) => ServerError::Stuck.into(),
            StoreError::Journal(refusal) => disk_error(refusal).into(),
        }
    }

    pub(super) fn request<'a>(&self, store: &Store<'a>) -> StoreRequest<'a> {
        let Store { key, mode, cas, flags, version, .. } = *store;
        let stale = if store.invalidate { Stale::IfOlder } else { Stale::Never };
        let deadline = self.deadline(store.exptime);
        StoreRequest { cas, flags, version, stale, deadline, ..StoreRequest::new(key, mode) }
    }
}

/// Returns the error for a change that the disk tier refuses.
pub(super) fn disk_error(refusal: Refusal) -> ServerError {
    match refusal {
        Refusal::Full => ServerError::OutOfDiskStoring,
        Refusal::IndexFull => ServerError::OutOfDiskIndex,
        Refusal::TooLarge => ServerError::TooLarge,
        Refusal::Failed => ServerError::DiskFailed,
        Refusal::Unreadable => ServerError::DiskUnreadable,
        // The library reads the disk itself, so it never returns these.
        Refusal::Busy | Refusal::NeedsDisk | Refusal::Forked | Refusal::Lost | Refusal::Newer => {
            ServerError::DiskBusy
        }
    }
}

/// Returns the error for a change that failed because of the disk tier, or `otherwise` if it failed
/// for another reason.
#[cold]
pub(super) fn change_error(error: StoreError, otherwise: ServerError) -> Response {
    match error {
        StoreError::Journal(refusal) => disk_error(refusal).into(),
        _ => otherwise.into(),
    }
}

/// Returns the size of the value that the client sent. As in memcached, only the appended part
/// counts.
#[inline]
fn size_of(store: &Store<'_>) -> ItemSize {
    let Store { key, value_bytes, flags, .. } = *store;
    ItemSize { key_bytes: key.len(), value_bytes, has_flags: flags != 0 }
}

fn extends(mode: StoreMode) -> bool {
    matches!(mode, StoreMode::Append | StoreMode::Prepend)
}
