//! Starts and ends the threads that serve requests.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::failure::{AbortOnPanic, Failure};
use crate::log::{self, Level};
use crate::net::datagrams::Datagrams;
use crate::net::inbox::Inbox;
use crate::net::worker::Worker;
use crate::observe::prefix_stats::PrefixCounter;
use crate::process::start::os_failure;
use crate::server::Server;
use crate::session::execute::disk_threads::DiskThreads;
use crate::stop::Manner;

/// Starts the evaluation of hot keys. With an admin listener the sampling begins immediately, so
/// that the first request finds a list.
fn start_hot_keys(server: &Server) -> Result<(), Failure> {
    let prefixes = PrefixCounter::new(Arc::clone(&server.statistics.prefix_stats));
    let started = server.statistics.hot_keys.start(&server.life.stop, prefixes);
    started.map_err(|error| os_failure("start the thread for hot keys", &error))?;
    if !server.options.admin_listen.is_empty() && server.options.dump {
        server.statistics.hot_keys.enable();
    }
    Ok(())
}

pub(super) type Workers = Vec<JoinHandle<()>>;

/// Starts the workers. Also returns their inboxes.
pub(super) fn start(
    server: &Arc<Server>,
    datagrams: &Arc<[Datagrams]>,
    disk_threads: Option<&DiskThreads>,
) -> Result<(Vec<Arc<Inbox>>, Workers), Failure> {
    start_hot_keys(server)?;
    let failure = |error: &dyn std::error::Error| os_failure("start a worker", error);
    let (mut inboxes, mut workers) = (Vec::new(), Vec::new());
    for number in 0..server.options.worker_count {
        let inbox = Arc::new(Inbox::new().map_err(|error| failure(&error))?);
        let mut worker =
            Worker::new(server, number, Arc::clone(&inbox)).map_err(|error| failure(&error))?;
        let shared = worker.share(Arc::clone(datagrams), disk_threads.cloned());
        shared.map_err(|error| failure(&error))?;
        if number == 0 {
            match worker.no_ring() {
                Some(no_ring) => server.log.event(Level::Warn, format_args!("{no_ring}")),
                None => server
                    .log
                    .event(Level::Info, format_args!("workers wait by {}", worker.waits_by())),
            }
        }
        let thread = thread::Builder::new().name(format!("worker {number}"));
        let serve = move || {
            let _guard = AbortOnPanic;
            worker.run();
        };
        workers.push(thread.spawn(serve).map_err(|error| failure(&error))?);
        inboxes.push(inbox);
    }
    Ok((inboxes, workers))
}

/// Ends the workers and the other background work after a stop was requested.
pub(super) fn stop(server: &Server, inboxes: &[Arc<Inbox>], workers: Workers) {
    match server.life.stop.requested() {
        Some(Manner::Graceful) => log::info(format_args!("Gracefully stopping")),
        _ => server.log.event(Level::Info, format_args!("Exiting normally")),
    }
    for inbox in inboxes {
        inbox.waker().wake();
    }
    for worker in workers {
        // A worker that panics ends the process, so this cannot fail.
        let _ = worker.join();
    }
    server.upkeep.prefix_removals.retire();
}
