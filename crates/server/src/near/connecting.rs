//! How the near thread connects to the origin, and begins the change stream.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use larder_protocol::follow::Terms;
use rustix::event::epoll::{self, EventFlags};

use super::links::dial::{self, DialError, Dialed, Role, is_temporary};
use super::links::link::{LinkState, Lost, Pending, PendingRequest, push_follower};
use super::links::{FETCH_LINKS, STREAM, is_lazy};
use super::thread::{Loop, Stream};
use super::{Reach, millis};
use crate::log;

impl Loop {
    /// Begins the attempts to connect that are due.
    pub(super) fn dial(&mut self, now_ms: u64) {
        for number in 0..self.links.len() {
            let link = &mut self.links[number];
            let is_usual = self.is_known && !is_lazy(number);
            let needed = match number {
                // Without copies, only to learn whether the origin is a near cache.
                STREAM => !self.is_known || self.origin.may_copy(),
                _ => link.is_wanted && self.is_known || is_usual,
            };
            match link.state {
                LinkState::Down { retry_ms } if needed && retry_ms <= now_ms => {}
                LinkState::Dialing { since_ms } if since_ms + DIAL_MS_MAX <= now_ms => {
                    // The thread of the attempt is stuck, for example because of a name server.
                    self.origin.set_reach(Reach::Unreachable);
                    continue;
                }
                _ => continue,
            }
            link.state = LinkState::Dialing { since_ms: now_ms };
            let (dialings, origin) = (Arc::clone(&self.dialings), Arc::clone(&self.origin));
            let is_started =
                dial::start(&self.origin.address, &self.origin.options, link.role, move |dialed| {
                    dialings.lock().unwrap_or_else(PoisonError::into_inner).push((number, dialed));
                    origin.waker.wake();
                });
            if !is_started {
                link.state = LinkState::Down { retry_ms: now_ms + RETRY_MS_MAX };
            }
        }
    }

    pub(super) fn take_dialed(&mut self, now_ms: u64) {
        let dialed =
            std::mem::take(&mut *self.dialings.lock().unwrap_or_else(PoisonError::into_inner));
        for (number, dialed) in dialed {
            match dialed {
                Ok(dialed) => self.rise(number, dialed, now_ms),
                Err(error) => self.note_refused(number, &error, now_ms),
            }
        }
    }

    fn rise(&mut self, number: usize, dialed: Dialed, now_ms: u64) {
        let data = epoll::EventData::new_u64(number as u64);
        if let Err(error) = epoll::add(&self.epoll, &dialed.socket, data, EventFlags::IN) {
            let lost = Lost::Io(error.into());
            return self.lose(number, &lost);
        }
        if self.links[number].is_proven() {
            self.origin.set_reach(Reach::Reached);
        }
        self.links[number].rise(dialed.socket);
        match dialed.terms {
            Some(terms) => self.begin_stream(terms, now_ms),
            None if self.links[number].role == Role::Fetch => self.name_stream(number, now_ms),
            None => {}
        }
    }

    /// Begins without copies, to use each for `--near-ttl`.
    pub(super) fn begin_timed(&mut self) {
        self.origin.set_stream(None);
        let subscription = self.origin.copies.resubscribe();
        let terms = Terms::new(0, 0, TIMED_BUCKETS_LOG2, fastrand::u64(..));
        self.origin.set_timed(true);
        self.origin.set_stream(Some((terms, subscription)));
    }

    fn begin_stream(&mut self, terms: Terms, now_ms: u64) {
        if self.origin.is_timed() {
            self.origin.set_stream(None);
            self.origin.copies.resubscribe();
            self.origin.set_timed(false);
        }
        let subscription = self.origin.copies.subscription();
        self.is_known = true;
        if !self.origin.may_copy() {
            self.report(OTHER_PROCESS.to_owned());
            return self.lose(STREAM, &Lost::Retired);
        }
        self.stream = Some(Stream { terms, asked: VecDeque::new(), next_alive_ms: now_ms });
        for number in FETCH_LINKS {
            if self.links[number].is_up() {
                self.name_stream(number, now_ms);
            }
        }
        // After the links know the stream: a worker that sees it may put a fetch.
        self.origin.set_stream(Some((terms, subscription)));
        log::info(format_args!("larderd: origin {}: reports its changes", self.origin.address));
        self.logged = None;
    }

    /// Tells the origin which change stream the fetches of a link belong to.
    fn name_stream(&mut self, number: usize, now_ms: u64) {
        let Some(stream) = &self.stream else { return };
        let link = &mut self.links[number];
        link.push(|out| push_follower(out, &stream.terms));
        let deadline_ms = now_ms + millis(self.origin.options.timeout);
        link.pending.push_back(Pending { of: PendingRequest::Follower, deadline_ms });
    }

    fn note_refused(&mut self, number: usize, error: &DialError, now_ms: u64) {
        let link = &mut self.links[number];
        link.failures += 1;
        let backoff_ms = (RETRY_MS << link.failures.min(8)).min(RETRY_MS_MAX);
        link.state = LinkState::Down { retry_ms: now_ms + backoff_ms };
        match error {
            DialError::NearCache => {
                self.is_known = false;
                self.origin.set_stream(None);
                self.origin.set_timed(false);
                for number in 0..self.links.len() {
                    self.lose(number, &Lost::Closed);
                }
            }
            DialError::Follow(answer) => {
                self.is_known = true;
                if !is_temporary(answer) && !self.origin.may_copy() {
                    self.origin.set_reach(Reach::Reached);
                    return self.report(OTHER_PROCESS.to_owned());
                }
                if !is_temporary(answer) {
                    link.state = LinkState::Down { retry_ms: now_ms + FOLLOW_RETRY_MS };
                    if !self.origin.is_timed() {
                        self.begin_timed();
                    }
                    let ttl = self.origin.options.ttl;
                    self.origin.set_reach(Reach::Reached);
                    return self.report(format!("{error}; each copy is used for {ttl:?}"));
                }
            }
            _ => {}
        }
        // Idle connections of a process that hangs stay up.
        let hangs = matches!(error, DialError::Silent);
        let is_reached = error.is_reached() || self.any_up() && !hangs;
        self.origin.set_reach(if is_reached { Reach::Reached } else { Reach::Unreachable });
        self.report(error.to_string());
    }

    /// Logs trouble, unless the log has the same text last.
    pub(super) fn report(&mut self, text: String) {
        if self.logged.as_ref() != Some(&text) {
            log::warn(format_args!("larderd: origin {}: {text}", self.origin.address));
            self.logged = Some(text);
        }
    }
}

/// Logged once for an origin during an upgrade of this process.
const OTHER_PROCESS: &str = "nothing is copied until the process that this one replaces has ended";

/// The pause before a new attempt to connect. It doubles with each failure.
pub(super) const RETRY_MS: u64 = 20;
const RETRY_MS_MAX: u64 = 1000;

/// The pause before an origin that reports no changes is asked again.
const FOLLOW_RETRY_MS: u64 = 5000;

/// The number of buckets without a change stream.
const TIMED_BUCKETS_LOG2: u32 = 20;

/// An attempt that takes longer makes the origin count as unreachable.
const DIAL_MS_MAX: u64 = 2000;
