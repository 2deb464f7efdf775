//! A request and the responses to it that have arrived so far.

use larder_item::{KEY_BYTES_MAX, StoreMode};
use larder_protocol::binary::opcode;
use larder_protocol::{Admin, Command, Frame, Remains};

use super::keys::{KeyHash, Moment};
use super::unit::{Form, Hashing, Unit, Word};
use crate::shadow::tally::Uncompared;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// The server that answers the clients.
    Live,
    /// The server to compare with it.
    Candidate,
}

/// The form of the response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Any number of `VALUE` and an `END`.
    Values,
    /// One line.
    Line,
    /// Lines up to an `END`.
    List,
    /// A list of keys of `lru_crawler`.
    Dump,
    /// One line of the meta protocol, perhaps with a value.
    Meta,
    /// One binary response.
    Binary,
    /// Binary responses up to an empty one.
    BinaryList,
    /// No response.
    Nothing,
}

/// The effect of a request, as far as the meaning of responses depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Reads an item.
    Get,
    /// Stores regardless of the current item.
    Set,
    /// Stores if there is no item.
    Add,
    /// Stores if there is an item, or changes its value.
    Replace,
    /// Stores if the item has a token.
    Cas,
    /// Removes an item.
    Delete,
    /// Changes a counter.
    Count,
    /// Sets a time to live.
    Touch,
    /// Removes all items.
    Flush,
    /// Responds with `MN`.
    NoOp,
    /// Anything else.
    Other,
}

/// The responses of one server.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// The first unit.
    pub(crate) first: Option<Unit>,
    /// The other units.
    pub(crate) more: Vec<Unit>,
    /// True if no more units follow.
    pub(crate) is_done: bool,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The form of its response.
    pub(crate) shape: Shape,
    /// Its effect.
    pub(crate) verb: Verb,
    /// Its name in reports.
    pub(crate) name: &'static str,
    /// Its position among all requests.
    pub(crate) seen: Moment,
    /// The hash of its first key; 0 without a key.
    pub(crate) key: KeyHash,
    /// The hashes of its other keys.
    pub(crate) more_keys: Vec<KeyHash>,
    /// The keys, if reports show them.
    pub(crate) key_texts: Vec<Box<[u8]>>,
    /// The hash of the key as a meta response repeats it, if the request asks for it.
    echo: Option<KeyHash>,
    /// The opaque.
    opaque: Option<u64>,
    opcode: u8,
    /// True if a meta get returns the value.
    has_value: bool,
    /// True if the expected response is not sent.
    pub(crate) is_quiet: bool,
    /// True if a miss creates an item.
    pub(crate) may_create: bool,
    /// True if the response depends on the server, not on the items.
    pub(crate) is_volatile: bool,
    /// True if the request changes the item of its key.
    pub(crate) changes: bool,
    /// True if the responses may contain a cas token.
    pub(crate) reads_token: bool,
    /// The cas token of the request.
    pub(crate) token: Option<u64>,
    /// True if the request waits for the candidate's token.
    pub(crate) is_held: bool,
    /// True if [`Keys`](super::keys::Keys) counts the request as a change in flight.
    pub(crate) has_begun: bool,
    /// True if [`Keys`](super::keys::Keys) expects tokens of the request.
    pub(crate) has_begun_read: bool,
    /// True if the candidate has no known token in its place.
    pub(crate) is_token_unknown: bool,
    /// True if keys may follow.
    pub(crate) is_open: bool,
    /// The reason why the candidate does not answer; `None` if the request is sent to it.
    pub(crate) unsent: Option<Uncompared>,
    /// The bytes of the candidate that are not a response to this request.
    pub(crate) malformed: Option<Box<str>>,
    /// True if the response of a quiet request cannot be told from that of another one.
    pub(crate) is_unidentified: bool,
    /// The responses of the live server.
    pub(crate) live: Replies,
    /// The responses of the candidate.
    pub(crate) candidate: Replies,
}

/// How a command is handled.
#[derive(Debug)]
pub(crate) enum Plan {
    /// It is compared.
    Compare(Box<Asked>),
    /// It is sent to the live server only.
    Withhold(Box<Asked>),
    /// Another key of the request in progress.
    Key,
    /// The end of the keys of the request in progress.
    EndOfKeys,
    /// The rest of the connection cannot be compared.
    Leave,
}

