//! Plays a transcript against a server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::thread::sleep;

use anyhow::{Context, Result};

use super::conversation::Conversation;
use super::packet::Packet;
use super::split::Split;
use super::template::{Numbers, Template};
use super::{Action, Step, Transcript};
use crate::{ServerUnderTest, Subject};

/// The first step from which a server deviated.
#[derive(Debug)]
pub struct Failure {
    path: PathBuf,
    line: usize,
    subject: Subject,
    split: Split,
    error: anyhow::Error,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, subject, split, error } = self;
        write!(f, "{}:{line}: {subject}, sent {split}: {error:#}", path.display())
    }
}

impl std::error::Error for Failure {}

/// Plays a transcript against a new server that was started with the transcript's arguments. At the
/// end, sends `version` or a no-op on every open connection. If the server sends anything before
/// the response, it has sent more than the transcript expects, and the play fails.
///
/// # Errors
/// The first line with a different result.
pub fn play(
    transcript: &Transcript,
    server: &ServerUnderTest,
    subject: Subject,
    split: Split,
) -> Result<(), Failure> {
    let failure = |line, error| {
        let path = transcript.path.clone();
        Failure { path, line, subject, split, error }
    };
    let mut play = Play {
        server,
        split,
        numbers: Numbers::default(),
        conversations: BTreeMap::new(),
        unsent: (1, Vec::new()),
    };
    let mut last = 0;
    for step in transcript.steps.iter().filter(|step| step.audience.includes(subject)) {
        play.step(step).map_err(|error| failure(step.line, error))?;
        last = step.line;
    }
    play.end().map_err(|error| failure(last, error))
}

struct Play<'a> {
    server: &'a ServerUnderTest,
    split: Split,
    numbers: Numbers,
    conversations: BTreeMap<u8, Conversation>,
    /// The number of a connection, and its lines that are not sent yet. Consecutive lines of a
    /// connection are sent together.
    unsent: (u8, Vec<u8>),
}

impl Play<'_> {
    fn step(&mut self, step: &Step) -> Result<()> {
        let connection = step.connection;
        let sent = match &step.action {
            Action::Send(template) => Some(template.fill_in(&self.numbers)?),
            Action::Ask(packet) => Some(packet.fill_in(&self.numbers)?),
            _ => None,
        };
        if let Some(bytes) = sent {
            if self.unsent.0 != connection {
                self.send_unsent()?;
                self.unsent.0 = connection;
            }
            self.unsent.1.extend_from_slice(&bytes);
            return Ok(());
        }
        self.send_unsent()?;
        match &step.action {
            Action::Send(_) | Action::Ask(_) => {}
            Action::ExpectAnswer(packet) => self.expect_answer(connection, packet)?,
            Action::ExpectAnswers => self.conversation(connection)?.skip_lines(),
            Action::SendNoMore => self.conversation(connection)?.send_no_more()?,
            Action::Close => drop(self.conversations.remove(&connection)),
            Action::Wait(duration) => sleep(*duration),
            Action::Expect(template) => self.expect(connection, template)?,
            Action::ExpectLines => self.conversation(connection)?.skip_lines(),
            Action::ExpectClosed => {
                let closed = self.conversation(connection)?.expect_closed();
                closed.map_err(|found| found.context("expected <closed>, found"))?;
                self.conversations.remove(&connection);
            }
        }
        Ok(())
    }

    fn expect(&mut self, connection: u8, template: &Template) -> Result<()> {
        let mut numbers = self.numbers.clone();
        let met = self.conversation(connection)?.expect(template, &mut numbers);
        met.map_err(|found| found.context(format!("expected {template}, found")))?;
        self.numbers = numbers;
        Ok(())
    }

    fn expect_answer(&mut self, connection: u8, packet: &Packet) -> Result<()> {
        let mut numbers = self.numbers.clone();
        let met = self.conversation(connection)?.expect_answer(packet, &mut numbers);
        met.map_err(|found| found.context(format!("expected {packet}, found")))?;
        self.numbers = numbers;
        Ok(())
    }

    fn send_unsent(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.unsent.1);
        if !bytes.is_empty() {
            let (connection, split) = (self.unsent.0, self.split);
            self.conversation(connection)?.send(&bytes, split);
        }
        Ok(())
    }

    /// Returns the connection with this number. Opens it if it is new or the server has closed it.
    fn conversation(&mut self, connection: u8) -> Result<&mut Conversation> {
        if !self.conversations.contains_key(&connection) {
            self.conversations.insert(connection, Conversation::open(self.server)?);
        }
        Ok(self.conversations.get_mut(&connection).expect("just opened"))
    }

    fn end(&mut self) -> Result<()> {
        self.send_unsent()?;
        let version = Template::parse("VERSION <version>")?;
        let noop = Packet::parse("noop opaque=0x454e44")?;
        for (connection, conversation) in &mut self.conversations {
            let answered = if conversation.is_binary() {
                conversation.send(&noop.fill_in(&self.numbers)?, self.split);
                conversation.expect_answer(&noop, &mut self.numbers)
            } else {
                conversation.send(b"version\r\n", self.split);
                conversation.expect(&version, &mut self.numbers)
            };
            answered.with_context(|| {
                format!("at the end connection {connection} should answer one more request, found")
            })?;
        }
        Ok(())
    }
}
