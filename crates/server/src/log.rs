//! The output of `-v`, on standard error.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use larder_protocol::Topics;

/// The log. `-v` logs errors and connections that open and close; `-vv` also logs commands and
/// responses.
#[derive(Debug)]
pub(crate) struct Log {
    verbosity: AtomicU8,
    /// An [`Interest`], stored as bits.
    interest: AtomicU32,
}

/// The events that observers of commands have asked for: the log with `-vv`, the prefix counters
/// and `watch` clients. A batch also records here whether its commands are judged. All are in one
/// integer, so that a turn without any of them only checks this integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest(u32);

impl Interest {
    const COMMANDS: u32 = 1;
    const PREFIXES: u32 = 1 << 1;
    const JUDGED: u32 = 1 << 2;
    const TOPICS_AT: u32 = 16;

    /// True if no command event is observed, and commands are not judged.
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the same events. If `is_judged`, each command is also judged before it is executed.
    pub(crate) fn judged(self, is_judged: bool) -> Self {
        let bits = self.observed().0;
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
        Self(self.0 & !Self::JUDGED)
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

    /// True if commands are counted by prefix.
    pub(crate) fn counts_prefixes(&self) -> bool {
        self.interest().counts_prefixes()
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

    /// Logs an event of a connection, or an error.
    pub(crate) fn event(&self, words: fmt::Arguments<'_>) {
        if self.verbosity() >= 1 {
            say(words);
        }
    }

    /// Logs the bytes that a connection received.
    #[cold]
    pub(crate) fn received(&self, connection: u64, bytes: &[u8]) {
        say(format_args!("<{connection} {}", Printable(bytes)));
    }

    /// Logs the bytes that are sent to a connection.
    #[cold]
    pub(crate) fn answered(&self, connection: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            say(format_args!(">{connection} {}", Printable(bytes)));
        }
    }
}

/// Writes a line in one call, so that the lines of several threads do not mix. Ignores a failure,
/// because standard error may be closed.
pub(crate) fn say(words: fmt::Arguments<'_>) {
    let _ = io::stderr().write_all(format!("{words}\n").as_bytes());
}

/// Displays a peer's bytes safely on a terminal: truncated, without the line end, and with every
/// unprintable character escaped.
struct Printable<'a>(&'a [u8]);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.trim_ascii_end();
        let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
        write!(f, "{}", shown.escape_ascii())?;
        match bytes.len() - shown.len() {
            0 => Ok(()),
            more => write!(f, " ... and {more} more bytes"),
        }
    }
}

/// Length at which the log truncates a command or a response.
const SHOWN_BYTES_MAX: usize = 300;

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
    }

    #[test]
    fn control_bytes_are_escaped_and_long_lines_are_cut() {
        assert_eq!(Printable(b"get a\x1b[2J\xff\r\n").to_string(), r"get a\x1b[2J\xff");
        let long = Printable(&[b'a'; 1000]).to_string();
        assert_eq!(long, format!("{} ... and 700 more bytes", "a".repeat(300)));
    }
}