impl Plan {
    /// Returns the plan for a command.
    pub(crate) fn of(command: &Command<'_>, frame: &Frame<'_>, hashing: Hashing) -> Self {
        match command {
            Command::EndOfKeys => return Self::EndOfKeys,
            Command::LeaseGet { .. }
            | Command::Region
            | Command::NoteReads { .. }
            | Command::Follow { .. }
            | Command::Follower { .. }
            | Command::Copy(_)
            | Command::Admin(Admin::Watch(_)) => return Self::Leave,
            Command::Inspect { .. } if !matches!(frame, Frame::Meta(_)) => return Self::Leave,
            _ => {}
        }
        let mut asked = Asked::of(command, frame);
        asked.identify(command, frame, hashing);
        match command {
            Command::Admin(_)
            | Command::MemoryLimit { .. }
            | Command::RefreshCertificates
            | Command::Shutdown { .. }
            | Command::Kill(_)
            | Command::Name { .. } => Self::Withhold(Box::new(asked)),
            _ => Self::Compare(Box::new(asked)),
        }
    }
}

impl Asked {
    /// Returns a request whose response is an error line.
    pub(crate) fn refused(frame: &Frame<'_>) -> Self {
        let shape = match frame {
            Frame::Binary(_) => Shape::Binary,
            Frame::Text { .. } | Frame::Meta(_) => Shape::Line,
        };
        let mut asked = Self::plain(shape, Verb::Other, "an invalid request");
        if let Frame::Binary(frame) = frame {
            asked.opcode = frame.opcode;
            asked.opaque = Some(frame.opaque.into());
        }
        asked
    }

    fn plain(shape: Shape, verb: Verb, name: &'static str) -> Self {
        Self {
            shape,
            verb,
            name,
            seen: 0,
            key: 0,
            more_keys: Vec::new(),
            key_texts: Vec::new(),
            echo: None,
            opaque: None,
            opcode: 0,
            has_value: false,
            is_quiet: false,
            may_create: false,
            is_volatile: false,
            changes: false,
            reads_token: false,
            token: None,
            is_held: false,
            has_begun: false,
            has_begun_read: false,
            is_token_unknown: false,
            is_open: false,
            unsent: None,
            malformed: None,
            is_unidentified: false,
            live: Replies::default(),
            candidate: Replies::default(),
        }
    }

    fn of(command: &Command<'_>, frame: &Frame<'_>) -> Self {
        let shape = match frame {
            Frame::Text { .. } => Shape::Line,
            Frame::Meta(_) => Shape::Meta,
            Frame::Binary(_) => Shape::Binary,
        };
        let plain = |verb, name| Self::plain(shape, verb, name);
        match command {
            Command::Get { .. } if shape == Shape::Line => {
                Self { is_open: true, ..Self::plain(Shape::Values, Verb::Get, "get") }
            }
            Command::Get { .. } => plain(Verb::Get, "get"),
            Command::Fetch(fetch) => Self {
                may_create: fetch.vivify.is_some(),
                has_value: fetch.with_value,
                ..plain(Verb::Get, "meta get")
            },
            Command::Inspect { .. } => Self { is_volatile: true, ..plain(Verb::Get, "meta debug") },
            Command::Store(store) => {
                let (verb, name) = match store.mode {
                    StoreMode::Set if store.cas.is_some() => (Verb::Cas, "cas"),
                    StoreMode::Set => (Verb::Set, "set"),
                    StoreMode::Add => (Verb::Add, "add"),
                    StoreMode::Replace => (Verb::Replace, "replace"),
                    StoreMode::Append => (Verb::Replace, "append"),
                    StoreMode::Prepend => (Verb::Replace, "prepend"),
                };
                let may_create = store.mode == StoreMode::Add || store.vivify.is_some();
                Self { may_create, ..plain(verb, name) }
            }
            Command::Delete(delete) if delete.remains == Remains::Nothing => {
                plain(Verb::Delete, "delete")
            }
            Command::Delete(_) => plain(Verb::Replace, "meta delete"),
            Command::Arithmetic(arithmetic) => Self {
                may_create: arithmetic.initial.is_some(),
                ..plain(Verb::Count, "arithmetic")
            },
            Command::Touch { .. } => plain(Verb::Touch, "touch"),
            Command::FlushAll { .. } => plain(Verb::Flush, "flush_all"),
            Command::DeletePrefix { .. } => plain(Verb::Flush, "delete_prefix"),
            Command::NoOp if shape == Shape::Binary => plain(Verb::Other, "no-op"),
            Command::NoOp => Self::plain(Shape::Meta, Verb::NoOp, "no-op"),
            Command::Quit if shape == Shape::Line => {
                Self::plain(Shape::Nothing, Verb::Other, "quit")
            }
            Command::Quit => plain(Verb::Other, "quit"),
            _ => Self::of_rare(command, shape),
        }
    }

