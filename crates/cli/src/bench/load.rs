//! The load that one thread makes: its connections, one epoll, and no waiting but there.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::bench::ask::Ask;
use crate::bench::channel::Channel;
use crate::bench::dialect::Reading;
use crate::bench::draw::Pool;
use crate::bench::effort::Meter;
use crate::bench::options::Dialect;
use crate::bench::pending::Books;
use crate::bench::pipeline::{Ended, Pipeline};
use crate::bench::schedule::Schedule;
use crate::bench::stop::Stop;
use crate::bench::tally::{Second, Tally};

/// What all threads are told.
#[derive(Clone, Copy)]
pub(super) struct Orders<'a> {
    pub(super) pool: &'a Pool,
    pub(super) dialect: Dialect,
    pub(super) pipeline: u32,
    pub(super) keeps_missed: bool,
    pub(super) timeout: Duration,
    /// When nothing more is asked; `None`: when there is nothing more to ask.
    pub(super) duration: Option<Duration>,
    pub(super) stop: &'a Stop,
}

/// Some connections, and what is under way on them.
pub(super) struct Load<'a> {
    orders: Orders<'a>,
    ask: Ask,
    /// `None` where one has failed.
    pipelines: Vec<Option<Pipeline>>,
    epoll: OwnedFd,
    /// `None`: a closed loop.
    open: Option<Open>,
    /// Has the time come to ask for nothing more?
    is_ending: bool,
    started: Instant,
    tally: Tally,
    second: Second,
    seconds: Option<Sender<Second>>,
    /// What is sent and received, for all connections in turn.
    out: Vec<u8>,
    input: Vec<u8>,
}

/// An open loop's part.
struct Open {
    schedule: Schedule,
    timer: OwnedFd,
    /// The connections that may be asked, in the order of their turns.
    listed: VecDeque<usize>,
    /// When there was last something due and no connection for it.
    blocked_ns: Option<u64>,
}

