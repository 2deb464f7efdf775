//! Compares the responses of the two servers to one request.

use super::Context;
use super::asked::{Asked, Shape, Verb};
use super::keys::KeyHash;
use super::unit::{Form, Unit, Word};
use crate::shadow::feed::ConnectionId;
use crate::shadow::tally::{Difference, Explained, Sample, Uncompared};

/// The outcome of a request, independent of the dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Hit,
    Miss,
    Stored,
    NotStored,
    Exists,
    NotFound,
    Deleted,
    Touched,
    Number,
    NonNumeric,
    Done,
    Error,
}

impl Status {
    /// Returns the outcome; without a response it is the outcome that a quiet request hides.
    fn of(asked: &Asked, unit: Option<&Unit>) -> Self {
        let Some(unit) = unit else { return Self::hidden(asked.verb) };
        match unit.form {
            Form::Value => Self::Hit,
            Form::End => Self::Miss,
            Form::Word(word) => match word {
                Word::Stored => Self::Stored,
                Word::NotStored => Self::NotStored,
                Word::Exists => Self::Exists,
                Word::NotFound => Self::NotFound,
                Word::Deleted => Self::Deleted,
                Word::Touched => Self::Touched,
                Word::Ok | Word::Reset => Self::Done,
            },
            Form::Number(_) => Self::Number,
            Form::ClientError if asked.verb == Verb::Count => {
                let text = unit.text.as_deref().unwrap_or_default();
                if text.contains("non-numeric") { Self::NonNumeric } else { Self::Error }
            }
            Form::Error | Form::ClientError | Form::ServerError => Self::Error,
            Form::Meta(code) => Self::of_meta(asked, code, unit),
            Form::Binary(status) => Self::of_binary(asked.verb, status),
            Form::Row | Form::Refused | Form::Other => Self::Done,
        }
    }

    fn hidden(verb: Verb) -> Self {
        match verb {
            Verb::Get => Self::Miss,
            Verb::Delete => Self::Deleted,
            Verb::Count => Self::Number,
            Verb::Touch => Self::Touched,
            Verb::Flush | Verb::NoOp | Verb::Other => Self::Done,
            _ => Self::Stored,
        }
    }

    fn of_meta(asked: &Asked, code: [u8; 2], unit: &Unit) -> Self {
        match (&code, asked.verb) {
            // A miss that created an item, or that of another client.
            (b"VA" | b"HD", Verb::Get) if unit.is_claimed && !unit.is_stale => Self::Miss,
            (b"VA" | b"HD", verb) => match verb {
                Verb::Get => Self::Hit,
                _ => Self::hidden(verb),
            },
            (b"EN", _) => Self::Miss,
            (b"NF", Verb::Get) => Self::Miss,
            (b"NS", _) => Self::NotStored,
            (b"EX", _) => Self::Exists,
            (b"NF", _) => Self::NotFound,
            _ => Self::Done,
        }
    }

    fn of_binary(verb: Verb, status: u16) -> Self {
        match (status, verb) {
            (0, Verb::Get) => Self::Hit,
            (0, _) => Self::hidden(verb),
            (1, Verb::Get) => Self::Miss,
            (2, Verb::Add) => Self::NotStored,
            (1, Verb::Replace) => Self::NotStored,
            (1, _) => Self::NotFound,
            (2, _) => Self::Exists,
            (5, _) => Self::NotStored,
            (6, _) => Self::NonNumeric,
            (0x20 | 0x21, _) => Self::Done,
            _ => Self::Error,
        }
    }

