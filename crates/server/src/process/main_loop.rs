//! The main thread while the server runs: accepts connections, handles signals, and follows an
//! upgrade until the server stops.

use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::admin::Http;
use crate::clock::monotonic_us;
use crate::discovery::Resolver;
use crate::log;
use crate::memory::control::MemoryWatch;
use crate::net::listener::Listener;
use crate::process::signals::{SignalRequests, Signals};
use crate::process::steps::{Step, reach};
use crate::process::supervisor::Supervisor;
use crate::process::upgrade::{Turn, Upgrade};
use crate::server::Server;
use crate::server::disk_trouble::DiskTrouble;
use crate::server::statistics::threads::Thread;
use crate::stop::Manner;
use crate::watched::Watcher;

/// The state of the main thread.
#[derive(Debug)]
pub(crate) struct MainLoop<'a> {
    pub(crate) server: &'a Arc<Server>,
    pub(crate) supervisor: &'a Supervisor,
    listener: Listener,
    pub(crate) http: Http,
    signals: Signals,
    pub(crate) upgrade: Upgrade,
    disk_trouble: DiskTrouble,
    /// Reads files again; `None` without such files.
    pub(crate) watcher: Option<Watcher>,
    /// Resolves the name of `--cluster-dns`; `None` without a name.
    pub(crate) resolver: Option<Resolver>,
    memory_watch: MemoryWatch,
    /// True if a signal has requested a stop.
    was_told_to_stop: bool,
}

impl<'a> MainLoop<'a> {
    pub(crate) fn new(
        server: &'a Arc<Server>,
        supervisor: &'a Supervisor,
        listener: Listener,
        http: Http,
        signals: Signals,
        upgrade: Upgrade,
    ) -> Self {
        Self {
            server,
            supervisor,
            listener,
            http,
            signals,
            upgrade,
            disk_trouble: DiskTrouble::default(),
            watcher: None,
            resolver: None,
            memory_watch: MemoryWatch::default(),
            was_told_to_stop: false,
        }
    }

    /// Follows the memory limit of the process.
    pub(crate) fn watch_memory(&mut self, watch: MemoryWatch) {
        self.memory_watch = watch;
    }

    /// Runs until the server stops.
    pub(crate) fn run(&mut self) {
        while self.server.life.stop.requested().is_none() {
            let readable = self.wait();
            let asked = self.signals.take();
            self.obey(asked);
            log::tick();
            self.disk_trouble.look(&self.server.cache);
            if let Some(watcher) = &self.watcher {
                watcher.look();
            }
            if let Some(resolver) = &self.resolver {
                resolver.look();
            }
            self.look_at_memory();
            self.listener.accept_from(readable);
            match self.upgrade.turn(self.server, self.supervisor) {
                Turn::None => {}
                Turn::Retire => {
                    // First, because the admin listener would otherwise report this server as not
                    // ready, although the successor is ready.
                    self.http.stop();
                    self.listener.retire();
                    if self.server.options.disk_tier.is_none() {
                        self.server.memory.retire();
                    }
                }
                Turn::LeaveDirectory => {
                    self.listener.retire();
                    reach(Step::Retired);
                }
            }
            if self.upgrade.closes_connections(self.server)
                && self.server.life.drain.begin(monotonic_us())
            {
                self.listener.wake_workers();
            }
            if self.upgrade.is_drained(self.server) {
                self.server.life.stop.request(Manner::Graceful);
            }
        }
    }

    /// Sets the memory limit of the cache to the one that the memory of the process now allows.
    fn look_at_memory(&mut self) {
        let server = self.server;
        let counters = server.counters(Thread::Listener);
        self.memory_watch.look(&server.memory, &server.cache, counters);
    }

    /// True if a signal requests a stop after the loop has ended for another reason.
    pub(crate) fn is_to_stop(&mut self) -> bool {
        self.was_told_to_stop || self.signals.take().stop.is_some()
    }

    /// True if a successor process serves, or is about to.
    pub(crate) fn has_successor(&self) -> bool {
        self.upgrade.is_done()
    }

    /// Waits for connections, signals, a request to stop, the successor, or the next second.
    /// Returns the numbers of the sockets with waiting connections.
    fn wait(&self) -> Vec<usize> {
        let mut others = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(self.server.life.stop.waker(), PollFlags::IN),
        ];
        others.extend(self.upgrade.channel().map(|channel| PollFd::new(channel, PollFlags::IN)));
        let timeout = if self.upgrade.is_done() { &RETIRED_TIMEOUT } else { &TIMEOUT };
        self.listener.wait(others, timeout)
    }

    /// Makes the watcher read the files of users, certificates and tokens again. The main thread
    /// does not, because their disk may hang.
    fn reload(&self) {
        self.supervisor.notify_reloading();
        match &self.watcher {
            // It reports to the supervisor when it has read them.
            Some(watcher) => watcher.ask(),
            None => {
                log::warn(format_args!(
                    "larderd: SIGHUP: nothing to read again: there are no users (-S, -Y), \
                     certificates (-Z) or admin tokens; other options need a restart, or SIGUSR2"
                ));
                self.supervisor.notify_ready();
            }
        }
    }

    /// Executes the requests of signals.
    pub(crate) fn obey(&mut self, asked: SignalRequests) {
        if let Some(manner) = asked.stop {
            self.was_told_to_stop = true;
            self.server.life.stop.request(manner);
        }
        if asked.reload {
            self.reload();
        }
        if asked.upgrade {
            let sockets = self.listener.sockets();
            self.upgrade.begin(self.server, self.supervisor, sockets, &self.http.descriptors());
        }
    }
}

/// The clock advances even while no connections arrive.
const TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How often the main thread checks whether all connections are closed after a successor has taken
/// over.
const RETIRED_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
