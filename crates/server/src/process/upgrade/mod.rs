//! Zero-downtime upgrade. On SIGUSR2 the server starts the binary that is now at its path, and
//! hands over its sockets. Once the new process serves, the old one only keeps its existing
//! connections.
//!
//! Until the new process serves, the old one continues as before. If the new process fails or takes
//! too long, the only effect is a line in the log.
//!
//! Two processes cannot use the directory of `--tier-path` together, so the new process asks for it
//! as its last step before it serves. The old process then closes its connections between requests,
//! stops, and releases the directory. The sockets stay open, and the new process accepts
//! connections on them.

pub(crate) mod activation;
pub(crate) mod handover;
pub(crate) mod inherited;
pub(crate) mod listeners;
pub(crate) mod program;

use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{self, Child};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use larder::{SharedError, TierMode, TierStatus};

use larder_protocol::WarmEnd;

use crate::clock::Stopwatch;
use crate::log;
use crate::net::datagrams::Datagrams;
use crate::net::sockets::Socket;
use crate::process::pidfile;
use crate::process::supervisor::Supervisor;
use crate::server::Server;
use crate::server::open::InheritedMemory;

use handover::{Answer, Channel};
use program::Program;

/// The progress of a server's upgrade.
#[derive(Debug)]
pub(crate) struct Upgrade {
    program: Program,
    datagrams: Arc<[Datagrams]>,
    /// True if systemd has given the sockets.
    is_given: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// No upgrade is in progress.
    None,
    /// The new process is starting.
    Starting(Successor),
    /// The new process waits for the directory of this one. The stopwatch was started when it began
    /// to wait.
    Releasing(Successor, Stopwatch),
    /// The new process serves. The stopwatch was started when it began to serve.
    Done(Stopwatch),
}

/// The next action of the main thread during an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing.
    None,
    /// Stop accepting connections and responding on the admin listener, because the successor
    /// serves.
    Retire,
    /// Stop accepting connections of the cache, because the successor waits for its directory.
    LeaveDirectory,
}

/// The new process, which is killed if this is dropped before it serves.
#[derive(Debug)]
struct Successor {
    process: Child,
    channel: Channel,
    /// Started together with the process.
    since: Stopwatch,
    /// True if the process must not be killed any more, because it serves or is about to.
    serves: bool,
}

impl Upgrade {
    /// Creates the state without an upgrade. The `datagrams` will be handed over together with the
    /// sockets of the listener.
    pub(crate) fn new(program: Program, datagrams: Arc<[Datagrams]>, is_given: bool) -> Self {
        Self { program, datagrams, is_given, stage: Stage::None }
    }