    /// Returns the name in reports.
    fn word(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Stored => "stored",
            Self::NotStored => "not stored",
            Self::Exists => "exists",
            Self::NotFound => "not found",
            Self::Deleted => "deleted",
            Self::Touched => "touched",
            Self::Number => "a number",
            Self::NonNumeric => "not a number",
            Self::Done => "done",
            Self::Error => "error",
        }
    }

    /// True if the item existed before the request; `None` if the outcome does not depend on it.
    fn presence(self, asked: &Asked) -> Option<bool> {
        match (asked.verb, self) {
            (_, Self::Error | Self::Done) | (Verb::Set, _) => None,
            (Verb::Get, Self::Hit) => Some(true),
            (Verb::Get, _) => Some(false),
            (Verb::Add, Self::Stored) => Some(false),
            (Verb::Add, _) => Some(true),
            (_, Self::NotStored | Self::NotFound | Self::Miss) => Some(false),
            // A counter or an append that a miss creates has the response of a hit.
            (_, Self::Number | Self::Stored) if asked.may_create => None,
            (_, _) => Some(true),
        }
    }

    fn is_success(self) -> bool {
        matches!(
            self,
            Self::Hit | Self::Stored | Self::Deleted | Self::Touched | Self::Number | Self::Done
        )
    }
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Identical,
    Explained(Explained),
    Differs(Difference),
}

impl Context {
    /// Counts a request to which both servers have responded, or which the candidate does not
    /// answer, and updates the facts about its keys.
    pub(super) fn judge(&mut self, mut asked: Asked, connection: ConnectionId) {
        if let Some(candidate) = asked.malformed.take() {
            return self.judge_malformed(&asked, candidate.into());
        }
        if asked.unsent.is_none() && !asked.live.is_done {
            asked.unsent = Some(Uncompared::Unanswered);
            self.end_in_flight(&asked, None);
            if asked.changes {
                self.keys.doubt(asked.key);
            }
        }
        self.tally.requests += asked.count();
        if let Some(reason) = asked.unsent {
            self.tally.skip(reason, asked.count());
            return;
        }
        if asked.shape == Shape::Values {
            self.judge_values(&asked, connection);
            return;
        }
        let (live, candidate) = (asked.live.first.as_ref(), asked.candidate.first.as_ref());
        let verdict = self.verdict(&asked, live, candidate);
        let verdict = self.excused(verdict, &asked, asked.key, connection);
        self.note_lost(verdict, asked.key);
        let tokens = self.tokens(&asked, asked.key, connection, live, candidate);
        self.end_in_flight(&asked, tokens);
        self.update(&asked, verdict);
        self.count(&asked, 0, verdict, [live, candidate]);
    }

    fn judge_values(&mut self, asked: &Asked, connection: ConnectionId) {
        let find = |replies: &super::asked::Replies, key| {
            let mut units = replies.first.iter().chain(&replies.more);
            units.find(|unit| unit.is_error() || unit.key == Some(key)).cloned()
        };
        let keys = std::iter::once(asked.key).chain(asked.more_keys.iter().copied());
        for (place, key) in keys.enumerate() {
            let (live, candidate) = (find(&asked.live, key), find(&asked.candidate, key));
            // The end of the values is the response to a key without an item.
            let verdict = self.verdict(asked, live.as_ref(), candidate.as_ref());
            let verdict = self.excused(verdict, asked, key, connection);
            if asked.reads_token {
                let tokens = self.tokens(asked, key, connection, live.as_ref(), candidate.as_ref());
                self.keys.end_tokens(key, tokens);
            }
            self.note_lost(verdict, key);
            self.count(asked, place, verdict, [live.as_ref(), candidate.as_ref()]);
        }
    }

    /// Ends the notes about a request in flight. `tokens` are those in the responses.
    pub(super) fn end_in_flight(&mut self, asked: &Asked, tokens: Option<(u64, u64)>) {
        if asked.is_held && asked.changes {
            self.keys.release_change(asked.key);
        }
        if asked.has_begun {
            self.keys.end_change(asked.key);
        }
        if asked.verb == Verb::Flush {
            self.keys.end_flush();
        }
        if asked.has_begun_read {
            self.keys.end_tokens(asked.key, tokens);
            asked.more_keys.iter().for_each(|key| self.keys.end_tokens(*key, None));
        }
    }

    /// Returns the tokens in two responses, if they belong to the same item.
    fn tokens(
        &self,
        asked: &Asked,
        key: KeyHash,
        connection: ConnectionId,
        live: Option<&Unit>,
        candidate: Option<&Unit>,
    ) -> Option<(u64, u64)> {
        let (live, candidate) = (live?, candidate?);
        let is_raced = self.keys.excuse(key, asked.seen, connection) == Some(Explained::Raced);
        let is_same = live.value_bytes.is_some()
            && (live.value_bytes, live.hash) == (candidate.value_bytes, candidate.hash);
        if is_raced && asked.verb == Verb::Get && !is_same {
            return None;
        }
        live.cas.zip(candidate.cas)
    }

