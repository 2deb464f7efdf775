//! The connection to the candidate: sends, receives, and gives it up.

use std::mem;
use std::time::Instant;

use larder_protocol::Frame;

use super::{Flushed, Pair, READS_PER_TURN};
use crate::shadow::compare::Context;
use crate::shadow::compare::answers::Answers;
use crate::shadow::compare::asked::{Asked, Server, Verb};
use crate::shadow::compare::link::Link;
use crate::shadow::tally::Uncompared;

impl Pair {
    /// Receives what the candidate has sent.
    pub(crate) fn receive(&mut self, context: &mut Context) {
        for _ in 0..READS_PER_TURN {
            let Some(link) = &mut self.link else { return };
            let mut buffer = mem::take(&mut context.scratch);
            let received = link.receive(&mut buffer);
            let is_established = link.is_established;
            let received_bytes = received.as_ref().map_or(0, |bytes| bytes.unwrap_or(0));
            let taken = match received {
                Ok(Some(bytes @ 1..)) => {
                    self.take_units(Server::Candidate, &buffer[..bytes], context).map(|()| bytes)
                }
                Ok(None) => Ok(0),
                ended @ (Ok(Some(0)) | Err(_)) => {
                    context.scratch = buffer;
                    if self.ended.is_some() && ended.is_ok() {
                        self.assume_quiet();
                    }
                    let reason = match is_established {
                        true => Uncompared::Closed,
                        false => Uncompared::Unreachable,
                    };
                    return self.lose_candidate(reason, context);
                }
            };
            let is_full = taken.as_ref().is_ok_and(|bytes| *bytes == buffer.len());
            if taken.is_err() {
                self.lose_malformed(&buffer[..received_bytes], context);
            }
            context.scratch = buffer;
            self.settle(context);
            if !is_full {
                return;
            }
        }
    }

    /// Ends the connection to the candidate because of a response that belongs to no request.
    pub(super) fn lose_malformed(&mut self, received: &[u8], context: &mut Context) {
        let shown = received[..received.len().min(32)].escape_ascii().to_string();
        let next = self.candidate.next;
        if let Some(found) = self.pending.get_mut(next).filter(|asked| asked.unsent.is_none()) {
            found.malformed = Some(shown.into());
        } else {
            context.judge_malformed(&Asked::refused(&Frame::default()), shown);
        }
        self.lose_candidate(Uncompared::Abandoned, context);
    }

    /// Ends the connection to the candidate. No outstanding request is compared.
    pub(super) fn lose_candidate(&mut self, reason: Uncompared, context: &mut Context) {
        if self.link.take().is_none() {
            return;
        }
        self.passes = false;
        self.candidate.answers = Answers::new(context.hashing);
        let has_outstanding = self.unsend(reason, context);
        let is_its_fault = self.ended.is_none() && reason != Uncompared::LostTrack;
        if is_its_fault && (has_outstanding || reason == Uncompared::Unreachable) {
            context.note_failure(reason);
        }
        self.settle(context);
    }

    /// Marks the requests that the candidate has not answered. Returns true if there were any.
    pub(super) fn unsend(&mut self, reason: Uncompared, context: &mut Context) -> bool {
        let mut has_outstanding = false;
        for asked in self.pending.iter_mut().skip(self.candidate.next) {
            if asked.unsent.is_some() || asked.candidate.is_done {
                continue;
            }
            has_outstanding = true;
            asked.unsent = Some(reason);
            context.end_in_flight(asked, None);
            if asked.changes {
                context.keys.doubt(asked.key);
                context.keys.note_loss();
            }
            if asked.verb == Verb::Flush {
                context.keys.note_gap();
            }
        }
        has_outstanding
    }

    /// Sends requests.
    pub(crate) fn flush(&mut self, context: &mut Context) -> Flushed {
        let Some(link) = &mut self.link else { return Flushed::Done };
        let mut resolved = Vec::new();
        let flushed = link.flush(&context.keys, |seen, is_known| resolved.push((seen, is_known)));
        for (seen, is_known) in resolved {
            let Some(asked) = self.pending.iter_mut().find(|asked| asked.seen == seen) else {
                continue;
            };
            asked.is_token_unknown = !is_known;
            asked.is_held = false;
            if asked.reads_token {
                context.keys.begin_tokens(asked.key);
                asked.has_begun_read = true;
            }
            if asked.changes {
                // Before this moment the candidate could not execute the change.
                context.keys.release_change(asked.key);
                context.keys.begin_change(asked.key, self.connection);
                asked.has_begun = true;
            }
        }
        if let Ok(sent) = flushed {
            return match (link.is_flushed(), sent) {
                (true, _) => Flushed::Done,
                (false, 0) => Flushed::Stuck,
                (false, _) => Flushed::Partly,
            };
        }
        let is_established = link.is_established;
        // A server that refuses a request may send the reason before it closes the connection.
        self.receive(context);
        self.lose_candidate(
            if is_established { Uncompared::Closed } else { Uncompared::Unreachable },
            context,
        );
        Flushed::Done
    }

    /// Checks the limits of time and memory. Returns false if the connection is done.
    pub(crate) fn check(&mut self, context: &mut Context) -> bool {
        let is_late = |since: Option<Instant>, patience| {
            since.is_some_and(|since| since.elapsed() > patience)
        };
        let owes = self
            .pending
            .iter()
            .skip(self.candidate.next)
            .any(|asked| asked.unsent.is_none() && asked.live.is_done && !asked.is_quiet);
        if owes && is_late(self.owes_since, context.limits.patience) {
            let is_open = self.link.as_ref().is_some_and(|link| link.is_established);
            let reason = if is_open { Uncompared::Slow } else { Uncompared::Unreachable };
            self.lose_candidate(reason, context);
        }
        if self.ended.is_none() {
            return true;
        }
        let is_flushed = self.link.as_ref().is_none_or(Link::is_flushed);
        if is_flushed && let Some(link) = &mut self.link {
            link.shut();
        }
        self.link.is_some() && !is_late(self.ended, context.limits.patience)
    }
}
