//! Commands that change existing items: delete, arithmetic, touch.

use std::task::Poll;

use larder::{
    Arithmetic, ArithmeticRequest, Deletion, MetaOutcome, MetaUpdate, Stale, StoreMode,
    StoreRequest, Stored, Wait,
};
use larder_item::{Deadline, Direction};
use larder_protocol::{
    self as protocol, ClientError, Counted, Delete, Frame, Initial, Remains, Response, ServerError,
    Touched,
};
use larder_stats::{ClassCounter, Counter};

use super::fetch::ttl_secs;
use super::store::change_error;
use super::{Call, Executor, READ_ATTEMPTS_MAX};
use crate::observe::classes::ItemSize;

impl Executor {
    /// In the binary protocol, an item with a different cas token does not count as a miss.
    pub(super) fn delete(&self, delete: &Delete<'_>, call: Call<'_>) -> Poll<Response> {
        self.server.leases.revoke(delete.key, self.cache.now());
        let Call { wait, frame } = call;
        let outcome = match delete.remains {
            Remains::Nothing => self.remove(delete, wait),
            Remains::Stale => self.mark_stale(delete, wait),
            Remains::Empty { stale } => self.empty(delete, stale, wait),
        };
        let Poll::Ready(response) = outcome else { return Poll::Pending };
        let is_miss = match response {
            Response::NotFound => true,
            Response::Exists => !matches!(frame, Frame::Binary(_)),
            _ => false,
        };
        if is_miss {
            self.counters.bump(Counter::DeleteMisses);
        }
        Poll::Ready(response)
    }

    fn remove(&self, delete: &Delete<'_>, wait: Wait<'_>) -> Poll<Response> {
        let deleted = match self.is_warming.get() {
            true => self.drop_copied(delete, wait),
            false => self.cache.raw(wait).delete(delete.key, delete.cas),
        };
        deleted.map(|deleted| match deleted {
            Ok(Deletion::Deleted(meta)) => {
                self.counters.bump(Counter::DeleteHits);
                let size = ItemSize::new(delete.key.len(), &meta);
                self.count_class(size, ClassCounter::DeleteHits);
                Response::Deleted
            }
            Ok(Deletion::NotFound) => Response::NotFound,
            Ok(Deletion::Exists) => Response::Exists,
            Err(error) => change_error(error, ServerError::Stuck),
        })
    }

    fn mark_stale(&self, delete: &Delete<'_>, wait: Wait<'_>) -> Poll<Response> {
        let &Delete { key, cas, version, exptime, .. } = delete;
        let deadline = exptime.map(|exptime| self.deadline(exptime));
        let update = MetaUpdate { cas, deadline, noted: false, stale: true, version };
        self.cache.raw(wait).update(key, &update).map(|outcome| match outcome {
            Ok(MetaOutcome::Done(_)) => Response::Deleted,
            Ok(MetaOutcome::NotFound) => Response::NotFound,
            Ok(MetaOutcome::Exists) => Response::Exists,
            Err(error) => change_error(error, ServerError::OutOfMemory),
        })
    }

    fn empty(&self, delete: &Delete<'_>, stale: bool, wait: Wait<'_>) -> Poll<Response> {
        let request = StoreRequest {
            cas: delete.cas,
            version: delete.version,
            deadline: delete.exptime.map_or(Deadline::NEVER, |exptime| self.deadline(exptime)),
            stale: if stale { Stale::Always } else { Stale::Never },
            ..StoreRequest::new(delete.key, StoreMode::Replace)
        };
        self.cache.raw(wait).store(&request, b"").map(|stored| match stored {
            Ok(Stored::Stored { .. }) => Response::Deleted,
            Ok(Stored::NotStored | Stored::NotFound) => Response::NotFound,
            Ok(Stored::Exists) => Response::Exists,
            Err(error) => change_error(error, ServerError::OutOfMemory),
        })
    }

