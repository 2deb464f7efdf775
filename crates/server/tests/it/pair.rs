//! larderd and Debian's memcached, which receive the same commands.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::thread::{self, sleep};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use larder_testkit::server::memcached;
use larder_testkit::{ServerUnderTest, Transport, transcript::Split};

use crate::binary;
use crate::dice::Dice;

/// If the responses differ, the conversation is repeated on memcached with this pause after each
/// command, in which memcached should answer the command. If the responses still differ, other
/// programs may have used the processors, so it is repeated with the second, longer pause.
const ANSWERED: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(25)];

/// The protocol of a conversation.
pub(crate) struct Dialect {
    /// The request that empties the server, and the end of its response.
    pub(crate) begin: (&'static [u8], &'static [u8]),
    /// The request that makes the server close.
    pub(crate) end: &'static [u8],
    /// Returns the parts of a response that must be equal.
    pub(crate) comparable: fn(&[u8]) -> Result<Vec<String>>,
}

/// The two servers.
pub(crate) struct Pair {
    larderd: ServerUnderTest,
    memcached: ServerUnderTest,
    dialect: Dialect,
}

impl Pair {
    /// Starts both.
    pub(crate) fn start(dialect: Dialect) -> Result<Self> {
        let start = |binary: PathBuf| {
            // Without its background threads memcached is deterministic.
            let args = ["-o", "no_lru_maintainer,no_lru_crawler"];
            ServerUnderTest::start(&binary, Transport::Unix, &args)
        };
        Ok(Self { larderd: start(binary())?, memcached: start(memcached()?)?, dialect })
    }

    /// Runs this many conversations with both servers, and compares the results.
    pub(crate) fn compare(
        &self,
        conversations: u64,
        mut conversation: impl FnMut(&mut Dice) -> Vec<Vec<u8>>,
    ) -> Result<()> {
        let seed = match std::env::var("LARDER_SEED") {
            Ok(seed) => seed.parse().context("LARDER_SEED is a number")?,
            Err(_) => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        };
        for number in 0..conversations {
            let mut dice = Dice::new(seed.wrapping_add(number));
            let commands = conversation(&mut dice);
            if let Some(difference) = self.difference(&commands, seed)? {
                let fewest = self.shrink(commands, seed)?;
                let (ours, theirs) = self.difference(&fewest, seed)?.unwrap_or(difference);
                let sent = fewest.concat();
                bail!(
                    "LARDER_SEED={seed}, conversation {number}:\n{}\nlarderd:   {ours}\nmemcached: {theirs}",
                    sent[..sent.len().min(5000)].escape_ascii()
                );
            }
        }
        Ok(())
    }

    /// Returns the first responses that differ.
    fn difference(&self, commands: &[Vec<u8>], seed: u64) -> Result<Option<(String, String)>> {
        const PAUSE: Duration = Duration::from_micros(20);
        let bytes = commands.concat().len() + self.dialect.end.len();
        let pieces = |seed| Split::Random { seed }.pieces(bytes);
        let ours = self.answers(&self.larderd, commands, &pieces(seed), PAUSE)?;
        let mut theirs = self.answers(&self.memcached, commands, &pieces(!seed), PAUSE)?;
        for answered in ANSWERED {
            if ours == theirs {
                return Ok(None);
            }
            // memcached may respond differently while earlier responses are unsent. It then creates
            // a new item for a number that it would otherwise have changed in place, without its
            // metadata.
            let ends = commands.iter().map(Vec::len).chain([self.dialect.end.len()]);
            theirs =
                self.answers(&self.memcached, commands, &ends.collect::<Vec<_>>(), answered)?;
        }
        let length = ours.len().max(theirs.len());
        let line = |lines: &[String], index: usize| {
            lines
                .get(index)
                .map_or_else(|| "<closed>".into(), |line| line.chars().take(200).collect())
        };
        Ok((0..length)
            .map(|index| (line(&ours, index), line(&theirs, index)))
            .find(|(ours, theirs)| ours != theirs))
    }

    /// Returns a server's responses to commands that are sent in pieces, on a new connection and to
    /// an empty cache.
    fn answers(
        &self,
        server: &ServerUnderTest,
        commands: &[Vec<u8>],
        pieces: &[usize],
        pause: Duration,
    ) -> Result<Vec<String>> {
        let mut stream = server.connect()?;
        let (question, answer) = self.dialect.begin;
        stream.ask(question, answer)?;
        let mut sent = commands.concat();
        sent.extend_from_slice(self.dialect.end);
        let mut writer = stream.try_clone()?;
        let pieces = pieces.to_vec();
        let writing = thread::spawn(move || {
            let mut rest = &sent[..];
            for length in pieces.into_iter().filter(|length| *length > 0) {
                let (piece, behind) = rest.split_at(length);
                writer.write_all(piece)?;
                rest = behind;
                sleep(pause);
            }
            std::io::Result::Ok(())
        });
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        writing.join().map_err(|_| anyhow!("the writer has panicked"))??;
        (self.dialect.comparable)(&answer)
    }

    /// Removes commands that are not necessary for the difference.
    fn shrink(&self, mut commands: Vec<Vec<u8>>, seed: u64) -> Result<Vec<Vec<u8>>> {
        let mut part = commands.len() / 2;
        while part > 0 {
            let mut start = 0;
            while start < commands.len() {
                let end = (start + part).min(commands.len());
                let fewer = [&commands[..start], &commands[end..]].concat();
                if self.difference(&fewer, seed)?.is_some() {
                    commands = fewer;
                } else {
                    start = end;
                }
            }
            part /= 2;
        }
        Ok(commands)
    }
}
