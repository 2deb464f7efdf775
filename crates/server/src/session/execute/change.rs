//! Changes of existing items: delete, arithmetic, touch.

use larder::{
    Arithmetic, ArithmeticRequest, Deletion, MetaOutcome, Stale, StoreMode, StoreRequest, Stored,
};
use larder_item::{Deadline, Direction};
use larder_protocol::{
    self as protocol, ClientError, Counted, Delete, Frame, Initial, Remains, Response, ServerError,
    Touched,
};
use larder_stats::{ClassCounter, Counter};

use super::fetch::ttl_secs;
use super::store::change_error;
use super::{Executor, READ_ATTEMPTS_MAX};
use crate::admin::classes::ItemSize;

impl Executor {
    /// In the binary protocol an item with another cas token is not a miss.
    pub(super) fn delete(&self, delete: &Delete<'_>, frame: &Frame<'_>) -> Response {
        self.server.leases.revoke(delete.key, self.cache.now());
        let response = match delete.remains {
            Remains::Nothing => self.remove(delete),
            Remains::Stale => self.mark_stale(delete),
            Remains::Empty { stale } => self.empty(delete, stale),
        };
        let is_miss = match response {
            Response::NotFound => true,
            Response::Exists => !matches!(frame, Frame::Binary(_)),
            _ => false,
        };
        if is_miss {
            self.counters.bump(Counter::DeleteMisses);
        }
        response
    }

    fn remove(&self, delete: &Delete<'_>) -> Response {
        match self.cache.delete_if(delete.key, delete.cas) {
            Ok(Deletion::Deleted(meta)) => {
                self.counters.bump(Counter::DeleteHits);
                let size = ItemSize::new(delete.key.len(), &meta);
                self.count_class(size, ClassCounter::DeleteHits);
                Response::Deleted
            }
            Ok(Deletion::NotFound) => Response::NotFound,
            Ok(Deletion::Exists) => Response::Exists,
            Err(error) => change_error(error, ServerError::Stuck),
        }
    }

    fn mark_stale(&self, delete: &Delete<'_>) -> Response {
        let deadline = delete.exptime.map(|exptime| self.deadline(exptime));
        match self.cache.mark_stale(delete.key, delete.cas, delete.version, deadline) {
            Ok(MetaOutcome::Done(_)) => Response::Deleted,
            Ok(MetaOutcome::NotFound) => Response::NotFound,
            Ok(MetaOutcome::Exists) => Response::Exists,
            Err(error) => change_error(error, ServerError::OutOfMemory),
        }
    }

    fn empty(&self, delete: &Delete<'_>, stale: bool) -> Response {
        let request = StoreRequest {
            cas: delete.cas,
            version: delete.version,
            deadline: delete.exptime.map_or(Deadline::NEVER, |exptime| self.deadline(exptime)),
            stale: if stale { Stale::Always } else { Stale::Never },
            ..StoreRequest::new(delete.key, StoreMode::Replace)
        };
        match self.cache.store(&request, b"") {
            Ok(Stored::Stored { .. }) => Response::Deleted,
            Ok(Stored::NotStored | Stored::NotFound) => Response::NotFound,
            Ok(Stored::Exists) => Response::Exists,
            Err(error) => change_error(error, ServerError::OutOfMemory),
        }
    }

    pub(super) fn arithmetic(&self, arithmetic: &protocol::Arithmetic<'_>) -> Response {
        let (hits, class_hits, misses) = match arithmetic.direction {
            Direction::Increment => {
                (Counter::IncrHits, ClassCounter::IncrHits, Counter::IncrMisses)
            }
            Direction::Decrement => {
                (Counter::DecrHits, ClassCounter::DecrHits, Counter::DecrMisses)
            }
        };
        let protocol::Arithmetic { key, direction, delta, cas, version, exptime, .. } = *arithmetic;
        // A new exptime replaces the old one, which the client may have requested.
        let before = exptime.and_then(|_| self.cache.peek(key)).map(|meta| meta.deadline);
        let deadline = exptime.map(|exptime| self.deadline(exptime));
        let counting = ArithmeticRequest {
            cas,
            version,
            deadline,
            ..ArithmeticRequest::new(key, direction, delta)
        };
        for _ in 0..READ_ATTEMPTS_MAX {
            match (self.cache.arithmetic_as(&counting), arithmetic.initial) {
                (Ok(Arithmetic::Number { number, meta }), _) => {
                    self.counters.bump(hits);
                    self.count_class(ItemSize::new(key.len(), &meta), class_hits);
                    let now = self.cache.now();
                    return Response::Number(Counted {
                        number,
                        cas: meta.cas,
                        ttl_secs: ttl_secs(meta.deadline, now),
                        ttl_before_secs: ttl_secs(before.unwrap_or(meta.deadline), now),
                        created: false,
                    });
                }
                (Ok(Arithmetic::NotFound), None) => {
                    self.counters.bump(misses);
                    return Response::NotFound;
                }
                (Ok(Arithmetic::NotFound), Some(initial)) => {
                    if let Some(response) = self.create(arithmetic, initial) {
                        return response;
                    }
                }
                (Ok(Arithmetic::NonNumeric), _) => return ClientError::NonNumeric.into(),
                (Ok(Arithmetic::Exists), _) => return Response::Exists,
                (Err(error), _) => return change_error(error, ServerError::OutOfMemory),
            }
        }
        Response::NotStored
    }

    /// Creates a counter with its initial value. Returns `None` if another client has created it
    /// first.
    fn create(&self, arithmetic: &protocol::Arithmetic<'_>, initial: Initial) -> Option<Response> {
        let Initial { number, exptime } = initial;
        let deadline = self.deadline(exptime);
        let version = arithmetic.version;
        let request =
            StoreRequest { deadline, version, ..StoreRequest::new(arithmetic.key, StoreMode::Add) };
        match self.cache.store(&request, number.to_string().as_bytes()) {
            Ok(Stored::Stored { cas, .. }) => {
                let ttl_secs = ttl_secs(deadline, self.cache.now());
                let (ttl_before_secs, created) = (None, true);
                let counted = Counted { number, cas, ttl_secs, ttl_before_secs, created };
                Some(Response::Number(counted))
            }
            Ok(_) => None,
            Err(error) => Some(change_error(error, ServerError::OutOfMemoryCreating)),
        }
    }

    pub(super) fn touch(&self, key: &[u8], exptime: i64) -> Response {
        self.counters.bump(Counter::CmdTouch);
        match self.cache.touch_until(key, self.deadline(exptime)) {
            Ok(Some(meta)) => {
                self.counters.bump(Counter::TouchHits);
                self.count_class(ItemSize::new(key.len(), &meta), ClassCounter::TouchHits);
                Response::Touched(Touched { flags: meta.flags, cas: meta.cas })
            }
            Ok(None) => {
                self.counters.bump(Counter::TouchMisses);
                Response::NotFound
            }
            Err(error) => change_error(error, ServerError::OutOfMemory),
        }
    }
}