    pub(super) fn arithmetic(
        &self,
        arithmetic: &protocol::Arithmetic<'_>,
        wait: Wait<'_>,
    ) -> Poll<Response> {
        let (hits, class_hits, misses) = match arithmetic.direction {
            Direction::Increment => {
                (Counter::IncrHits, ClassCounter::IncrHits, Counter::IncrMisses)
            }
            Direction::Decrement => {
                (Counter::DecrHits, ClassCounter::DecrHits, Counter::DecrMisses)
            }
        };
        let protocol::Arithmetic { key, direction, delta, cas, version, exptime, .. } = *arithmetic;
        // The new exptime replaces the old one, but the client may want to see the old one.
        let before = match exptime.map(|_| self.cache.raw(wait).peek(key)) {
            Some(Poll::Pending) => return Poll::Pending,
            Some(Poll::Ready(Ok(Some(meta)))) => Some(meta.deadline),
            Some(Poll::Ready(_)) | None => None,
        };
        let deadline = exptime.map(|exptime| self.deadline(exptime));
        let counting = ArithmeticRequest {
            cas,
            version,
            deadline,
            ..ArithmeticRequest::new(key, direction, delta)
        };
        for _ in 0..READ_ATTEMPTS_MAX {
            let Poll::Ready(outcome) = self.cache.raw(wait).arithmetic(&counting) else {
                return Poll::Pending;
            };
            let response = match (outcome, arithmetic.initial) {
                (Ok(Arithmetic::Number { number, meta }), _) => {
                    self.counters.bump(hits);
                    self.count_class(ItemSize::new(key.len(), &meta), class_hits);
                    let now = self.cache.now();
                    Response::Number(Counted {
                        number,
                        cas: meta.cas,
                        ttl_secs: ttl_secs(meta.deadline, now),
                        ttl_before_secs: ttl_secs(before.unwrap_or(meta.deadline), now),
                        created: false,
                    })
                }
                (Ok(Arithmetic::NotFound), None) => {
                    self.counters.bump(misses);
                    Response::NotFound
                }
                (Ok(Arithmetic::NotFound), Some(initial)) => {
                    match self.create(arithmetic, initial, wait) {
                        Poll::Ready(Some(response)) => response,
                        Poll::Ready(None) => continue,
                        Poll::Pending => return Poll::Pending,
                    }
                }
                (Ok(Arithmetic::NonNumeric), _) => ClientError::NonNumeric.into(),
                (Ok(Arithmetic::Exists), _) => Response::Exists,
                (Err(error), _) => change_error(error, ServerError::OutOfMemory),
            };
            return Poll::Ready(response);
        }
        Poll::Ready(Response::NotStored)
    }

    /// Creates a counter with its initial value. Returns `None` if another client created it first.
    fn create(
        &self,
        arithmetic: &protocol::Arithmetic<'_>,
        initial: Initial,
        wait: Wait<'_>,
    ) -> Poll<Option<Response>> {
        let Initial { number, exptime } = initial;
        let deadline = self.deadline(exptime);
        let version = arithmetic.version;
        let request =
            StoreRequest { deadline, version, ..StoreRequest::new(arithmetic.key, StoreMode::Add) };
        let stored = self.cache.raw(wait).store(&request, number.to_string().as_bytes());
        stored.map(|stored| match stored {
            Ok(Stored::Stored { cas, .. }) => {
                let ttl_secs = ttl_secs(deadline, self.cache.now());
                let (ttl_before_secs, created) = (None, true);
                let counted = Counted { number, cas, ttl_secs, ttl_before_secs, created };
                Some(Response::Number(counted))
            }
            Ok(_) => None,
            Err(error) => Some(change_error(error, ServerError::OutOfMemoryCreating)),
        })
    }

    pub(super) fn touch(&self, key: &[u8], exptime: i64, wait: Wait<'_>) -> Poll<Response> {
        let deadline = Some(self.deadline(exptime));
        let update = MetaUpdate { deadline, noted: true, ..MetaUpdate::default() };
        let Poll::Ready(outcome) = self.cache.raw(wait).update(key, &update) else {
            return Poll::Pending;
        };
        self.counters.bump(Counter::CmdTouch);
        Poll::Ready(match outcome {
            Ok(MetaOutcome::Done(meta)) => {
                self.counters.bump(Counter::TouchHits);
                self.count_class(ItemSize::new(key.len(), &meta), ClassCounter::TouchHits);
                Response::Touched(Touched { flags: meta.flags, cas: meta.cas })
            }
            // The request contains no token, so no token can differ.
            Ok(MetaOutcome::NotFound | MetaOutcome::Exists) => {
                self.counters.bump(Counter::TouchMisses);
                Response::NotFound
            }
            Err(error) => change_error(error, ServerError::OutOfMemory),
        })
    }
}