    /// Begins an upgrade, unless one is in progress or impossible. Logs the result.
    pub(crate) fn begin(
        &mut self,
        server: &Server,
        supervisor: &Supervisor,
        sockets: &[Socket],
        admin: &[BorrowedFd<'_>],
    ) {
        let refused = match &self.stage {
            Stage::None => None,
            Stage::Starting(_) => Some("an upgrade is in progress"),
            Stage::Releasing(..) | Stage::Done(_) => Some("another process has already taken over"),
        };
        if let Some(why) = refused {
            return log::error(format_args!("larderd: SIGUSR2: no upgrade: {why}"));
        }
        if let Some(why) = obstacle(server) {
            return log::error(format_args!("larderd: SIGUSR2: no upgrade: {why}"));
        }
        let (memory, fate) = match fate_of_cache(server) {
            Ok(known) => known,
            Err(why) => return log::error(format_args!("larderd: SIGUSR2: no upgrade: {why}")),
        };
        supervisor.notify_reloading();
        // Before the new process exists, because it may change items as soon as it is ready.
        server.followers.suspend();
        server.warming.interrupt(WarmEnd::Upgrade);
        if let Some(near) = &server.near
            && !near.drop_copies_for_successor()
        {
            server.succession.give_up();
            log::error(format_args!(
                "larderd: SIGUSR2: no upgrade: the threads of the origins do not respond"
            ));
            return supervisor.notify_ready();
        }
        match self.start(server, sockets, memory.as_ref(), admin) {
            Ok(successor) => {
                log::info(format_args!(
                    "larderd: SIGUSR2: process {} is starting to take over; {fate}",
                    successor.process.id()
                ));
                self.stage = Stage::Starting(successor);
            }
            Err(error) => {
                log::error(format_args!("larderd: SIGUSR2: no upgrade: {error}"));
                server.succession.give_up();
                supervisor.notify_ready();
            }
        }
    }

    fn start(
        &self,
        server: &Server,
        sockets: &[Socket],
        memory: Option<&InheritedMemory>,
        admin: &[BorrowedFd<'_>],
    ) -> io::Result<Successor> {
        let listeners = listeners::text(sockets, &self.datagrams, self.is_given);
        let descriptors = sockets.iter().map(|socket| socket.descriptor.as_fd());
        let descriptors: Vec<_> =
            descriptors.chain(self.datagrams.iter().map(AsFd::as_fd)).collect();
        let (channel, theirs) = Channel::open(&descriptors, memory, admin, &listeners)?;
        if let Some(list) = server.discovery.as_ref().and_then(|discovery| discovery.list()) {
            channel.hand_cluster(list.body())?;
        }
        if let Some(limit) = server.life_limit {
            channel.hand_lives(&limit.text())?;
        }
        let mut command = self.program.command()?;
        for variable in activation::VARIABLES {
            command.env_remove(variable);
        }
        command.env(handover::MARK, process::id().to_string()).stdin(theirs);
        let process = command.spawn().map_err(|error| {
            let path = self.program.path().unwrap_or("".as_ref()).display();
            io::Error::other(format!("cannot start {path}: {error}"))
        })?;
        // Dropping the command closes the last end of the channel that does not belong to the new
        // process.
        Ok(Successor { process, channel, since: Stopwatch::start(), serves: false })
    }

    /// Releases the directory to the new process, once this process no longer uses it. The new
    /// process then becomes the main process for the service manager.
    pub(crate) fn release(&mut self, supervisor: &Supervisor) {
        if let Stage::Releasing(successor, _) = &mut self.stage {
            // From here on this process cannot take over again if the new one fails.
            successor.serves = true;
            supervisor.notify_successor(successor.process.id());
            successor.channel.notify_released();
        }
    }

    /// Ends the new process if it waits for the directory, because the service must end. Returns
    /// false if no new process waits.
    pub(crate) fn give_up(&mut self) -> bool {
        let waits = matches!(self.stage, Stage::Releasing(..));
        if waits {
            self.stage = Stage::None;
        }
        waits
    }

    /// Returns the channel, which is readable when the new process has responded; `None` if no
    /// response is expected.
    pub(crate) fn channel(&self) -> Option<&Channel> {
        match &self.stage {
            Stage::Starting(successor) => Some(&successor.channel),
            _ => None,
        }
    }

    /// Checks the state of the new process. If it has failed, logs the reason.
    pub(crate) fn turn(&mut self, server: &Server, supervisor: &Supervisor) -> Turn {
        let Stage::Starting(successor) = &mut self.stage else {
            return Turn::None;
        };
        let pid = successor.process.id();
        let memory_bytes = server.options.memory_bytes;
        let failure = match successor.channel.answer() {
            Answer::Ready => {
                successor.serves = true;
                self.stage = Stage::Done(Stopwatch::start());
                log::info(format_args!("larderd: process {pid} has taken over"));
                supervisor.notify_successor(pid);
                return Turn::Retire;
            }
            Answer::AsksRelease => {
                log::info(format_args!("larderd: process {pid} takes the directory over"));
                if let Stage::Starting(successor) = mem::replace(&mut self.stage, Stage::None) {
                    self.stage = Stage::Releasing(successor, Stopwatch::start());
                }
                return Turn::LeaveDirectory;
            }
            Answer::Gone => successor.end(),
            Answer::None if successor.since.elapsed_us() < start_us_max(memory_bytes) => {
                return Turn::None;
            }
            Answer::None => {
                format!("it did not serve within {} s", start_us_max(memory_bytes) / 1_000_000)
            }
        };
        // Kills the new process.
        self.stage = Stage::None;
        server.succession.give_up();
        log::error(format_args!(
            "larderd: process {pid} does not take over, and this process continues: {failure}"
        ));
        if let Some(path) = &server.options.pidfile {
            pidfile::take_back(path, pid);
        }
        supervisor.notify_ready();
        Turn::None
    }

    /// True if the successor serves, or is about to.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(_) | Stage::Releasing(..))
    }

    /// True if the remaining connections must be closed, because a successor serves and their time
    /// limit has passed.
    pub(crate) fn closes_connections(&self, server: &Server) -> bool {
        match &self.stage {
            Stage::Releasing(..) => true,
            _ => self.has_served_for(drain_us(server)),
        }
    }

    /// True if this process has nothing left to do: its connections have ended, or will not end in
    /// time.
    pub(crate) fn is_drained(&self, server: &Server) -> bool {
        let is_empty = server.connection_count() == 0;
        if let Stage::Releasing(_, since) = &self.stage {
            return is_empty || since.elapsed_us() >= CLOSING_US_MAX;
        }
        self.has_served_for(if is_empty { 0 } else { drain_us(server) + CLOSING_US_MAX })
    }

    /// True if a successor has served for at least this long.
    fn has_served_for(&self, us: u64) -> bool {
        matches!(&self.stage, Stage::Done(since) if since.elapsed_us() >= us)
    }
}

impl Successor {
    /// Returns why the new process has failed. It has closed the channel and so cannot continue,
    /// even if it still exists.
    fn end(&mut self) -> String {
        for _ in 0..END_LOOKS {
            match self.process.try_wait() {
                Ok(Some(status)) => return format!("it ended with {status}"),
                Ok(None) => sleep(END_PAUSE),
                Err(error) => return error.to_string(),
            }
        }
        "it is not a larderd that inherits sockets".to_owned()
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if !self.serves {
            // If it has already ended, there is nothing to kill.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// Returns how long connections stay after a successor has taken over, in microseconds.
fn drain_us(server: &Server) -> u64 {
    u64::from(server.options.upgrade_drain_secs) * 1_000_000
}

/// Returns why an upgrade is impossible; `None` if it is possible.
fn obstacle(server: &Server) -> Option<&'static str> {
    let is_store = |tier: TierStatus| tier.mode == TierMode::Store;
    if server.cache.has_tier_failed() && server.cache.tier().is_some_and(is_store) {
        return Some(
            "the disk has failed, and only this process has the changes that are not on it",
        );
    }
    if server.options.drop_privileges {
        return Some("with -o drop_privileges the process cannot start a program");
    }
    (process::id() == 1).then_some("this is process 1, and all other processes end with it")
}

/// Returns the cache's memory if it can be handed over, and a description of what happens to the
/// cache.
///
/// # Errors
/// Fails if the memory cannot be opened again.
fn fate_of_cache(server: &Server) -> Result<(Option<InheritedMemory>, &'static str), SharedError> {
    if server.options.disk_tier.is_some() {
        return Ok((None, "it takes over the directory of --tier-path once it is ready"));
    }
    if server.options.memory_file.is_some() {
        return Ok((None, "it uses the cache in the file of -e"));
    }
    let Some(inheritance) = server.cache.inheritance() else {
        return Ok((None, "its cache begins empty, because this process cannot share its own"));
    };
    let readers = server.options.local_readers.to_string();
    let memory = InheritedMemory { inheritance: inheritance?, readers };
    Ok((Some(memory), "it inherits the cache of this process"))
}

/// Returns how long the new process may take until it serves, in microseconds. With `-k`, with
/// `-L`, or with memory that other processes map, it commits all of its memory first, which takes a
/// quarter of a second per GiB on an idle machine.
fn start_us_max(memory_bytes: u64) -> u64 {
    START_US_MIN + (memory_bytes >> 30) * START_GIB_US
}

const START_US_MIN: u64 = 10_000_000;
const START_GIB_US: u64 = 2_000_000;

/// How long the old process waits for its connections to end, from the time at which it begins to
/// close them, before it exits anyway. This is a little longer than closing them between requests
/// takes if peers neither send the rest of their requests nor close their side.
const CLOSING_US_MAX: u64 = 8_000_000;

/// How often to look for the exit status of a new process that has closed the channel. A process
/// that ends closes its descriptors a moment before its parent can read the status.
const END_LOOKS: u32 = 20;
const END_PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_start_follows_the_memory() {
        assert_eq!(start_us_max(64 << 20), 10_000_000);
        assert_eq!(start_us_max(100 << 30), 210_000_000);
        assert!(start_us_max(u64::MAX) > start_us_max(1 << 40));
    }
}