    fn of_rare(command: &Command<'_>, shape: Shape) -> Self {
        let (shape, name) = match (command, shape) {
            (Command::Stats(_), Shape::Binary) => (Shape::BinaryList, "stats"),
            (Command::Stats(_), _) => (Shape::List, "stats"),
            (Command::Admin(Admin::Dump(..)), _) => (Shape::Dump, "lru_crawler"),
            (Command::Admin(Admin::Detail(_)), _) => (Shape::List, "stats detail"),
            (Command::Version, shape) => (shape, "version"),
            (_, shape) => (shape, "an administrative command"),
        };
        Self { is_volatile: true, ..Self::plain(shape, Verb::Other, name) }
    }

    /// Sets the parts that depend on the key and on the frame.
    fn identify(&mut self, command: &Command<'_>, frame: &Frame<'_>, hashing: Hashing) {
        if let Some(key) = command.key() {
            let decoded = &mut [0; KEY_BYTES_MAX];
            let key = match frame {
                Frame::Meta(frame) => frame.decoded_key(decoded).unwrap_or(key),
                _ => key,
            };
            self.key = hashing.of(key);
        }
        self.changes = !matches!(self.verb, Verb::Get | Verb::Flush | Verb::NoOp | Verb::Other)
            || self.may_create;
        self.token = match command {
            Command::Store(store) => store.cas,
            Command::Fetch(fetch) => fetch.known_cas,
            Command::Delete(delete) => delete.cas,
            Command::Arithmetic(arithmetic) => arithmetic.cas,
            _ => None,
        }
        .filter(|token| *token != 0);
        match frame {
            Frame::Text { quiet } => {
                self.is_quiet = *quiet;
                self.reads_token = matches!(command, Command::Get { with_cas: true, .. });
            }
            Frame::Meta(frame) => {
                self.is_quiet = frame.quiet;
                for word in frame.flags.split(|byte| *byte == b' ') {
                    match word {
                        [b'k'] => self.echo = Some(hashing.of(frame.key)),
                        [b'O', opaque @ ..] => self.opaque = Some(hashing.of(opaque)),
                        [b'c'] => self.reads_token = true,
                        _ => {}
                    }
                }
            }
            Frame::Binary(frame) => {
                self.is_quiet = opcode::is_quiet(frame.opcode);
                self.opaque = Some(frame.opaque.into());
                self.opcode = frame.opcode;
                self.reads_token = command.key().is_some() && self.verb != Verb::Delete;
            }
        }
    }

    /// Marks a quiet get whose response could also be that of the request before it.
    pub(crate) fn compare_identity(&mut self, before: Option<&mut Self>) {
        let is_quiet_get = |asked: &Self| {
            asked.is_quiet && asked.verb == Verb::Get && asked.shape != Shape::Values
        };
        let Some(before) = before.filter(|before| is_quiet_get(before)) else { return };
        let is_named = self.echo.is_some() || (self.shape == Shape::Meta && self.opaque.is_some());
        let is_other = self.opaque != before.opaque || self.opcode != before.opcode;
        let names_key = opcode::names_key(self.opcode) && self.shape == Shape::Binary;
        if is_quiet_get(self) && !is_named && !names_key && (!is_other || self.opaque.is_none()) {
            self.is_unidentified = true;
            before.is_unidentified = true;
        }
    }

    /// True if a response names the request.
    pub(crate) fn is_named(&self) -> bool {
        self.echo.is_some() || self.opaque.is_some()
    }

    /// Returns the responses of a server.
    pub(crate) fn replies(&mut self, server: Server) -> &mut Replies {
        match server {
            Server::Live => &mut self.live,
            Server::Candidate => &mut self.candidate,
        }
    }

