//! Connections that are lost are opened anew, by a thread of its own: it may wait, the load may not.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::measure::load::Load;
use crate::wire::channel::Channel;
use crate::wire::opener::Opener;
use crate::wire::pipeline::{Ended, Pipeline};

/// The thread that opens connections, from the first loss on.
pub(crate) struct Reopening {
    lost: Sender<Lost>,
    opened: Receiver<Opened>,
    /// Since when some have been lost and nothing has been heard on any.
    silent_since_ns: Option<u64>,
}

/// A connection that is to be opened anew.
struct Lost {
    number: usize,
    /// When, and how long it has waited for that.
    due: Instant,
    pause: Duration,
}

/// What came of it.
enum Opened {
    /// It is there. If it is lost before it has been of use, the next one comes after this pause.
    Channel(usize, Box<Channel>, Duration),
    NotYet(String),
}

impl Reopening {
    fn start(opener: &Opener) -> Self {
        let (lost, to_open) = channel();
        let (has_opened, opened) = channel();
        let opener = opener.clone();
        // Not waited for: what it may be waiting for is of no use when the run is over.
        thread::spawn(move || open_all(&opener, &to_open, &has_opened));
        Self { lost, opened, silent_since_ns: None }
    }
}

/// Opens what is lost, each when it is due, until nobody wants to know.
fn open_all(opener: &Opener, to_open: &Receiver<Lost>, has_opened: &Sender<Opened>) {
    let mut waiting: Vec<Lost> = Vec::new();
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
        let Lost { number, pause, .. } = waiting.swap_remove(at);
        let pause = longer(pause);
        let opened = match opener.open() {
            Ok(channel) => Opened::Channel(number, Box::new(channel), pause),
            Err(error) => {
                waiting.push(Lost { number, due: Instant::now() + pause, pause });
                Opened::NotYet(format!("{error:#}"))
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
    /// Gives up a connection, and counts what it was asked. One that is only lost is opened anew.
    pub(crate) fn fail(&mut self, number: usize, ended: &Ended) {
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
                    let reopening = self.reopening.get_or_insert_with(|| Reopening::start(opener));
                    reopening.silent_since_ns.get_or_insert(now_ns);
                    // It ends when this load does.
                    let (due, pause) = (Instant::now() + pipeline.pause, pipeline.pause);
                    reopening.lost.send(Lost { number, due, pause }).ok();
                }
            }
            None => {
                self.tally.failed.get_or_insert_with(|| ended.reason.clone());
            }
        }
    }

    /// Puts connections that have been opened anew in the places of those that were lost.
    pub(crate) fn take_reopened(&mut self) -> Result<(), rustix::io::Errno> {
        while let Some(reopening) = &self.reopening
            && let Ok(opened) = reopening.opened.try_recv()
        {
            match opened {
                Opened::Channel(..) if self.is_ending => {}
                Opened::Channel(number, channel, pause) => {
                    let key = EventData::new_u64(number as u64);
                    epoll::add(&self.epoll, &channel, key, EventFlags::IN)?;
                    self.pipelines[number] = Some(Pipeline::new(*channel, pause));
                    self.tally.reopened_connections += 1;
                    match self.open.is_some() {
                        true => self.list(number),
                        false => self.begin_batch(number),
                    }
                }
                Opened::NotYet(reason) => self.tally.lost = Some(reason),
            }
        }
        Ok(())
    }

    /// Something was heard: there is hope for what has been lost.
    pub(crate) fn note_heard(&mut self) {
        if let Some(reopening) = &mut self.reopening {
            reopening.silent_since_ns = None;
        }
    }

    /// Have connections been lost, and has nothing been heard for as long as an answer may take?
    pub(crate) fn is_hopeless(&self, now_ns: u64) -> bool {
        let is_silent = |since_ns| u128::from(now_ns - since_ns) >= self.orders.timeout.as_nanos();
        // One that was asked nothing cannot have been heard.
        self.reopening
            .as_ref()
            .and_then(|reopening| reopening.silent_since_ns)
            .is_some_and(is_silent)
            && self.pipelines.iter().flatten().all(Pipeline::is_asking)
    }

    /// May connections come back?
    pub(crate) fn is_reopening(&self) -> bool {
        self.reopening.is_some() && !self.is_ending && self.pipelines.iter().any(Option::is_none)
    }
}

const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
