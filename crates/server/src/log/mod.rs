//! The log of the server, on standard error: the form of its lines, their limit, and the verbosity
//! of `-v`.

mod level;
mod limit;
mod line;
mod printable;
mod stderr;

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use larder_protocol::Topics;
use serde_json::{Map, Value};

pub(crate) use self::level::Level;
use self::printable::Printable;
pub(crate) use self::stderr::{begin, limit, tick};

/// The log. `-v` logs errors and connections that open and close; `-vv` also logs commands and
/// responses.
#[derive(Debug)]
pub(crate) struct Log {
    verbosity: AtomicU8,
    /// An [`Interest`], stored as bits.
    interest: AtomicU32,
}

/// The events that observers of commands have asked for: the log with `-vv`, the prefix counters,
/// the timer of slow requests and `watch` clients. A batch also records here whether its commands
/// are judged. All are in one integer, so that a turn without any of them only checks this integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest(u32);

impl Interest {
    const COMMANDS: u32 = 1;
    const PREFIXES: u32 = 1 << 1;
    const TIMES: u32 = 1 << 2;
    const JUDGED: u32 = 1 << 3;
    const NEAR: u32 = 1 << 4;
    const TOPICS_AT: u32 = 16;

    /// True if no command event is observed, and commands are not judged.
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the same events. If `is_judged`, each command is also judged before it is executed.
    pub(crate) fn judged(self, is_judged: bool) -> Self {
        let bits = self.0 & !Self::JUDGED;
        Self(if is_judged { bits | Self::JUDGED } else { bits })
    }

    /// True if each command must be judged before it is executed.
    #[inline]
    pub(crate) fn judges(self) -> bool {
        self.0 & Self::JUDGED != 0
    }

    /// Returns only the observed events.
    #[inline]
    pub(crate) fn observed(self) -> Self {
        Self(self.0 & !(Self::JUDGED | Self::NEAR))
    }

    /// True if commands are reported to the log, to the prefix counters or to watchers.
    pub(crate) fn reports(self) -> bool {
        self.observed().0 & !Self::TIMES != 0
    }

    /// True if commands and responses are written to the log.
    pub(crate) fn shows_commands(self) -> bool {
        self.0 & Self::COMMANDS != 0
    }

    /// True if commands are counted by prefix.
    pub(crate) fn counts_prefixes(self) -> bool {
        self.0 & Self::PREFIXES != 0
    }

    /// Returns the topics that watchers want.
    pub(crate) fn topics(self) -> Topics {
        Topics::of_bits((self.0 >> Self::TOPICS_AT) as u16)
    }
}

impl Log {
    pub(crate) fn new(verbosity: u8) -> Self {
        let log = Self { verbosity: AtomicU8::new(0), interest: AtomicU32::new(0) };
        log.set_verbosity(verbosity);
        log
    }

    /// Changes the verbosity.
    pub(crate) fn set_verbosity(&self, verbosity: u8) {
        self.verbosity.store(verbosity, Relaxed);
        self.set_interest(Interest::COMMANDS, verbosity >= 2);
    }

    /// Switches the counting of commands by prefix on or off.
    pub(crate) fn set_prefixes(&self, counted: bool) {
        self.set_interest(Interest::PREFIXES, counted);
    }

    /// Times all commands from now on.
    pub(crate) fn time_commands(&self) {
        self.set_interest(Interest::TIMES, true);
    }

    /// True if commands are counted by prefix.
    pub(crate) fn counts_prefixes(&self) -> bool {
        self.interest().counts_prefixes()
    }

    /// Executes all commands as a near cache does from now on.
    pub(crate) fn note_near(&self) {
        self.set_interest(Interest::NEAR, true);
    }

    /// Reports commands of exactly these topics to watchers.
    pub(crate) fn set_topics(&self, topics: Topics) {
        let bits = u32::from(topics.bits() & Topics::OF_COMMANDS.bits()) << Interest::TOPICS_AT;
        self.change_interest(|interest| interest & ((1 << Interest::TOPICS_AT) - 1) | bits);
    }

