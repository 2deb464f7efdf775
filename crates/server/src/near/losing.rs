//! How the near thread gives up requests without an answer, and loses connections.

use larder::copies::{FetchFailure, FlightResult};
use larder_protocol::ServerError;
use larder_stats::Counter;

use super::connecting::RETRY_MS;
use super::links::dial::Role;
use super::links::link::{LinkState, Lost, PendingRequest};
use super::links::{STREAM, class_of_link};
use super::thread::Loop;
use super::{boot_ms, millis};

impl Loop {
    /// Gives up requests that the origin has not answered in time. The link stays: the answers may
    /// still come.
    pub(super) fn give_up(&mut self, now_ms: u64) {
        let timeout_ms = millis(self.origin.options.timeout);
        let patience_ms = PATIENCE * timeout_ms;
        for number in 0..self.links.len() {
            if self.links[number].paused_since.is_some() {
                self.give_up_held(number, now_ms);
            }
            let link = &self.links[number];
            let is_stuck =
                link.pending.front().is_some_and(|front| front.deadline_ms + patience_ms <= now_ms);
            if is_stuck {
                self.lose(number, &Lost::Silent);
                continue;
            }
            while let Some(pending) = self.links[number].pending.get(self.links[number].given_up)
                && pending.deadline_ms <= now_ms
            {
                self.fail(&pending.of);
                self.links[number].given_up += 1;
            }
        }
        let stale_ms_max = millis(self.origin.options.stale_max);
        let asked = self.stream.as_ref().and_then(|stream| stream.asked.front());
        let is_silent = |silent_ms| asked.is_some_and(|asked| asked + silent_ms <= now_ms);
        // The oldest question that is not answered was asked a quarter after the last one that is.
        let is_late = is_silent(stale_ms_max / 8 * 5) && self.origin.must_drop_late_copies(now_ms);
        if is_silent(2 * stale_ms_max) || is_late {
            self.lose(STREAM, &Lost::Silent);
        }
    }

    /// Gives up the answer that holds up a link, if others need the link.
    fn give_up_held(&mut self, number: usize, now_ms: u64) {
        let timeout_ms = millis(self.origin.options.timeout);
        let class = class_of_link(number);
        let are_waiting = class.is_some_and(|class| !self.waiting[class].is_empty());
        let link = &mut self.links[number];
        let are_behind = link.pending.len() > 1;
        let Some(front) = link.pending.front_mut() else { return };
        // It is the client who is slow, not the origin.
        front.deadline_ms = now_ms + timeout_ms;
        let is_long = link.paused_since.is_some_and(|since_ms| since_ms + timeout_ms <= now_ms);
        if is_long && are_behind {
            link.given_up = link.given_up.max(1);
            if let Some(front) = self.links[number].pending.front() {
                self.fail(&front.of);
            }
        } else if is_long && are_waiting {
            self.lose(number, &Lost::HeldUp);
        }
    }

    /// Fails a request that was sent, and whose answer is not awaited any more.
    pub(super) fn fail(&self, request: &PendingRequest) {
        match request {
            PendingRequest::Follower => return,
            PendingRequest::Fetch(flight) | PendingRequest::Gets(flight) => {
                self.origin.copies.give_up(flight, FlightResult::Failed(FetchFailure::Unanswered));
            }
            PendingRequest::Pass(pass) => {
                // Rule: LossInvalidates
                self.invalidate(&pass.concerned);
                pass.answer.fail(ServerError::OriginSilent);
            }
        }
        self.origin.counters.bump(Counter::NearUnanswered);
    }

    /// Ends a link.
    pub(super) fn lose(&mut self, number: usize, lost: &Lost) {
        let link = &mut self.links[number];
        let retry_ms = boot_ms() + RETRY_MS;
        link.state = LinkState::Down { retry_ms };
        let pending = std::mem::take(&mut link.pending);
        link.given_up = 0;
        for request in pending {
            self.fail(&request.of);
        }
        let is_of_origin = !matches!(lost, Lost::HeldUp) && self.links[number].role != Role::Stream;
        if self.origin.is_timed() && is_of_origin {
            // It may have been restarted, and cas tokens count from the start.
            self.begin_timed();
        }
        if number == STREAM && self.stream.take().is_some() {
            self.origin.counters.bump(Counter::NearStreamsLost);
            self.origin.set_stream(None);
            self.origin.copies.resubscribe();
            if !matches!(lost, Lost::Retired) {
                self.report(format!(
                    "the change stream is lost: {lost}; nothing is copied until it is restored"
                ));
            }
        } else if !matches!(lost, Lost::Closed | Lost::Retired) {
            self.report(format!("a connection is lost: {lost}"));
        }
    }
}

/// The link is lost when its first request has waited for this many timeouts.
const PATIENCE: u64 = 10;