impl<'a> Load<'a> {
    /// Takes over connections.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub(super) fn new(orders: Orders<'a>, ask: Ask, channels: Vec<Channel>) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut pipelines = Vec::with_capacity(channels.len());
        for (number, channel) in channels.into_iter().enumerate() {
            epoll::add(&epoll, &channel, EventData::new_u64(number as u64), EventFlags::IN)?;
            pipelines.push(Some(Pipeline::new(channel)));
        }
        Ok(Self {
            orders,
            ask,
            pipelines,
            epoll,
            open: None,
            is_ending: false,
            started: Instant::now(),
            tally: Tally::default(),
            second: Second::new(0),
            seconds: None,
            out: Vec::new(),
            input: vec![0; INPUT_BYTES],
        })
    }

    /// Asks by a schedule instead of as fast as answers come.
    ///
    /// # Errors
    /// The system has no timers left.
    pub(super) fn keep_schedule(&mut self, schedule: Schedule) -> Result<()> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        epoll::add(&self.epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        // The system may not gather timers of this thread.
        rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?;
        let listed = (0..self.pipelines.len()).collect();
        self.pipelines.iter_mut().flatten().for_each(|pipeline| pipeline.is_listed = true);
        self.tally.lateness.scheduled = schedule.left();
        self.open = Some(Open { schedule, timer, listed, blocked_ns: None });
        Ok(())
    }

    /// Makes the load from `started` on, and tells of each second when it is over.
    ///
    /// # Errors
    /// Those of the system; a connection that fails is counted.
    pub(super) fn run(
        mut self,
        started: Instant,
        seconds: Option<Sender<Second>>,
    ) -> Result<Tally> {
        self.started = started;
        self.seconds = seconds;
        let meter = Meter::start();
        if self.open.is_none() {
            (0..self.pipelines.len()).for_each(|number| self.begin_batch(number));
        }
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        loop {
            let now_ns = self.now_ns();
            self.turn_second(now_ns);
            self.check_end(now_ns);
            self.send_due();
            if self.is_over() {
                break;
            }
            let timeout = self.timeout(now_ns)?;
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let (data, flags) = (event.data.u64(), event.flags);
                if data != TIMER {
                    self.wake(data as usize, flags);
                }
            }
        }
        self.finish(&meter);
        Ok(self.tally)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn end_ns(&self) -> u64 {
        self.orders.duration.map_or(u64::MAX, |duration| duration.as_nanos() as u64)
    }

    /// Sends the counts of seconds that are over, and looks for connections that are silent.
    fn turn_second(&mut self, now_ns: u64) {
        while self.second.number < now_ns / SECOND_NS {
            self.second.span = Duration::from_secs(1);
            self.send_second();
            self.fail_the_silent(now_ns);
        }
    }

    fn send_second(&mut self) {
        let next = Second::new(self.second.number + 1);
        let second = std::mem::replace(&mut self.second, next);
        if let Some(seconds) = &self.seconds {
            // Whoever listened has gone where the run has failed.
            seconds.send(second).ok();
        }
    }

    fn check_end(&mut self, now_ns: u64) {
        let grace_ns = if self.open.is_some() { GRACE_NS } else { 0 };
        let is_time = now_ns >= self.end_ns().saturating_add(grace_ns);
        if !self.is_ending && (is_time || self.orders.stop.is_asked()) {
            self.is_ending = true;
            self.pipelines.iter_mut().flatten().for_each(|pipeline| pipeline.batch_left = 0);
            self.give_up_unsent(now_ns.min(self.end_ns()));
        }
    }

    /// Counts what was due and could not be sent, with the time that it has waited.
    fn give_up_unsent(&mut self, end_ns: u64) {
        let Some(open) = &mut self.open else { return };
        let lateness = &mut self.tally.lateness;
        while let Some(due_ns) = open.schedule.due_ns().filter(|due_ns| *due_ns < end_ns) {
            self.tally.latency_ns.saturating_record(end_ns - due_ns);
            self.second.latency_ns.saturating_record(end_ns - due_ns);
            lateness.unsent += 1;
            open.schedule.advance();
        }
        // Where the run was ended early, the rest of the schedule was never due.
        lateness.scheduled -= open.schedule.left();
    }

    fn is_over(&self) -> bool {
        let is_asking = |pipeline: &Pipeline| !pipeline.pending.is_empty() || pipeline.is_blocked();
        let is_schedule_left =
            !self.is_ending && self.open.as_ref().is_some_and(|open| open.schedule.left() > 0);
        let mut pipelines = self.pipelines.iter().flatten();
        match is_schedule_left {
            true => pipelines.next().is_none(),
            // In a closed loop a connection that lives always has something under way.
            false => !pipelines.any(is_asking),
        }
    }

    /// How long there is nothing to do but for events, by the timer where that is soon.
    fn timeout(&mut self, now_ns: u64) -> Result<Timespec> {
        let mut wait_ns = (self.second.number + 1) * SECOND_NS - now_ns;
        wait_ns = wait_ns.min(STOP_POLL_NS);
        if !self.is_ending {
            wait_ns = wait_ns.min(self.end_ns().saturating_sub(now_ns).max(1_000_000));
        }
        if let Some(open) = &self.open {
            let due_ns = open.schedule.due_ns().filter(|_| !open.listed.is_empty());
            if let Some(due_ns) = due_ns.filter(|_| !self.is_ending) {
                let until_due = due_ns.saturating_sub(self.now_ns()).max(1);
                timerfd_settime(
                    &open.timer,
                    TimerfdTimerFlags::empty(),
                    &Itimerspec { it_interval: timespec(0), it_value: timespec(until_due) },
                )?;
            }
        }
        // In whole milliseconds, as old systems count; what has to be exact has the timer.
        Ok(timespec(wait_ns.div_ceil(1_000_000) * 1_000_000))
    }

    /// Sends the requests that are due, each on the next connection that is free.
    fn send_due(&mut self) {
        while !self.is_ending {
            let now_ns = self.now_ns();
            let Some(open) = &mut self.open else { return };
            let Some(due_ns) = open.schedule.due_ns().filter(|due_ns| *due_ns <= now_ns) else {
                return;
            };
            let Some(number) = open.listed.pop_front() else {
                open.blocked_ns = Some(now_ns);
                return;
            };
            open.schedule.advance();
            let has_waited = open.blocked_ns.is_some_and(|blocked_ns| blocked_ns >= due_ns);
            self.tally.lateness.count(now_ns - due_ns, has_waited);
            if let Some(pipeline) = &mut self.pipelines[number] {
                pipeline.is_listed = false;
                pipeline.batch_left = 1;
                pipeline.batch_ns = due_ns;
            }
            self.pump(number, now_ns);
        }
    }

    fn begin_batch(&mut self, number: usize) {
        let now_ns = self.now_ns();
        if let Some(pipeline) = &mut self.pipelines[number] {
            pipeline.batch_left = self.orders.pipeline;
            pipeline.batch_ns = now_ns;
        }
        self.pump(number, now_ns);
    }

    fn pump(&mut self, number: usize, now_ns: u64) {
        let Some(pipeline) = &mut self.pipelines[number] else { return };
        let pumped = pipeline
            .pump(&mut self.ask, &mut self.out, now_ns)
            .and_then(|()| Ok(pipeline.watch(&self.epoll, number)?));
        match pumped {
            Ok(()) => self.list(number),
            Err(ended) => self.fail(number, &ended),
        }
    }

    /// Puts a connection among those that may be asked, if it may.
    fn list(&mut self, number: usize) {
        let (Some(open), Some(pipeline)) = (&mut self.open, &mut self.pipelines[number]) else {
            return;
        };
        let has_room = pipeline.pending.len() < self.orders.pipeline as usize;
        if has_room && !pipeline.is_listed && !pipeline.is_blocked() {
            pipeline.is_listed = true;
            open.listed.push_back(number);
        }
    }

    fn wake(&mut self, number: usize, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            let Some(pipeline) = &mut self.pipelines[number] else { return };
            match pipeline.flush() {
                Ok(()) => {
                    let now_ns = self.now_ns();
                    self.pump(number, now_ns);
                }
                Err(error) => self.fail(number, &error.into()),
            }
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
            && let Err(ended) = self.receive(number)
        {
            self.fail(number, &ended);
        }
    }

    fn receive(&mut self, number: usize) -> Result<(), Ended> {
        loop {
            let Some(pipeline) = &mut self.pipelines[number] else { return Ok(()) };
            let Some(received) = pipeline.channel.receive(&mut self.input)? else { break };
            if received == 0 {
                return Err(Ended::closed());
            }
            let may_have_more = pipeline.channel.may_have_more(received, self.input.len());
            self.take_received(number, received)?;
            if !may_have_more {
                break;
            }
        }
        let Some(pipeline) = &mut self.pipelines[number] else { return Ok(()) };
        if self.open.is_some() {
            self.list(number);
        } else if pipeline.pending.is_empty() && pipeline.batch_left == 0 && !self.is_ending {
            self.begin_batch(number);
        }
        Ok(())
    }

    /// Reads the replies in what was received, and what was kept before it.
    fn take_received(&mut self, number: usize, received: usize) -> Result<(), Ended> {
        let now_ns = self.now_ns();
        let Some(pipeline) = &mut self.pipelines[number] else { return Ok(()) };
        pipeline.heard_ns = now_ns;
        let mut books = Books {
            pool: self.orders.pool,
            tally: &mut self.tally,
            second: &mut self.second,
            missed: &mut self.ask.missed,
            keeps_missed: self.orders.keeps_missed,
        };
        let dialect = self.orders.dialect;
        let input = &self.input[..received];
        if pipeline.received.is_empty() {
            let used = take_replies(input, dialect, pipeline, now_ns, &mut books)?;
            pipeline.received.extend_from_slice(&input[used..]);
            return Ok(());
        }
        let mut kept = std::mem::take(&mut pipeline.received);
        kept.extend_from_slice(input);
        let used = take_replies(&kept, dialect, pipeline, now_ns, &mut books)?;
        pipeline.keep(kept, used);
        Ok(())
    }

    fn fail_the_silent(&mut self, now_ns: u64) {
        let timeout = self.orders.timeout;
        for number in 0..self.pipelines.len() {
            let Some(pipeline) = &self.pipelines[number] else { continue };
            let silent_ns = now_ns.saturating_sub(pipeline.heard_ns);
            let is_waiting = !pipeline.pending.is_empty() || pipeline.is_blocked();
            if !is_waiting || u128::from(silent_ns) < timeout.as_nanos() {
                continue;
            }
            if pipeline.channel.is_lossy() {
                self.give_up_lost(number);
            } else {
                let reason = format!(
                    "no answer within {} s: it is stopped, overloaded, or not a memcached",
                    timeout.as_secs()
                );
                self.fail(number, &Ended { kind: "no answer in time", reason });
            }
        }
    }

    /// What was asked by datagrams is not answered any more: goes on with something else.
    fn give_up_lost(&mut self, number: usize) {
        let Some(pipeline) = &mut self.pipelines[number] else { return };
        let lost = std::mem::take(&mut pipeline.pending).len() as u64;
        pipeline.received.clear();
        self.tally.count_errors(b"no answer to a datagram", lost);
        self.second.errors += lost;
        if self.open.is_some() {
            self.list(number);
        } else if !self.is_ending {
            self.begin_batch(number);
        }
    }

    /// Gives up a connection, and counts what it was asked.
    fn fail(&mut self, number: usize, ended: &Ended) {
        let Some(pipeline) = self.pipelines[number].take() else { return };
        epoll::delete(&self.epoll, &pipeline.channel).ok();
        if let Some(open) = &mut self.open {
            open.listed.retain(|listed| *listed != number);
        }
        let asked = pipeline.pending.len() as u64;
        self.tally.count_errors(ended.kind.as_bytes(), asked.max(1));
        self.second.errors += asked.max(1);
        self.tally.failed_connections += 1;
        self.tally.failed.get_or_insert_with(|| ended.reason.clone());
    }

    fn finish(&mut self, meter: &Meter) {
        let now_ns = self.now_ns();
        if !self.is_ending {
            // What was never sent because all connections had failed.
            self.give_up_unsent(now_ns.min(self.end_ns()));
        }
        self.tally.effort = meter.read();
        self.tally.elapsed = Duration::from_nanos(now_ns);
        if self.open.is_some() && !self.orders.stop.is_asked() {
            // The schedule says how long it takes; what was answered a little later belongs to it.
            let duration = self.orders.duration.unwrap_or_default();
            self.tally.elapsed = self.tally.elapsed.max(duration);
        }
        self.second.span = Duration::from_nanos(now_ns - self.second.number * SECOND_NS);
        self.send_second();
    }
}