    /// Returns the command events that are observed.
    #[inline]
    pub(crate) fn interest(&self) -> Interest {
        Interest(self.interest.load(Relaxed))
    }

    fn set_interest(&self, bit: u32, on: bool) {
        self.change_interest(|interest| if on { interest | bit } else { interest & !bit });
    }

    fn change_interest(&self, change: impl Fn(u32) -> u32) {
        let changed = |interest| Some(change(interest));
        // The closure never returns `None`, so the update cannot fail.
        let _ = self.interest.fetch_update(Relaxed, Relaxed, changed);
    }

    /// Returns the verbosity.
    pub(crate) fn verbosity(&self) -> u8 {
        self.verbosity.load(Relaxed)
    }

    /// Logs an event with `-v`. With `-vv` there is no limit of lines.
    #[track_caller]
    pub(crate) fn event(&self, level: Level, words: fmt::Arguments<'_>) {
        match self.verbosity() {
            0 => {}
            1 => stderr::write_limited(level, words, Map::new),
            _ => write_unlimited(level, words),
        }
    }

    /// Logs the bytes that a connection received.
    #[cold]
    pub(crate) fn received(&self, connection: u64, bytes: &[u8]) {
        debug(format_args!("<{connection} {}", Printable(bytes)));
    }

    /// Logs the bytes that are sent to a connection.
    #[cold]
    pub(crate) fn answered(&self, connection: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            debug(format_args!(">{connection} {}", Printable(bytes)));
        }
    }
}

/// Logs that the server fails, or loses data or service.
#[track_caller]
pub(crate) fn error(words: fmt::Arguments<'_>) {
    stderr::write_limited(Level::Error, words, Map::new);
}

/// Logs something at which an operator should look.
#[track_caller]
pub(crate) fn warn(words: fmt::Arguments<'_>) {
    stderr::write_limited(Level::Warn, words, Map::new);
}

/// Same as [`warn`], with further members of the JSON object. `words` must contain them too, for
/// the text form. `members` is not called for a line that is suppressed.
#[track_caller]
pub(crate) fn warn_with(words: fmt::Arguments<'_>, members: impl FnOnce() -> Map<String, Value>) {
    stderr::write_limited(Level::Warn, words, members);
}

/// Logs an event that an operator may want to know of.
#[track_caller]
pub(crate) fn info(words: fmt::Arguments<'_>) {
    stderr::write_limited(Level::Info, words, Map::new);
}

/// Same as [`info`], but without the limit of lines, for a caller that limits them itself.
pub(crate) fn info_unlimited(words: fmt::Arguments<'_>) {
    write_unlimited(Level::Info, words);
}

/// Logs a line of `-vv`. There is no limit, because the operator asked for all of them.
pub(crate) fn debug(words: fmt::Arguments<'_>) {
    write_unlimited(Level::Debug, words);
}

fn write_unlimited(level: Level, words: fmt::Arguments<'_>) {
    stderr::write(level, &words.to_string(), &Map::new());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_observer_sets_its_own_interest() {
        let log = Log::new(1);
        assert!(log.interest().is_none());
        log.set_prefixes(true);
        log.set_topics(Topics::FETCHERS | Topics::CONNEVENTS);
        log.set_verbosity(2);
        let all = log.interest();
        assert!(all.shows_commands());
        assert!(all.counts_prefixes());
        // Connection events have no command.
        assert_eq!(all.topics(), Topics::FETCHERS);
        log.set_verbosity(0);
        log.set_topics(Topics::MUTATIONS);
        assert_eq!(log.interest().topics(), Topics::MUTATIONS);
        assert!(log.counts_prefixes());
        assert!(!log.interest().shows_commands());
        log.set_topics(Topics::EVICTIONS);
        log.set_prefixes(false);
        assert!(log.interest().is_none());
        log.time_commands();
        assert!(!log.interest().is_none() && !log.interest().reports());
    }
}
