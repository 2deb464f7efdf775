//! The removal of a prefix from one server, over the text protocol.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use larder_loadgen::argument::counted;
use larder_loadgen::connect::dialer::Dialer;
use larder_protocol::{Command, StatsSection, base64};

use crate::connection::{Connection, refused};
use crate::stats::{self, Line};

/// A server that removes the prefix, and how far it is.
#[derive(Debug)]
pub(super) struct Removal {
    pub(super) dialer: Dialer,
    state: Mutex<State>,
}

/// How far the removal is.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// The server has received no request, or has refused it: the tool connects and logs in.
    Idle,
    /// The server executes another removal, and has refused this one.
    Busy,
    /// The request may have reached the server, which has not answered it.
    Sent,
    /// The server removes items.
    Running(Progress),
    /// The server has removed the items.
    Done(Progress),
    /// The removal ended early, or the server cannot be asked.
    Failed(String),
    /// The command has ended: the thread of the removal sends no further request.
    Left,
}

/// The progress of a removal, as the server reports it.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    id: u64,
    /// The number of removed items.
    pub(super) removed: u64,
    /// The fraction of the index that has been visited, from 0 to 1.
    pub(super) share: f64,
    pub(super) secs: f64,
}

/// The command has ended, so that the removal must send no further request.
#[derive(Debug)]
struct Abandoned;

impl fmt::Display for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the command has ended")
    }
}

impl std::error::Error for Abandoned {}

impl Removal {
    pub(super) fn new(dialer: Dialer) -> Self {
        Self { dialer, state: Mutex::new(State::Idle) }
    }

    pub(super) fn state(&self) -> State {
        self.locked().clone()
    }

    /// Returns the last state. From then on the thread of the removal sends no request.
    pub(super) fn leave(&self) -> State {
        std::mem::replace(&mut self.locked(), State::Left)
    }

    /// Removes the prefix, retries while the server is busy, and waits for the end. Returns early
    /// if the command has ended.
    pub(super) fn run(&self, prefix: &[u8]) {
        if let Err(error) = self.remove(prefix) {
            let consequence = self.state().consequence();
            // The only error is that the command has ended.
            let _ = self.enter(State::Failed(format!("{error:#}{consequence}")));
        }
    }

    fn remove(&self, prefix: &[u8]) -> Result<()> {
        let mut request = Vec::new();
        // Base64 carries any byte, also a space.
        let mut encoded = Vec::new();
        base64::encode(&mut encoded, prefix);
        let command = Command::DeletePrefix { prefix: &encoded, base64: true };
        larder_protocol::text::client::request::command(&mut request, &command, false)?;
        let mut connection = Connection::open(&self.dialer)?;
        // Items that a run removed whose end another client's removal has hidden.
        let mut removed_before = 0;
        loop {
            let id = self.begin(&mut connection, &request)?;
            match self.follow(&mut connection, id)? {
                Ended::Done(progress) => {
                    let removed = removed_before + progress.removed;
                    return self.enter(State::Done(Progress { removed, ..progress }));
                }
                Ended::Hidden { removed } => removed_before += removed,
            }
        }
    }

