//! The commands of near caches: `larder_follow` begins a change stream, and `larder_fetch` returns
//! an item that a near cache copies.

use std::task::Poll;

use larder::{PromotionPolicy, Read, ReadOptions};
use larder_item::{Deadline, Meta};
use larder_protocol::follow::Fetched;
use larder_protocol::{Refusal, Response, ServerError};
use larder_stats::Counter;

use super::store::change_error;
use super::{Call, CommandResult, Executor, NO_CONNECTION, READ_ATTEMPTS_MAX};
use crate::followers::{Follow, Subscription};

/// An item that a near cache fetches.
#[derive(Clone, Copy)]
pub(crate) struct CopiedItem<'a> {
    pub(crate) key: &'a [u8],
    /// The length of the longest value that the near cache copies.
    pub(crate) value_bytes_max: usize,
    /// The change stream of the near cache, if the connection belongs to one.
    pub(crate) subscription: Option<&'a Subscription>,
}

impl Executor {
    /// Begins a change stream on the connection whose commands are executed.
    pub(super) fn follow(&self, max_stale_ms: Option<u32>) -> CommandResult {
        // A datagram has no connection.
        let is_connected = self.asker.get() != NO_CONNECTION;
        let Some(waker) = self.connection_waker().filter(|_| is_connected) else {
            return Response::from(Refusal::CannotFollow).into();
        };
        let followers = &self.server.followers;
        match Follow::begin(followers, &self.cache, max_stale_ms, waker) {
            Ok((follow, terms)) => CommandResult::Follow(Box::new(follow), terms.line()),
            Err(refusal) => Response::from(refusal).into(),
        }
    }

    /// Reads an item that a near cache copies, because a client of the near cache reads it. Takes
    /// no recache token.
    pub(crate) fn copy(
        &self,
        item: CopiedItem<'_>,
        call: Call<'_>,
        out: &mut Vec<u8>,
    ) -> CommandResult {
        // Rule: InterestBeforeRead
        let note = |of| self.server.followers.note(of, item.key);
        let is_noted = item.subscription.is_some_and(note);
        let start = out.len();
        let noted = ReadOptions { noted: true, value: true };
        let mut result = None;
        for _ in 0..READ_ATTEMPTS_MAX {
            out.truncate(start);
            let (mut found, mut value_at) = (Meta::default(), start);
            let head = |out: &mut Vec<u8>, meta: &Meta| {
                self.value_of(meta, is_noted).push(out);
                (found, value_at) = (*meta, out.len());
            };
            let raw = self.cache.raw(call.wait);
            let returns = PromotionPolicy::IfReused;
            let Poll::Ready(read) = raw.read(item.key, noted, returns, out, head) else {
                return CommandResult::Pending;
            };
            let is_copied = is_copied(&found, item.value_bytes_max);
            result = Some(match read {
                Read::Miss(_) => uncopied(out, start, Fetched::Absent { is_noted }),
                Read::Failed(error) => {
                    out.truncate(start);
                    return change_error(error, ServerError::DiskUnreadable).into();
                }
                Read::Hit(_) | Read::Large(..) if !is_copied => {
                    uncopied(out, start, Fetched::Uncopied)
                }
                Read::Hit(_) => Response::Hit.into(),
                Read::Large(_, mut large) => match large.take_piece() {
                    Ok(Some(first)) => CommandResult::Large(first, large),
                    Ok(None) => Response::Hit.into(),
                    Err(_) => continue,
                },
            });
            break;
        }
        self.counters.bump(Counter::FollowerFetches);
        if !is_noted {
            self.counters.bump(Counter::FollowerFetchesUnnoted);
        }
        // An item that was evicted during every attempt counts as a miss.
        result.unwrap_or_else(|| uncopied(out, start, Fetched::Absent { is_noted }))
    }

    fn value_of(&self, meta: &Meta, is_noted: bool) -> Fetched {
        let ttl_ms = match meta.deadline {
            Deadline::NEVER => None,
            Deadline(second) => Some(u64::from(second) * 1000),
        };
        Fetched::Value {
            value_bytes: meta.value_bytes,
            flags: meta.flags,
            cas: meta.cas,
            // The item expires when the cache's clock reaches the second of its deadline, and that
            // clock is not ahead of this one.
            ttl_ms: ttl_ms.map(|deadline_ms| deadline_ms.saturating_sub(self.server.now_ms())),
            is_noted,
        }
    }
}

/// True if a near cache may copy an item: it is up to date, no client is storing a new value, and
/// the value is not too long.
fn is_copied(meta: &Meta, value_bytes_max: usize) -> bool {
    !meta.stale && !meta.token_sent && meta.value_bytes <= value_bytes_max
}

/// Replaces the output from `start` by a response without a value.
fn uncopied(out: &mut Vec<u8>, start: usize, fetched: Fetched) -> CommandResult {
    out.truncate(start);
    fetched.push(out);
    Response::Shown.into()
}
