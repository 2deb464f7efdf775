//! Wakes a worker once a second while a connection may have to be closed because of its silence.
//!
//! A timeout of the wait would do the same, but the kernel sets and cancels a timer for each wait
//! then: 4 % of the processor time of a request that comes alone.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::Timespec;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::Worker;
use super::udp::INBOX;
use crate::net::poller::Poller;

/// The timer of a worker.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    timer: Option<OwnedFd>,
    is_armed: bool,
}

impl Ticks {
    /// True if the timer will wake the worker.
    pub(super) fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// Arms the timer.
    ///
    /// # Errors
    /// Fails if the process has no descriptors left for it.
    fn arm(&mut self, poller: &mut Poller) -> io::Result<()> {
        let timer = match self.timer.take() {
            Some(timer) => timer,
            None => {
                let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
                let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
                poller.watch(&timer, TICKS)?;
                timer
            }
        };
        let set = set(&timer, SECOND);
        self.timer = Some(timer);
        self.is_armed = set.is_ok();
        set
    }

    fn disarm(&mut self) {
        // If this fails, there is a needless wake every second.
        if let Some(timer) = &self.timer
            && set(timer, NEVER).is_ok()
        {
            self.is_armed = false;
        }
    }
}

impl Worker {
    /// True if time alone can be a reason to close a connection.
    pub(super) fn counts_seconds(&self) -> bool {
        self.executor.server().options.idle_timeout_secs > 0 || !self.following.is_empty()
    }

    /// Arms the timer if it is needed. Without descriptors for it, each wait has a timeout.
    pub(super) fn arm_ticks(&mut self) {
        if self.counts_seconds() && !self.ticks.is_armed {
            let _ = self.ticks.arm(&mut self.poller);
        }
    }

    /// Handles an event of the timer.
    pub(super) fn take_tick(&mut self) {
        if !self.counts_seconds() {
            self.ticks.disarm();
        }
        if let Some(timer) = &self.ticks.timer {
            // The timer is readable until its count is read. Another event may have read it.
            let _ = rustix::io::read(timer, &mut [0; 8]);
            self.poller.watch_on(timer, TICKS);
        }
    }
}

fn set(timer: &OwnedFd, period: Timespec) -> io::Result<()> {
    let times = Itimerspec { it_interval: period, it_value: period };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &times)?;
    Ok(())
}

/// The key of the timer, below those of all UDP sockets.
pub(super) const TICKS: u64 = INBOX - (1 << 20);

const SECOND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
