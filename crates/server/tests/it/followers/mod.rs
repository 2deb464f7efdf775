//! Near caches that follow larderd: change streams, fetches, and reports of changes. The tests play
//! the near cache.

pub(crate) mod commands;
mod disk;
mod processes;
mod streams;
pub(crate) mod table;
mod tokens;

use std::io::{BufRead, BufReader, Read, Write};

use anyhow::{Context, Result, bail, ensure};
use larder_protocol::follow::{Fetched, Message, Terms, push_alive, push_fetch};
use larder_testkit::{ServerUnderTest, Stream, Transport};

use crate::binary;

pub(crate) fn start(transport: Transport, args: &[&str]) -> Result<ServerUnderTest> {
    ServerUnderTest::start(&binary(), transport, args)
}

/// A near cache without copies: its change stream, and a connection for fetches.
pub(crate) struct Near {
    pub(crate) stream: BufReader<Stream>,
    pub(crate) terms: Terms,
    pub(crate) data: BufReader<Stream>,
    alive: u64,
}

/// An item, as a near cache fetches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) fetched: Fetched,
    pub(crate) value: Vec<u8>,
}

impl Near {
    pub(crate) fn follow(server: &ServerUnderTest) -> Result<Self> {
        Self::follow_within(server, 10_000)
    }

    pub(crate) fn follow_within(server: &ServerUnderTest, max_stale_ms: u32) -> Result<Self> {
        Self::on(server.connect()?, server.connect()?, max_stale_ms)
    }

    pub(crate) fn on(mut stream: Stream, data: Stream, max_stale_ms: u32) -> Result<Self> {
        stream.write_all(format!("larder_follow {max_stale_ms}\r\n").as_bytes())?;
        let mut stream = BufReader::new(stream);
        let line = line(&mut stream)?;
        let terms = Terms::read(line.as_bytes()).with_context(|| line.clone())?;
        let mut near = Self { stream, terms, data: BufReader::new(data), alive: 0 };
        let answer = near.ask(&format!("larder_follower {:032x}\r\n", terms.token))?;
        ensure!(answer == "OK", "{answer:?}");
        Ok(near)
    }

    /// Sends a request on the connection for fetches, and returns the first line of the response.
    pub(crate) fn ask(&mut self, request: &str) -> Result<String> {
        self.data.get_mut().write_all(request.as_bytes())?;
        line(&mut self.data)
    }

    /// Fetches an item.
    pub(crate) fn fetch(&mut self, key: &[u8]) -> Result<Copy> {
        let mut request = Vec::new();
        push_fetch(&mut request, key, 1 << 20);
        self.data.get_mut().write_all(&request)?;
        let line = line(&mut self.data)?;
        let fetched = Fetched::read(line.as_bytes()).with_context(|| line.clone())?;
        let mut value = Vec::new();
        if let Fetched::Value { value_bytes, .. } = fetched {
            value.resize(value_bytes + 2, 0);
            self.data.read_exact(&mut value)?;
            ensure!(value.ends_with(b"\r\n"), "{value:?}");
            value.truncate(value_bytes);
        }
        Ok(Copy { fetched, value })
    }

    /// Returns the next message.
    pub(crate) fn message(&mut self) -> Result<Message> {
        let line = line(&mut self.stream)?;
        Message::read(line.as_bytes()).with_context(|| line.clone())
    }

    /// Returns all messages about changes that the origin has completed before.
    pub(crate) fn changes(&mut self) -> Result<Vec<Message>> {
        self.alive += 1;
        let mut alive = Vec::new();
        push_alive(&mut alive, self.alive);
        self.stream.get_mut().write_all(&alive)?;
        let mut changes = Vec::new();
        loop {
            match self.message()? {
                Message::Heard(number) if number == self.alive => return Ok(changes),
                Message::Heard(number) => bail!("{number} is answered in place of {}", self.alive),
                change => changes.push(change),
            }
        }
    }

    /// Returns the message that an item has changed.
    pub(crate) fn changed(&self, key: &[u8]) -> Message {
        Message::Changed(self.terms.bucket_of(key))
    }
}

impl Copy {
    pub(crate) fn is_noted(&self) -> bool {
        matches!(
            self.fetched,
            Fetched::Value { is_noted: true, .. } | Fetched::Absent { is_noted: true }
        )
    }
}

/// Returns the next line without its end.
pub(crate) fn line(stream: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let Some(line) = line.strip_suffix("\r\n") else { bail!("no line: {line:?}") };
    Ok(line.to_owned())
}