/// Reads replies one after the other; how many bytes they were.
fn take_replies(
    input: &[u8],
    dialect: Dialect,
    pipeline: &mut Pipeline,
    now_ns: u64,
    books: &mut Books<'_>,
) -> Result<usize, Ended> {
    let mut used = 0;
    while used < input.len() {
        match dialect.read_reply(&input[used..]) {
            Reading::Reply { reply, consumed } => {
                used += consumed;
                let taken = pipeline.pending.take(reply, now_ns, books);
                taken.map_err(|what| Ended {
                    kind: "wrong answer",
                    reason: format!("the server answered {what}"),
                })?;
            }
            Reading::NeedMore { bytes_min } if bytes_min <= REPLY_BYTES_MAX => break,
            Reading::NeedMore { bytes_min } => {
                let reason = format!(
                    "it announces an answer of {bytes_min} bytes, expected at most {REPLY_BYTES_MAX}"
                );
                return Err(Ended { kind: "answer too long", reason });
            }
            Reading::Bad => {
                let protocol = crate::bench::options::name(dialect);
                let reason = format!("what it answers is not memcached's {protocol} protocol");
                return Err(Ended { kind: "not the protocol", reason });
            }
        }
    }
    Ok(used)
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / SECOND_NS) as i64, tv_nsec: (ns % SECOND_NS) as _ }
}

impl From<rustix::io::Errno> for Ended {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

const TIMER: u64 = u64::MAX;
const SECOND_NS: u64 = 1_000_000_000;
/// What is due at the end may be sent so much later, while connections are free.
const GRACE_NS: u64 = 100_000_000;
/// How often it is looked whether somebody asks to stop.
const STOP_POLL_NS: u64 = 100_000_000;
const EVENTS_MAX: usize = 256;
const INPUT_BYTES: usize = 256 << 10;
/// The largest value that servers accept unless told otherwise, and a line before it.
const REPLY_BYTES_MAX: u64 = (1 << 20) + (16 << 10);