    /// Compares two responses; `None` is the response that a quiet request hides, or a miss.
    fn verdict(&mut self, asked: &Asked, live: Option<&Unit>, candidate: Option<&Unit>) -> Verdict {
        let statuses = [Status::of(asked, live), Status::of(asked, candidate)];
        let [of_live, of_candidate] = statuses;
        let presence = statuses.map(|status| status.presence(asked));
        if asked.verb == Verb::Get && !asked.is_volatile {
            for (server, presence) in presence.iter().enumerate() {
                self.tally.hits[server] += u64::from(*presence == Some(true));
                self.tally.misses[server] += u64::from(*presence == Some(false));
            }
        }
        match presence {
            [Some(true), Some(false)] => return Verdict::Explained(Explained::HitAtLiveOnly),
            [Some(false), Some(true)] => return Verdict::Explained(Explained::HitAtCandidateOnly),
            _ => {}
        }
        match [of_live, of_candidate].map(|status| status == Status::Error) {
            [false, false] => {}
            [true, false] => return Verdict::Differs(Difference::ErrorAtLive),
            [false, true] => return Verdict::Differs(Difference::ErrorAtCandidate),
            [true, true] => {
                let hash = |unit: Option<&Unit>| unit.map(|unit| (unit.form, unit.hash));
                let is_same = asked.is_volatile || hash(live) == hash(candidate);
                return if is_same {
                    Verdict::Identical
                } else {
                    Verdict::Differs(Difference::ErrorText)
                };
            }
        }
        if asked.is_volatile {
            return Verdict::Explained(Explained::Volatile);
        }
        if of_live != of_candidate {
            return Verdict::Differs(Difference::Status);
        }
        match (live, candidate) {
            (Some(live), Some(candidate)) => self.compare_units(live, candidate),
            _ => Verdict::Identical,
        }
    }

    fn compare_units(&self, live: &Unit, candidate: &Unit) -> Verdict {
        // The text of a binary status is not compared.
        let value = |unit: &Unit| match unit.form {
            Form::Binary(1..) => (None, None, None),
            _ => (unit.value_bytes, unit.value_bytes.map(|_| unit.hash), unit.size),
        };
        let number = |unit: &Unit| match unit.form {
            Form::Number(number) => Some(number),
            _ => None,
        };
        let ttls_agree = match (live.ttl_secs, candidate.ttl_secs) {
            (Some(live), Some(candidate)) if live >= 0 && candidate >= 0 => {
                live.abs_diff(candidate) <= self.ttl_tolerance_secs
            }
            (live, candidate) => live == candidate,
        };
        if value(live) != value(candidate) || number(live) != number(candidate) {
            Verdict::Differs(Difference::Value)
        } else if live.flags != candidate.flags {
            Verdict::Differs(Difference::Flags)
        } else if !ttls_agree {
            Verdict::Differs(Difference::Ttl)
        } else if (live.opaque, live.key, live.is_stale)
            != (candidate.opaque, candidate.key, candidate.is_stale)
        {
            Verdict::Differs(Difference::Status)
        } else {
            Verdict::Identical
        }
    }

    /// Replaces a difference by its reason, if there is one.
    fn excused(
        &self,
        verdict: Verdict,
        asked: &Asked,
        key: KeyHash,
        connection: ConnectionId,
    ) -> Verdict {
        let Verdict::Differs(difference) = verdict else { return verdict };
        // No state of the items explains an error or different statuses of an unconditional store.
        let is_of_items = match difference {
            Difference::Value | Difference::Flags | Difference::Ttl => true,
            Difference::Status => asked.verb != Verb::Set,
            _ => false,
        };
        if asked.is_unidentified {
            return Verdict::Explained(Explained::Unidentified);
        }
        if asked.is_token_unknown {
            return Verdict::Explained(Explained::Cas);
        }
        let excuse = if is_of_items { self.keys.excuse(key, asked.seen, connection) } else { None };
        excuse.map_or(verdict, Verdict::Explained)
    }

