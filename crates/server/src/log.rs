//! What `-v` shows, on standard error.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use larder_protocol::Topics;

/// The log. `-v` shows errors and connections coming and going, `-vv` also commands and answers.
#[derive(Debug)]
pub(crate) struct Log {
    verbosity: AtomicU8,
    /// An [`Interest`].
    interest: AtomicU32,
}

/// What is to be noticed of commands, by anybody: one word, so that a turn in which nobody notices anything has
/// looked at no more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest(u32);

impl Interest {
    const COMMANDS: u32 = 1;
    const PREFIXES: u32 = 1 << 1;
    const TOPICS_AT: u32 = 16;

    /// Is nothing to be noticed?
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Are commands and answers shown?
    pub(crate) fn shows_commands(self) -> bool {
        self.0 & Self::COMMANDS != 0
    }

    /// Are commands counted by prefix?
    pub(crate) fn counts_prefixes(self) -> bool {
        self.0 & Self::PREFIXES != 0
    }

    /// What is watched of commands.
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

    /// Shows more, or less, from now on.
    pub(crate) fn set_verbosity(&self, verbosity: u8) {
        self.verbosity.store(verbosity, Relaxed);
        self.set_attention(Interest::COMMANDS, verbosity >= 2);
    }

    /// Has commands counted by prefix from now on, or no more.
    pub(crate) fn set_prefixes(&self, counted: bool) {
        self.set_attention(Interest::PREFIXES, counted);
    }

    /// Are commands counted by prefix?
    pub(crate) fn counts_prefixes(&self) -> bool {
        self.interest().counts_prefixes()
    }

    /// Has the commands noticed that belong to these topics, and no others.
    pub(crate) fn set_topics(&self, topics: Topics) {
        let bits = u32::from(topics.bits() & Topics::OF_COMMANDS.bits()) << Interest::TOPICS_AT;
        self.change_attention(|interest| interest & ((1 << Interest::TOPICS_AT) - 1) | bits);
    }

    /// What is to be noticed.
    #[inline]
    pub(crate) fn interest(&self) -> Interest {
        Interest(self.interest.load(Relaxed))
    }

    fn set_attention(&self, bit: u32, on: bool) {
        self.change_attention(|interest| if on { interest | bit } else { interest & !bit });
    }

    fn change_attention(&self, change: impl Fn(u32) -> u32) {
        let changed = |interest| Some(change(interest));
        // The closure always gives a word.
        let _ = self.interest.fetch_update(Relaxed, Relaxed, changed);
    }

    /// How much it shows.
    pub(crate) fn verbosity(&self) -> u8 {
        self.verbosity.load(Relaxed)
    }

    /// Something happened to a connection, or went wrong.
    pub(crate) fn event(&self, words: fmt::Arguments<'_>) {
        if self.verbosity() >= 1 {
            say(words);
        }
    }

    /// Bytes that a connection received.
    #[cold]
    pub(crate) fn received(&self, connection: u64, bytes: &[u8]) {
        say(format_args!("<{connection} {}", Shown(bytes)));
    }

    /// Bytes that a connection is sent.
    #[cold]
    pub(crate) fn answered(&self, connection: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            say(format_args!(">{connection} {}", Shown(bytes)));
        }
    }
}

/// Writes a line whole, so that those of several threads do not mix. Nobody can be told if that fails: whoever read
/// standard error may be gone.
pub(crate) fn say(words: fmt::Arguments<'_>) {
    let _ = io::stderr().write_all(format!("{words}\n").as_bytes());
}

/// A peer's bytes as a terminal can bear them: the first of them, without their line end, all but plain
/// characters escaped.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.trim_ascii_end();
        let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
        write!(f, "{}", shown.escape_ascii())?;
        match bytes.len() - shown.len() {
            0 => Ok(()),
            more => write!(f, " ... and {more} bytes more"),
        }
    }
}

/// So much of a command or an answer is shown.
const SHOWN_BYTES_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_who_pays_attention_is_heard_by_itself() {
        let log = Log::new(1);
        assert!(log.interest().is_none());
        log.set_prefixes(true);
        log.set_topics(Topics::FETCHERS | Topics::CONNEVENTS);
        log.set_verbosity(2);
        let all = log.interest();
        assert!(all.shows_commands() && all.counts_prefixes());
        // Connections come and go without a command.
        assert_eq!(all.topics(), Topics::FETCHERS);
        log.set_verbosity(0);
        log.set_topics(Topics::MUTATIONS);
        assert_eq!(log.interest().topics(), Topics::MUTATIONS);
        assert!(log.counts_prefixes() && !log.interest().shows_commands());
        log.set_topics(Topics::EVICTIONS);
        log.set_prefixes(false);
        assert!(log.interest().is_none());
    }

    #[test]
    fn control_bytes_are_escaped_and_long_lines_are_cut() {
        assert_eq!(Shown(b"get a\x1b[2J\xff\r\n").to_string(), r"get a\x1b[2J\xff");
        let long = Shown(&[b'a'; 1000]).to_string();
        assert_eq!(long, format!("{} ... and 700 bytes more", "a".repeat(300)));
    }
}