    /// Sends the request until the server is not busy. Returns the number of the removal.
    fn begin(&self, connection: &mut Connection, request: &[u8]) -> Result<u64> {
        let mut pause = PAUSE_MIN;
        loop {
            self.enter(State::Sent)?;
            connection.send(request)?;
            let answer = connection.line()?.to_owned();
            if answer != b"SERVER_ERROR busy" {
                return number_of(&answer).inspect_err(|_| {
                    // The server has executed nothing.
                    let _ = self.enter(State::Idle);
                });
            }
            self.enter(State::Busy)?;
            sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Waits for the end of the removal with this number.
    fn follow(&self, connection: &mut Connection, id: u64) -> Result<Ended> {
        let mut last = Progress { id, removed: 0, share: 0.0, secs: 0.0 };
        let mut pause = PAUSE_MIN;
        loop {
            self.enter(State::Running(last.clone()))?;
            let lines = stats::ask(connection, StatsSection::DeletePrefix)
                .context("cannot read the progress of the removal")?;
            let shown = Progress::read(&lines)?;
            // Only one removal runs at a time, so this one has ended.
            if shown.id > id {
                return Ok(Ended::Hidden { removed: last.removed });
            }
            if shown.id < id {
                bail!("the server no longer has the removal {id}: it has restarted");
            }
            match value(&lines, "state")? {
                "running" => last = shown,
                "done" => return Ok(Ended::Done(shown)),
                state => {
                    // A removal that has ended does not continue.
                    self.enter(State::Idle)?;
                    bail!("{}", end_of(state, shown.removed));
                }
            }
            sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Records a state.
    ///
    /// # Errors
    /// [`Abandoned`]: the command has ended.
    fn enter(&self, state: State) -> Result<()> {
        let mut current = self.locked();
        if matches!(*current, State::Left) {
            return Err(Abandoned.into());
        }
        *current = state;
        Ok(())
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a removal without an error.
enum Ended {
    Done(Progress),
    /// The removal of another client has begun since, and the server shows only that one.
    Hidden {
        /// The number of removed items when the server last showed them.
        removed: u64,
    },
}

impl State {
    /// True if the removal has ended, with or without success.
    pub(super) fn is_end(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Failed(_) | Self::Left)
    }

    /// Returns the visited fraction of the server's index, from 0 to 1.
    pub(super) fn share(&self) -> f64 {
        match self {
            Self::Running(progress) => progress.share,
            Self::Done(_) | Self::Failed(_) | Self::Left => 1.0,
            Self::Idle | Self::Busy | Self::Sent => 0.0,
        }
    }

    /// Returns the reason why the server has not removed the prefix, for a command that ended at
    /// this state. `when` is the moment of that end.
    pub(super) fn unfinished(&self, when: &str) -> String {
        match self {
            Self::Idle => {
                format!("not connected {when}: it has not received the command")
            }
            Self::Busy => format!(
                "busy with another removal {when}: it has not begun this one; give it more time \
                 with --timeout SECS"
            ),
            Self::Sent => {
                format!("no answer {when}: it is stopped or overloaded, and may still execute it")
            }
            Self::Running(Progress { id, removed, share, .. }) => format!(
                "the removal {id} was at {:.0} % {when}, with {} removed: it continues, and larder \
                 stats delete_prefix shows it",
                share * 100.0,
                counted(*removed, "item")
            ),
            Self::Failed(reason) => reason.clone(),
            Self::Done(_) | Self::Left => "the removal has ended".to_owned(),
        }
    }

    /// Returns the possible effect of a request whose answer is lost, as the end of a message.
    fn consequence(&self) -> String {
        match self {
            Self::Sent => "; the server may still execute the removal".to_owned(),
            Self::Running(progress) => format!("; the removal {} may still run", progress.id),
            _ => String::new(),
        }
    }
}

impl Progress {
    fn read(lines: &[Line]) -> Result<Self> {
        if lines.is_empty() {
            bail!(
                "the server shows no removal: it is a near cache, or it has restarted; of a near \
                 cache, give the origins"
            );
        }
        fn number<T: std::str::FromStr>(lines: &[Line], name: &str) -> Result<T> {
            let text = value(lines, name)?;
            text.parse().map_err(|_| anyhow!("the server shows a removal whose {name} is {text}"))
        }
        Ok(Self {
            id: number(lines, "id")?,
            removed: number(lines, "removed")?,
            share: number(lines, "progress")?,
            secs: number(lines, "secs")?,
        })
    }
}

fn value<'a>(lines: &'a [Line], name: &str) -> Result<&'a str> {
    let line = lines.iter().find(|line| line.name == name);
    Ok(&line.with_context(|| format!("the server shows a removal without its {name}"))?.value)
}

/// Returns the number of the removal that the server has begun.
fn number_of(answer: &[u8]) -> Result<u64> {
    match answer {
        b"ERROR" => bail!(
            "it does not know delete_prefix: it is a memcached, or a router; larderd knows it"
        ),
        b"CLIENT_ERROR delete_prefix not allowed" => bail!("the server runs with -F"),
        b"OK" => bail!(
            "it answers without the number of a removal: it is a near cache, whose origins may \
             have begun it; give the origins"
        ),
        _ => {}
    }
    let number = answer.strip_prefix(b"OK ").and_then(|number| str::from_utf8(number).ok());
    match number.and_then(|number| number.parse().ok()) {
        Some(number) => Ok(number),
        None => Err(refused(answer)),
    }
}

/// Returns the message for a removal that ended early.
fn end_of(state: &str, removed: u64) -> String {
    let removed = counted(removed, "item");
    match state {
        "cancelled" => {
            format!("another command, or the stop of the server, cancelled it after {removed}")
        }
        "failed" => format!(
            "the removal failed after {removed}: a process that shares the cache is suspended; end \
             or resume it"
        ),
        other => format!("the removal has an unknown state, {other}"),
    }
}

/// The first pause between two requests: short, because most removals are short.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(160);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_number_of_a_removal_or_a_reason() {
        assert_eq!(number_of(b"OK 7").unwrap(), 7);
        for (answer, reason) in [
            (&b"ERROR"[..], "it does not know delete_prefix"),
            (b"OK", "near cache"),
            (b"OK x", "the server answered: OK x"),
            (b"CLIENT_ERROR delete_prefix not allowed", "-F"),
            (b"CLIENT_ERROR unauthenticated", "--user NAME"),
            (b"\x1b]0;x", "\\x1b]0;x"),
        ] {
            let refused = format!("{:#}", number_of(answer).unwrap_err());
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn statistics_of_a_removal_are_read_or_refused() {
        let line = |(name, value): (&str, &str)| Line { name: name.into(), value: value.into() };
        let read = |rows: &[(&str, &str)]| {
            let lines: Vec<_> = rows.iter().copied().map(line).collect();
            Progress::read(&lines).map_err(|error| format!("{error:#}"))
        };
        let rows = [("id", "3"), ("removed", "9"), ("progress", "0.500"), ("secs", "0.100")];
        assert_eq!(read(&rows).unwrap().removed, 9);
        assert!(read(&[]).unwrap_err().contains("near cache"));
        assert!(read(&rows[..2]).unwrap_err().contains("without its progress"));
        assert!(read(&[("id", "-3")]).unwrap_err().contains("whose id is -3"));
    }
}