    /// Updates the facts about the key of a request that may have changed its item.
    fn update(&mut self, asked: &Asked, verdict: Verdict) {
        if !asked.changes {
            return;
        }
        let statuses = [&asked.live, &asked.candidate]
            .map(|replies| Status::of(asked, replies.first.as_ref()));
        let is_answered = !asked.is_quiet || asked.shape != Shape::Line;
        let is_known = match asked.verb {
            Verb::Set => statuses.iter().all(|status| status.is_success()),
            Verb::Delete => {
                statuses.iter().all(|status| matches!(status, Status::Deleted | Status::NotFound))
            }
            // Both servers had no item, or the item that the token names.
            Verb::Add | Verb::Cas if is_answered => {
                statuses.iter().all(|status| *status == Status::Stored)
            }
            _ => false,
        };
        // A `noreply` hides whether the item existed.
        if is_known {
            self.keys.settle(asked.key, asked.seen);
        } else if verdict != Verdict::Identical
            || (!is_answered && (asked.may_create || !self.keys.is_settled(asked.key)))
            || (asked.may_create && statuses[0] == Status::Number)
        {
            self.keys.doubt(asked.key);
        }
    }

    /// Counts an item that both servers had and the candidate lacks.
    fn note_lost(&mut self, verdict: Verdict, key: KeyHash) {
        let is_missing = verdict == Verdict::Explained(Explained::HitAtLiveOnly);
        if is_missing && self.keys.is_settled(key) {
            self.tally.lost_at_candidate += 1;
        }
    }

    fn count(&mut self, asked: &Asked, place: usize, verdict: Verdict, units: [Option<&Unit>; 2]) {
        match verdict {
            Verdict::Identical => self.tally.identical += 1,
            Verdict::Explained(kind) => self.tally.explain(kind),
            Verdict::Differs(kind) => {
                let [live, candidate] = units.map(|unit| shown(unit, Status::of(asked, unit)));
                let command = asked.name;
                let key = self.shown_key(asked, place);
                self.differ(Sample { kind, command, key, live, candidate });
            }
        }
    }

    /// Counts a response of the candidate that cannot be one to this request.
    pub(super) fn judge_malformed(&mut self, asked: &Asked, candidate: String) {
        self.tally.requests += asked.count();
        self.tally.skip(Uncompared::Abandoned, asked.count() - 1);
        let live = match asked.live.is_done {
            true => shown(asked.live.first.as_ref(), Status::of(asked, asked.live.first.as_ref())),
            false => "not yet answered".to_owned(),
        };
        let key = self.shown_key(asked, 0);
        self.differ(Sample {
            kind: Difference::Malformed,
            command: asked.name,
            key,
            live,
            candidate,
        });
    }

    /// Returns the key at a place of a request as reports show it.
    fn shown_key(&self, asked: &Asked, place: usize) -> String {
        let hash = match place.checked_sub(1) {
            None => asked.key,
            Some(place) => asked.more_keys[place],
        };
        match (asked.key_texts.get(place), hash) {
            (Some(text), _) => text.escape_ascii().to_string(),
            (None, 0) => "-".to_owned(),
            (None, hash) => format!("#{hash:016x}"),
        }
    }
}

/// Returns a response in short.
fn shown(unit: Option<&Unit>, status: Status) -> String {
    let Some(unit) = unit else { return status.word().to_owned() };
    if let Some(text) = &unit.text {
        return text.to_string();
    }
    let mut shown = match unit.form {
        Form::Number(number) => number.to_string(),
        Form::Meta(code) => code.escape_ascii().to_string(),
        Form::Binary(code) if unit.is_error() => format!("status {code:#x}"),
        _ => status.word().to_owned(),
    };
    if let Some(bytes) = unit.value_bytes.filter(|_| status == Status::Hit) {
        shown += &format!(", {bytes} bytes with hash {:08x}", unit.hash as u32);
    }
    if let Some(flags) = unit.flags {
        shown += &format!(", flags {flags}");
    }
    if let Some(ttl_secs) = unit.ttl_secs {
        shown += &format!(", {ttl_secs} s to live");
    }
    shown
}
