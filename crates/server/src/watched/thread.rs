//! The thread that reads files again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::events::Events;
use super::patience::{Patience, Verdict};
use super::places::places;
use super::{Cause, Outcome, Reloaded, Shared, say_unwatched};
use crate::log;

/// The state of the thread.
pub(super) struct Thread {
    things: Vec<Watched>,
    /// `None` if inotify is not available, or if no file is watched.
    events: Option<Events>,
    shared: Arc<Shared>,
    answered: Box<dyn Fn() + Send>,
    pub(super) next_look: Instant,
    /// True if the log contains that a directory cannot be watched.
    is_unwatched: bool,
}

struct Watched {
    thing: Box<dyn Reloaded>,
    /// True if the thing has files to watch.
    has_paths: bool,
    patience: Patience,
}

impl Thread {
    pub(super) fn new(
        things: Vec<Box<dyn Reloaded>>,
        events: Option<Events>,
        shared: Arc<Shared>,
        answered: Box<dyn Fn() + Send>,
    ) -> Self {
        let watched = |thing: Box<dyn Reloaded>| Watched {
            has_paths: !thing.paths().is_empty(),
            thing,
            patience: Patience::default(),
        };
        let things = things.into_iter().map(watched).collect();
        let next_look = Instant::now() + LOOK_PAUSE;
        Self { things, events, shared, answered, next_look, is_unwatched: false }
    }

    /// Runs until the owner ends it.
    pub(super) fn run(&mut self) {
        self.check_access();
        self.follow();
        // The files may have changed before the watches existed.
        self.attempt(Cause::Change, |_| true);
        loop {
            self.wait(self.next_attempt(), true);
            if self.shared.is_over.load(Relaxed) {
                return;
            }
            if self.shared.is_asked.swap(false, Relaxed) {
                self.attempt(Cause::Signal, |_| true);
                (self.answered)();
            }
            if self.shared.requests.begin() {
                let is_usable = self.refresh();
                self.shared.requests.end(is_usable);
            }
            let now = Instant::now();
            let is_look = now >= self.next_look;
            let has_events = self.events.as_mut().is_some_and(Events::take);
            if is_look || has_events {
                self.next_look = if is_look { now + LOOK_PAUSE } else { self.next_look };
                self.follow();
                self.attempt(Cause::Change, |_| true);
            } else {
                self.attempt(Cause::Change, |of| of.next().is_some_and(|at| at <= now));
            }
            // Events come in groups. Other files of the same directories may change all the time.
            self.wait(Instant::now() + EVENT_PAUSE, false);
        }
    }

    /// Warns of files that cannot be read again.
    fn check_access(&self) {
        for Watched { thing, .. } in &self.things {
            if let Some(error) = self.reading(&**thing, |thing| thing.check_access()) {
                log::error(format_args!(
                    "larderd: changed {} cannot be read while the server runs: {error}; allow the \
                     user of larderd to read the file, or restart larderd after each change",
                    thing.name()
                ));
            }
        }
    }

    /// Calls a function that may wait for a disk.
    fn reading<T>(&self, thing: &dyn Reloaded, call: impl FnOnce(&dyn Reloaded) -> T) -> T {
        self.shared.begin_reading(thing.name());
        let result = call(thing);
        self.shared.end_reading();
        result
    }

    /// Watches the current places of the files.
    fn follow(&mut self) {
        let Some(events) = &mut self.events else { return };
        let paths: Vec<_> = self.things.iter().flat_map(|of| of.thing.paths()).collect();
        if let Err(error) = events.follow(&places(&paths))
            && !self.is_unwatched
        {
            self.is_unwatched = true;
            say_unwatched(&error);
        }
    }

    /// Returns when to try again if nothing happens before.
    fn next_attempt(&self) -> Instant {
        let soon = self.things.iter().filter_map(|of| of.patience.next()).min();
        soon.map_or(self.next_look, |soon| soon.min(self.next_look))
    }

    /// Waits until a time, a request or an event.
    fn wait(&self, until: Instant, with_events: bool) {
        self.shared.waker.reset();
        // A request before the reset has left its flag.
        let Shared { is_over, is_asked, requests, .. } = &*self.shared;
        if is_over.load(Relaxed) || is_asked.load(Relaxed) || requests.is_asked() {
            return;
        }
        let mut polled = vec![PollFd::new(&*self.shared.waker, PollFlags::IN)];
        if let Some(events) = self.events.as_ref().filter(|_| with_events) {
            polled.push(PollFd::new(events, PollFlags::IN));
        }
        let timeout = until.saturating_duration_since(Instant::now());
        // The conversion fails only for durations of centuries.
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        // Fails only if the kernel is short of memory, or a signal interrupts it.
        let _ = poll(&mut polled, Some(&timeout));
    }

    /// Reads the files that clients request, and logs the results. Returns true if the files can be
    /// used.
    fn refresh(&mut self) -> bool {
        let mut is_usable = true;
        for number in 0..self.things.len() {
            let thing = &*self.things[number].thing;
            if thing.serves_command() {
                let outcome = self.reading(thing, |thing| thing.reload(Cause::Command));
                is_usable &= !matches!(outcome, Outcome::Failed(_));
                self.things[number].report(Cause::Command, outcome);
            }
        }
        is_usable
    }

    /// Reads the files of the things whose patience fits, and logs the results.
    fn attempt(&mut self, cause: Cause, fits: impl Fn(&Patience) -> bool) {
        for number in 0..self.things.len() {
            let Watched { thing, has_paths, patience } = &self.things[number];
            if !(cause == Cause::Signal || *has_paths && fits(patience)) {
                continue;
            }
            let outcome = self.reading(&**thing, |thing| thing.reload(cause));
            self.things[number].report(cause, outcome);
        }
    }
}

impl Watched {
    fn report(&mut self, cause: Cause, outcome: Outcome) {
        let name = self.thing.name();
        let by = match cause {
            Cause::Signal => "SIGHUP: ",
            Cause::Command => "refresh_certs: ",
            Cause::Change => "",
        };
        match outcome {
            Outcome::Unchanged => {
                if self.patience.end() {
                    log::info(format_args!("larderd: {by}{name} are as before, and can be used"));
                }
            }
            Outcome::Done(what) => {
                self.patience.end();
                log::info(format_args!("larderd: {by}{name} reloaded: {what}"));
            }
            Outcome::Failed(error) => {
                let is_final = cause != Cause::Change;
                let verdict = self.patience.judge(Instant::now(), &error, is_final);
                if verdict != Verdict::Wait {
                    self.thing.note_failure();
                }
                if verdict == Verdict::Report {
                    log::error(format_args!(
                        "larderd: {by}{name} not reloaded, the previous ones stay in effect: {error}"
                    ));
                }
            }
        }
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.things.iter().map(|of| of.thing.name()).collect();
        f.debug_struct("Thread").field("things", &names).finish_non_exhaustive()
    }
}

/// How often the thread looks at the files without an event.
const LOOK_PAUSE: Duration = Duration::from_secs(60);

/// The shortest time between two attempts because of events.
const EVENT_PAUSE: Duration = Duration::from_millis(50);