    /// The number of requests that this one counts as.
    pub(crate) fn count(&self) -> u64 {
        1 + self.more_keys.len() as u64
    }

    /// Decides whether a unit belongs to this request.
    pub(crate) fn fit(&self, unit: &Unit) -> Fit {
        let is_line_error =
            matches!(unit.form, Form::Error | Form::ClientError | Form::ServerError);
        let takes = |is_done| Fit::Takes { is_done };
        let one = |accepts| match (accepts, self.is_quiet) {
            (true, _) => takes(true),
            (false, true) => Fit::Silent,
            (false, false) => Fit::Alien,
        };
        match self.shape {
            Shape::Nothing => Fit::Silent,
            Shape::Values => match unit.form {
                Form::Value => takes(false),
                Form::End => takes(true),
                _ if is_line_error => takes(true),
                _ => Fit::Alien,
            },
            Shape::Line if self.is_quiet => one(is_line_error),
            Shape::Line => one(is_line_error || self.accepts_line(unit.form)),
            Shape::List => match unit.form {
                Form::End | Form::Word(Word::Ok | Word::Reset) => takes(true),
                Form::Row | Form::Other => takes(false),
                _ => one(is_line_error),
            },
            Shape::Dump => match unit.form {
                Form::End | Form::Refused | Form::Meta(_) => takes(true),
                Form::Word(Word::Ok) | Form::Other => takes(false),
                _ => one(is_line_error),
            },
            Shape::Meta => one(is_line_error || self.accepts_meta(unit)),
            Shape::Binary => one(self.accepts_binary(unit)),
            Shape::BinaryList if !self.accepts_binary(unit) => Fit::Alien,
            Shape::BinaryList => takes(unit.size == Some(0) || unit.is_error()),
        }
    }

    fn accepts_line(&self, form: Form) -> bool {
        match (self.verb, form) {
            (Verb::Set | Verb::Add | Verb::Replace | Verb::Cas, Form::Word(word)) => {
                matches!(word, Word::Stored | Word::NotStored | Word::Exists | Word::NotFound)
            }
            (Verb::Delete, Form::Word(word)) => matches!(word, Word::Deleted | Word::NotFound),
            (Verb::Touch, Form::Word(word)) => matches!(word, Word::Touched | Word::NotFound),
            (Verb::Count, Form::Word(Word::NotFound) | Form::Number(_)) => true,
            (Verb::Flush, Form::Word(Word::Ok)) => true,
            // The server may accept a request that the parser takes for invalid.
            (Verb::Other, form) => !matches!(form, Form::Value | Form::End | Form::Row),
            _ => false,
        }
    }

    fn accepts_meta(&self, unit: &Unit) -> bool {
        let Form::Meta(code) = unit.form else {
            // The response to `me` begins with `ME`.
            return self.is_volatile && unit.form == Form::Other;
        };
        if self.verb == Verb::NoOp || code == *b"MN" {
            return self.verb == Verb::NoOp && code == *b"MN";
        }
        let is_hit = matches!(&code, b"VA" | b"HD");
        // A quiet response that does arrive names its request, if the request asks for that.
        let is_named = !self.is_quiet
            || code == *b"EN"
            || (unit.opaque == self.opaque && (self.echo.is_none() || unit.key == self.echo));
        let is_possible = match self.verb {
            Verb::Get if code == *b"VA" => self.has_value,
            Verb::Get if code == *b"HD" => !self.has_value,
            Verb::Get => code == *b"EN" && !self.is_quiet || code == *b"NF",
            Verb::Count => !is_hit || !self.is_quiet || self.may_create,
            _ => code != *b"VA" && code != *b"EN" && (code != *b"HD" || !self.is_quiet),
        };
        is_named && is_possible
    }

    fn accepts_binary(&self, unit: &Unit) -> bool {
        matches!(unit.form, Form::Binary(_))
            && unit.opcode == self.opcode
            && unit.opaque == self.opaque
    }
}

/// The result of [`Asked::fit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The unit is a part of the response.
    Takes {
        /// True if it is the last part.
        is_done: bool,
    },
    /// The request has no response, and the unit belongs to a later request.
    Silent,
    /// The unit cannot be a response to this request.
    Alien,
}
