//! Forwards bytes between clients and the live server. The comparer only receives copies through a
//! [`Feed`], so that it cannot delay or change them.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | accepts clients and gives them to the workers |
//! | `listener.rs` | the listening socket and the limit of descriptors |
//! | `worker.rs` | a thread that forwards the bytes of its clients |
//! | `client.rs` | a client's connection |
//! | `flow.rs` | one direction of it |

mod client;
mod flow;
pub(crate) mod listener;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use self::listener::Listener;
use self::worker::{Inbox, Worker};
use super::compare::Target;
use super::feed::Feed;

/// Counts of the forwarded connections.
#[derive(Debug, Default)]
pub(crate) struct LiveCounts {
    /// Connections that the live server did not accept.
    pub(crate) refused_by_live: AtomicU64,
    /// Connections that were closed at the end with a response outstanding.
    pub(crate) cut: AtomicU64,
    /// Open connections.
    open: AtomicUsize,
}

/// Forwards clients.
#[derive(Debug)]
pub(crate) struct Forwarder<'a> {
    /// The live server.
    pub(crate) target: &'a Target,
    /// The queue of the comparer.
    pub(crate) feed: &'a Feed,
    /// The maximum number of clients.
    pub(crate) clients_max: usize,
    /// The number of threads.
    pub(crate) threads: usize,
}

impl Forwarder<'_> {
    /// Forwards bytes until `stop` is set or the time has come. Then accepts no more clients, waits
    /// for outstanding responses for a short time, and closes the connections.
    ///
    /// # Errors
    /// A thread cannot be started, or the kernel does not report events.
    pub(crate) fn run(
        &self,
        listener: Listener,
        stop: &AtomicBool,
        until: Option<Instant>,
    ) -> Result<LiveCounts> {
        let counts = LiveCounts::default();
        let inboxes: Vec<_> = (0..self.threads).map(|_| Inbox::new()).collect::<Result<_>>()?;
        thread::scope(|scope| {
            let mut workers = Vec::new();
            for inbox in &inboxes {
                let worker = Worker::new(self, inbox, &counts)?;
                let spawned =
                    thread::Builder::new().name("forwarder".to_owned()).spawn_scoped(scope, || {
                        let ended = worker.run();
                        // Without this thread its clients are stuck.
                        stop.store(true, Relaxed);
                        ended
                    });
                workers.push(spawned.context("cannot start a thread"));
            }
            let has_all = workers.iter().all(Result::is_ok);
            let accepted = if has_all {
                self.accept(listener, &inboxes, &counts, stop, until)
            } else {
                Ok(())
            };
            inboxes.iter().for_each(Inbox::stop);
            for worker in workers {
                worker?.join().map_err(|_| anyhow!("a forwarder has panicked"))??;
            }
            accepted
        })?;
        Ok(counts)
    }

    /// Accepts clients until the end, and gives them to the workers in turn.
    fn accept(
        &self,
        listener: Listener,
        inboxes: &[Inbox],
        counts: &LiveCounts,
        stop: &AtomicBool,
        until: Option<Instant>,
    ) -> Result<()> {
        let mut connection = 0;
        let wait = Timespec { tv_sec: 0, tv_nsec: ACCEPT_WAIT.subsec_nanos().into() };
        while !stop.load(Relaxed) && until.is_none_or(|until| Instant::now() < until) {
            if counts.open.load(Relaxed) >= self.clients_max {
                // Further clients wait in the queue of the kernel.
                thread::sleep(PAUSE);
                continue;
            }
            let mut ready = [PollFd::new(listener.socket(), PollFlags::IN)];
            match poll(&mut ready, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("poll"),
            }
            match listener.accept() {
                Ok(Some(socket)) => {
                    connection += 1;
                    counts.open.fetch_add(1, Relaxed);
                    let place = connection as usize % inboxes.len();
                    inboxes[place].push(connection, socket);
                }
                Ok(None) => {}
                Err(error) => {
                    eprintln!("larder: cannot accept a connection: {error}");
                    // The listener stays ready, and the error may last.
                    thread::sleep(PAUSE);
                }
            }
        }
        Ok(())
    }
}

/// The time after which the acceptor looks for the end of the run.
const ACCEPT_WAIT: Duration = Duration::from_millis(50);

const PAUSE: Duration = Duration::from_millis(10);
