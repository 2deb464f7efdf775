//! The load of one thread: its connections, and one epoll, which is the only place where the thread
//! waits. In a closed loop each connection sends a batch of requests, and the next batch when all
//! of them have a response. [`open`] is the open loop.
//!
//! Files in reading order: this one, [`open`], [`receive`], [`reopen`].

mod open;
mod receive;
mod reopen;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::measure::effort::Meter;
use crate::measure::stop::Stop;
use crate::options::Dialect;
use crate::request::draw::Pool;
use crate::tally::{Second, Tally};
use crate::wire::ask::Ask;
use crate::wire::channel::Channel;
use crate::wire::opener::Opener;
use crate::wire::pipeline::{ConnectionEnd, Pipeline};

/// The instructions that all threads share.
#[derive(Clone, Copy)]
pub(crate) struct Orders<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) dialect: Dialect,
    /// Requests in a batch; in an open loop, the maximum number of pending requests per connection.
    pub(crate) pipeline: u32,
    /// True if a key is set after a miss.
    pub(crate) keeps_missed: bool,
    /// The time without a response after which a connection counts as lost.
    pub(crate) timeout: Duration,
    /// The length of the run. `None`: the run ends when the source has no more requests.
    pub(crate) duration: Option<Duration>,
    /// Reopens lost connections. `None`: a lost connection counts as failed.
    pub(crate) opener: Option<&'a Opener>,
    pub(crate) stop: &'a Stop,
}

/// The connections of one thread and the requests pending on them.
pub(crate) struct Load<'a> {
    orders: Orders<'a>,
    ask: Ask,
    /// `None` for a connection that has failed or is lost.
    pipelines: Vec<Option<Pipeline>>,
    /// `None` until the first connection is lost.
    reopening: Option<reopen::Reopener>,
    epoll: OwnedFd,
    /// `None` in a closed loop.
    open: Option<open::Open>,
    /// True if the thread sends no new requests.
    is_ending: bool,
    started: Instant,
    tally: Tally,
    /// The counts of the current second.
    second: Second,
    /// Receives the counts of each second, for the live display and the series.
    seconds: Option<Sender<Second>>,
    /// The send buffer and the receive buffer, which all connections use in turn.
    out: Vec<u8>,
    input: Vec<u8>,
}

