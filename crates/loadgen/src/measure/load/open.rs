//! The open loop: requests are sent at their due times.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;

use anyhow::Result;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::measure::load::{Load, TIMER, timespec};
use crate::request::schedule::Schedule;

/// The state of an open loop.
pub(crate) struct Open {
    pub(crate) schedule: Schedule,
    timer: OwnedFd,
    /// The free connections, which accept a request. The first one sends the next request.
    listed: VecDeque<usize>,
    /// The last time at which a request was due and no connection was free. It shows whether a late
    /// request waited for a connection or for the generator.
    blocked_ns: Option<u64>,
}

impl Load<'_> {
    /// Sends requests at scheduled times instead of after each response.
    ///
    /// # Errors
    /// The process has no descriptors left for a timer.
    pub(crate) fn keep_schedule(&mut self, schedule: Schedule) -> Result<()> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        epoll::add(&self.epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        // Forbids the kernel to delay the timers of this thread so that they expire together.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        let listed = (0..self.pipelines.len()).collect();
        self.pipelines.iter_mut().flatten().for_each(|pipeline| pipeline.is_listed = true);
        self.tally.lateness.scheduled = schedule.left();
        self.open = Some(Open { schedule, timer, listed, blocked_ns: None });
        Ok(())
    }

    /// Arms the timer that wakes this thread when the next request is due.
    pub(crate) fn arm_timer(&self) -> Result<()> {
        let Some(open) = self.open.as_ref().filter(|open| !open.listed.is_empty()) else {
            return Ok(());
        };
        if let Some(due_ns) = open.schedule.due_ns().filter(|_| !self.is_ending) {
            let until_due = due_ns.saturating_sub(self.now_ns()).max(1);
            timerfd_settime(
                &open.timer,
                TimerfdTimerFlags::empty(),
                &Itimerspec { it_interval: timespec(0), it_value: timespec(until_due) },
            )?;
        }
        Ok(())
    }

    /// Sends the due requests, each on the next free connection.
    pub(crate) fn send_due(&mut self) {
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

    /// Lists a connection as free if it accepts a request.
    pub(crate) fn list(&mut self, number: usize) {
        let (Some(open), Some(pipeline)) = (&mut self.open, &mut self.pipelines[number]) else {
            return;
        };
        let has_room = pipeline.pending.len() < self.orders.pipeline as usize;
        if has_room && !pipeline.is_listed && !pipeline.is_blocked() {
            pipeline.is_listed = true;
            open.listed.push_back(number);
        }
    }

    /// Removes a connection from the list of free ones.
    pub(crate) fn unlist(&mut self, number: usize) {
        if let Some(open) = &mut self.open {
            open.listed.retain(|listed| *listed != number);
        }
    }

    /// Counts the requests that were due before `end_ns` but were not sent. Their latency is the
    /// time from when they were due to `end_ns`.
    pub(crate) fn give_up_unsent(&mut self, end_ns: u64) {
        let Some(open) = &mut self.open else { return };
        let lateness = &mut self.tally.lateness;
        while let Some(due_ns) = open.schedule.due_ns().filter(|due_ns| *due_ns < end_ns) {
            self.tally.latency_ns.saturating_record(end_ns - due_ns);
            self.second.latency_ns.saturating_record(end_ns - due_ns);
            lateness.unsent += 1;
            open.schedule.advance();
        }
        // If the run ended early, the rest of the schedule was never due.
        lateness.scheduled -= open.schedule.left();
    }
}
