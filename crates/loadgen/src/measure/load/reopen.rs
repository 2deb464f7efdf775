//! Reopens lost connections in a separate thread, because opening a connection may block and the
//! load must not.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::measure::load::Load;
use crate::wire::channel::Channel;
use crate::wire::opener::Opener;
use crate::wire::pipeline::{ConnectionEnd, Pipeline};

/// The thread that reopens connections, started at the first loss.
pub(crate) struct Reopener {
    /// Passes lost connections to the thread.
    lost: Sender<LostConnection>,
    /// Receives the outcome of each attempt.
    opened: Receiver<ReopenOutcome>,
    /// The time since which no connection has received anything, counted from the loss of a
    /// connection.
    silent_since_ns: Option<u64>,
}

/// A connection to be reopened.
struct LostConnection {
    number: usize,
    /// The time of the next attempt to reopen it, and the pause before that attempt. The pause
    /// doubles from attempt to attempt.
    due: Instant,
    pause: Duration,
}

/// The outcome of an attempt to reopen a connection.
enum ReopenOutcome {
    /// The number of the connection, the open channel, and the pause before the next attempt in
    /// case the channel is lost before it has received an answer.
    Channel(usize, Box<Channel>, Duration),
    /// The attempt failed for this reason, and the thread will try again.
    NotYet(String),
}

impl Reopener {
    fn start(opener: &Opener) -> Self {
        let (lost, to_open) = channel();
        let (has_opened, opened) = channel();
        let opener = opener.clone();
        // The load does not join this thread, because its last attempt is useless once the run is
        // over.
        thread::spawn(move || open_all(&opener, &to_open, &has_opened));
        Self { lost, opened, silent_since_ns: None }
    }
}

/// Reopens each lost connection at its due time, until the load drops the channel.
fn open_all(
    opener: &Opener,
    to_open: &Receiver<LostConnection>,
    has_opened: &Sender<ReopenOutcome>,
) {
    let mut waiting: Vec<LostConnection> = Vec::new();
    loop {
        let first = (0..waiting.len()).min_by_key(|at| waiting[*at].due);
        let until_due = first.map(|at| waiting[at].due.saturating_duration_since(Instant::now()));
        match to_open.recv_timeout(until_due.unwrap_or(PAUSE_MAX)) {
            Ok(lost) => {
                waiting.push(lost);
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let Some(at) = first else { continue };
        let LostConnection { number, pause, .. } = waiting.swap_remove(at);
        let pause = longer(pause);
        let opened = match opener.open() {
            Ok(channel) => ReopenOutcome::Channel(number, Box::new(channel), pause),
            Err(error) => {
                waiting.push(LostConnection { number, due: Instant::now() + pause, pause });
                ReopenOutcome::NotYet(format!("{error:#}"))
            }
        };
        if has_opened.send(opened).is_err() {
            return;
        }
    }
}

fn longer(pause: Duration) -> Duration {
    (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX)
}

impl Load<'_> {
    /// Gives up a connection and counts its pending requests as errors. A lost connection is
    /// reopened.
    pub(crate) fn fail(&mut self, number: usize, ended: &ConnectionEnd) {
        let Some(pipeline) = self.pipelines[number].take() else { return };
        epoll::delete(&self.epoll, &pipeline.channel).ok();
        self.unlist(number);
        let asked = pipeline.pending.len().max(1) as u64;
        self.tally.count_errors(ended.kind.as_bytes(), asked);
        self.second.errors += asked;
        match self.orders.opener.filter(|_| ended.is_loss) {
            Some(opener) => {
                self.tally.lost_connections += 1;
                self.tally.lost.get_or_insert_with(|| ended.reason.clone());
                if !self.is_ending {
                    let now_ns = self.now_ns();
                    let reopening = self.reopening.get_or_insert_with(|| Reopener::start(opener));
                    reopening.silent_since_ns.get_or_insert(now_ns);
                    // Sending fails only if the reopening thread has ended, which it does only
                    // after this load.
                    let (due, pause) = (Instant::now() + pipeline.pause, pipeline.pause);
                    reopening.lost.send(LostConnection { number, due, pause }).ok();
                }
            }
            None => {
                self.tally.failed.get_or_insert_with(|| ended.reason.clone());
            }
        }
    }

    /// Replaces lost connections with the reopened ones.
    pub(crate) fn take_reopened(&mut self) -> Result<(), rustix::io::Errno> {
        while let Some(reopening) = &self.reopening
            && let Ok(opened) = reopening.opened.try_recv()
        {
            match opened {
                ReopenOutcome::Channel(..) if self.is_ending => {}
                ReopenOutcome::Channel(number, channel, pause) => {
                    let key = EventData::new_u64(number as u64);
                    epoll::add(&self.epoll, &channel, key, EventFlags::IN)?;
                    self.pipelines[number] = Some(Pipeline::new(*channel, pause));
                    self.tally.reopened_connections += 1;
                    match self.open.is_some() {
                        true => self.list(number),
                        false => self.begin_batch(number),
                    }
                }
                ReopenOutcome::NotYet(reason) => self.tally.lost = Some(reason),
            }
        }
        Ok(())
    }

    /// Notes that a connection received something: the server is reachable.
    pub(crate) fn note_heard(&mut self) {
        if let Some(reopening) = &mut self.reopening {
            reopening.silent_since_ns = None;
        }
    }

    /// True if connections are lost and nothing has been received for the longest time that a
    /// response may take.
    pub(crate) fn is_hopeless(&self, now_ns: u64) -> bool {
        // `since_ns` may be later than `now_ns`, which the caller read before it noticed the loss.
        let is_silent = |since_ns: u64| {
            u128::from(now_ns.saturating_sub(since_ns)) >= self.orders.timeout.as_nanos()
        };
        // A connection without a pending request is silent even if the server is reachable. So the
        // load is hopeless only if all connections wait for a response.
        self.reopening
            .as_ref()
            .and_then(|reopening| reopening.silent_since_ns)
            .is_some_and(is_silent)
            && self.pipelines.iter().flatten().all(Pipeline::is_asking)
    }

    /// True if lost connections may be reopened.
    pub(crate) fn is_reopening(&self) -> bool {
        self.reopening.is_some() && !self.is_ending && self.pipelines.iter().any(Option::is_none)
    }
}

const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