impl<'a> Load<'a> {
    /// Creates a load that owns the connections.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub(crate) fn new(orders: Orders<'a>, ask: Ask, channels: Vec<Channel>) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut pipelines = Vec::with_capacity(channels.len());
        for (number, channel) in channels.into_iter().enumerate() {
            epoll::add(&epoll, &channel, EventData::new_u64(number as u64), EventFlags::IN)?;
            pipelines.push(Some(Pipeline::new(channel, Duration::ZERO)));
        }
        Ok(Self {
            orders,
            ask,
            pipelines,
            reopening: None,
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

    /// Generates load from `started` on. Sends the counts of each second to `seconds` when the
    /// second is over.
    ///
    /// # Errors
    /// Errors of epoll and the timer. A failed connection is counted, not returned.
    pub(crate) fn run(
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
            self.take_reopened()?;
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
                let (number, flags) = (event.data.u64(), event.flags);
                if number != TIMER {
                    self.wake(number as usize, flags);
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

    /// At the end of each second, sends its counts, and fails the connections whose response has
    /// been missing for too long.
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
            // The receiver no longer exists if the run has failed.
            seconds.send(second).ok();
        }
    }

    fn check_end(&mut self, now_ns: u64) {
        let grace_ns = if self.open.is_some() { GRACE_NS } else { 0 };
        let is_time = now_ns >= self.end_ns().saturating_add(grace_ns);
        let is_time = is_time || self.orders.stop.is_asked() || self.is_hopeless(now_ns);
        if !self.is_ending && is_time {
            self.is_ending = true;
            self.pipelines.iter_mut().flatten().for_each(|pipeline| pipeline.batch_left = 0);
            self.give_up_unsent(now_ns.min(self.end_ns()));
        }
    }

    fn is_over(&self) -> bool {
        if self.is_reopening() {
            return false;
        }
        let is_schedule_left =
            !self.is_ending && self.open.as_ref().is_some_and(|open| open.schedule.left() > 0);
        let mut pipelines = self.pipelines.iter().flatten();
        match is_schedule_left {
            true => pipelines.next().is_none(),
            // This is also right for a closed loop: every live connection has a pending request
            // until the load ends or has no more requests.
            false => !pipelines.any(Pipeline::is_asking),
        }
    }

    /// Returns the timeout of the next epoll wait. Also arms the timer that wakes the thread when
    /// the next request is due.
    fn timeout(&mut self, now_ns: u64) -> Result<Timespec> {
        let mut wait_ns = (self.second.number + 1) * SECOND_NS - now_ns;
        wait_ns = wait_ns.min(STOP_POLL_NS);
        if self.is_reopening() {
            wait_ns = wait_ns.min(REOPENED_POLL_NS);
        }
        if !self.is_ending {
            wait_ns = wait_ns.min(self.end_ns().saturating_sub(now_ns).max(1_000_000));
        }
        self.arm_timer()?;
        // Old kernels round the timeout to whole milliseconds. That is exact enough here, because
        // the timer handles the due times of requests.
        Ok(timespec(wait_ns.div_ceil(1_000_000) * 1_000_000))
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

    fn fail_the_silent(&mut self, now_ns: u64) {
        let timeout = self.orders.timeout;
        for number in 0..self.pipelines.len() {
            let Some(pipeline) = &self.pipelines[number] else { continue };
            let silent_ns = now_ns.saturating_sub(pipeline.heard_ns);
            if !pipeline.is_asking() || u128::from(silent_ns) < timeout.as_nanos() {
                continue;
            }
            if pipeline.channel.is_lossy() {
                self.give_up_lost(number);
            } else {
                let reason = format!(
                    "no answer within {} s: the server is stopped, overloaded, or not a memcached",
                    timeout.as_secs()
                );
                self.fail(
                    number,
                    &ConnectionEnd { kind: "no answer in time", reason, is_loss: true },
                );
            }
        }
    }

    /// Abandons datagram requests whose responses are lost, and sends new requests.
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

    fn finish(&mut self, meter: &Meter) {
        let now_ns = self.now_ns();
        if !self.is_ending {
            // All connections have failed, and the rest of the schedule was never sent.
            self.give_up_unsent(now_ns.min(self.end_ns()));
        }
        let alive_count = self.pipelines.iter().flatten().count();
        self.tally.failed_connections += (self.pipelines.len() - alive_count) as u32;
        self.tally.alive_connections = alive_count as u32;
        self.tally.effort = meter.read();
        self.tally.elapsed = Duration::from_nanos(now_ns);
        if self.open.is_some() && !self.orders.stop.is_asked() {
            // The schedule determines the length of the run. Responses that arrive a little later
            // are part of the run.
            let duration = self.orders.duration.unwrap_or_default();
            self.tally.elapsed = self.tally.elapsed.max(duration);
        }
        self.second.span = Duration::from_nanos(now_ns - self.second.number * SECOND_NS);
        self.send_second();
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / SECOND_NS) as i64, tv_nsec: (ns % SECOND_NS) as _ }
}

impl From<rustix::io::Errno> for ConnectionEnd {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

const TIMER: u64 = u64::MAX;
const SECOND_NS: u64 = 1_000_000_000;
/// Requests that are due before the end of the run may still be sent for this long after it.
const GRACE_NS: u64 = 100_000_000;
/// The interval at which the thread checks for a stop request.
const STOP_POLL_NS: u64 = 100_000_000;
/// The interval at which the thread checks for reopened connections while a connection is lost.
const REOPENED_POLL_NS: u64 = 5_000_000;
const EVENTS_MAX: usize = 256;
const INPUT_BYTES: usize = 256 << 10;
