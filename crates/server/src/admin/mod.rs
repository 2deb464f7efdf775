//! The admin listener: health, readiness, metrics and items over HTTP.
//!
//! It runs on one thread of low priority with a separate runtime, so that its requests never take
//! the time of a worker, which is a thread that serves the cache's clients. It starts before the
//! cache is opened, because a server that recovers its cache must already report that it is
//! healthy, and ends after the workers.

pub(crate) mod access;
mod cache;
mod connections;
mod control;
mod executing;
mod health;
mod history;
mod hot;
mod json;
mod keys;
mod metrics;
mod page;
mod prefixes;
mod removals;
mod routes;
mod slow;
pub(crate) mod sockets;
mod status;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use larder_options::{ClientCertificates, Options, Role};
use tokio::runtime::{self, Runtime};
use tokio::sync::watch;

use crate::clock::monotonic_us;
use crate::log;
use crate::net::sockets::Address;
use crate::priority;
use crate::server::Server;
use crate::server::progress::Progress;
use crate::session::execute::disk_threads::DiskThreads;
use crate::tls::certificates::Certificates;
use crate::waker::Waker;
use crate::watched::{Cause, Outcome, Reloaded};
use access::Rules;
use access::journal::Journal;
use access::tokens::Tokens;
use cache::memory::{Memory, OF_PROBES};
use connections::secured::Secured;
use health::OpeningCache;
use history::History;
use sockets::AdminSocket;

/// The admin listener of a server.
#[derive(Debug)]
pub(crate) struct Http {
    sockets: Vec<AdminSocket>,
    /// The role that corresponds to what every program of this machine may do through the cache's
    /// TCP sockets.
    on_wire: Role,
    /// The certificates of `-Z`, for the encrypted sockets.
    certificates: Option<Arc<Certificates>>,
    shared: Arc<Shared>,
    /// True once the listener must end.
    is_over: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the threads share.
#[derive(Debug)]
struct Shared {
    tokens: Option<Tokens>,
    memory: Memory,
    /// The memory for the responses of probes.
    probes: Memory,
    /// The server, once its workers run.
    serving: OnceLock<AdminContext>,
    /// The cache that is being opened; set when the listener starts.
    opening: OnceLock<OpeningCache>,
    journal: Journal,
    history: History,
}

#[derive(Debug)]
struct AdminContext {
    server: Arc<Server>,
    /// Wake the workers.
    workers: Vec<Arc<Waker>>,
    /// `None` without a disk tier.
    disk_threads: Option<DiskThreads>,
}

impl Http {
    /// Creates the listener of these sockets, which does not respond before [`Self::start`]. Logs a
    /// warning if tokens would be sent over a network in plain text.
    pub(crate) fn new(
        sockets: Vec<AdminSocket>,
        tokens: Option<Tokens>,
        on_wire: Role,
        certificates: Option<Arc<Certificates>>,
    ) -> Self {
        let (memory, serving, opening, journal, history) = Default::default();
        let probes = Memory::new(OF_PROBES);
        let shared = Shared { tokens, memory, probes, serving, opening, journal, history };
        let shared = Arc::new(shared);
        let http = Self {
            sockets,
            on_wire,
            certificates,
            shared,
            is_over: watch::Sender::new(false),
            thread: None,
        };
        http.warn();
        http
    }

    /// Begins to respond, unless it has already started or has no sockets. `progress` reports how
    /// much of the cache is open.
    ///
    /// # Errors
    /// Fails if no file descriptors or threads are left.
    pub(crate) fn start(&mut self, options: &Options, progress: &Progress) -> io::Result<()> {
        if self.sockets.is_empty() || self.thread.is_some() {
            return Ok(());
        }
        let memory_bytes = options.memory_bytes;
        let opening = match (&options.memory_file, &options.disk_tier) {
            (Some(path), _) => Some(OpeningCache::File { path: path.clone(), memory_bytes }),
            (None, Some(_)) => Some(OpeningCache::Directory(progress.clone())),
            (None, None) => None,
        };
        // The listener starts only once.
        let _ = opening.map(|opening| self.shared.opening.set(opening));
        let mut listeners = Vec::new();
        for socket in &self.sockets {
            let without_token = socket.role_without_token(self.on_wire);
            let hosts = &options.admin_hosts;
            let rules = Rules::new(socket.role, without_token, &socket.address, hosts);
            let descriptor = socket.descriptor.try_clone()?;
            let is_unix = matches!(socket.address, Address::Unix(_));
            let asked = socket.client_certificates;
            let secured = asked.map(|asked| self.secured(asked)).transpose()?;
            listeners.push(BoundSocket { descriptor, is_unix, rules, secured });
        }
        // Before the thread starts, because afterwards the process may be forbidden to open
        // descriptors.
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (shared, is_over) = (Arc::clone(&self.shared), self.is_over.subscribe());
        let (started, has_started) = std::sync::mpsc::channel();
        let run = move || {
            priority::lower();
            let _ = started.send(());
            run(&runtime, shared, listeners, is_over);
        };
        self.thread = Some(thread::Builder::new().name("admin".to_owned()).spawn(run)?);
        // Waits until the thread has started, because it makes system calls for its start that the
        // process may be forbidden to make afterwards.
        let _ = has_started.recv();
        Ok(())
    }

    /// Returns the TLS configuration of connections that are asked for these certificates.
    fn secured(&self, asked: ClientCertificates) -> io::Result<Secured> {
        match &self.certificates {
            Some(certificates) => Ok(Secured { certificates: Arc::clone(certificates), asked }),
            // The check of the options refuses this earlier.
            None => Err(io::Error::other("without -Z there are no certificates")),
        }
    }

    /// Tells the listener that the server serves, with these workers. `disk_threads` execute work
    /// that may wait for the disk.
    pub(crate) fn serve(
        &self,
        server: &Arc<Server>,
        workers: Vec<Arc<Waker>>,
        disk_threads: Option<DiskThreads>,
    ) {
        let serving = AdminContext { server: Arc::clone(server), workers, disk_threads };
        self.shared.serving.set(serving).expect("a server serves once");
    }

    /// Returns the listening sockets, for a successor process.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.descriptor.as_fd()).collect()
    }

    /// Returns the addresses, each with a description of the access that requests have there.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&Address, String)> {
        let has_tokens = self.shared.tokens.is_some();
        self.sockets.iter().map(move |socket| {
            let access = socket.access(self.on_wire, has_tokens);
            (&socket.address, if socket.is_encrypted() { access + ", TLS" } else { access })
        })
    }

    /// Warns of tokens that are sent over a network in plain text.
    fn warn(&self) {
        let is_far = |socket: &&AdminSocket| match &socket.address {
            Address::Tcp(address) => !address.ip().to_canonical().is_loopback(),
            Address::Unix(_) => false,
        };
        let needs_tokens =
            |socket: &&AdminSocket| socket.role > Role::Probe && !socket.is_encrypted();
        let mut sockets = self.sockets.iter().filter(needs_tokens).filter(is_far);
        if let (Some(_), Some(socket)) = (&self.shared.tokens, sockets.next()) {
            log::warn(format_args!(
                "larderd: option --admin-token-file: tokens cross the network in plain text at {}",
                socket.address
            ));
        }
    }

    /// Returns the token file, if there is one. It is read again only on request.
    pub(crate) fn reloaded_tokens(&self) -> Option<Box<dyn Reloaded>> {
        self.shared.tokens.as_ref()?;
        Some(Box::new(ReloadedTokens(Arc::clone(&self.shared))))
    }

    /// Stops listening and closes all connections, because a successor responds from now on or
    /// because the server ends.
    pub(crate) fn stop(&mut self) {
        self.is_over.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // The thread has no result, and the runtime logs a panic of it.
            let _ = thread.join();
        }
        self.sockets.clear();
    }
}

/// The token file.
struct ReloadedTokens(Arc<Shared>);

impl Reloaded for ReloadedTokens {
    fn name(&self) -> &'static str {
        "admin tokens"
    }

    fn paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn reload(&self, _: Cause) -> Outcome {
        let Some(tokens) = &self.0.tokens else { return Outcome::Unchanged };
        match tokens.reload() {
            Ok(count) => Outcome::Done(format!("{count} of {}", tokens.path().display())),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }
}

/// A socket on which the listener accepts connections.
#[derive(Debug)]
struct BoundSocket {
    descriptor: OwnedFd,
    is_unix: bool,
    rules: Rules,
    /// The TLS configuration of its connections.
    secured: Option<Secured>,
}

fn run(
    runtime: &Runtime,
    shared: Arc<Shared>,
    listeners: Vec<BoundSocket>,
    mut is_over: watch::Receiver<bool>,
) {
    runtime.block_on(async move {
        let crowd = Arc::new(connections::Crowd::default());
        let mut accepting = Vec::new();
        for BoundSocket { descriptor, is_unix, rules, secured } in listeners {
            let router = routes::router(Arc::clone(&shared), rules);
            let (crowd, is_over) = (Arc::clone(&crowd), is_over.clone());
            let site = connections::Site { router, crowd, is_over };
            let served = connections::accept(descriptor, is_unix, secured, site);
            accepting.push(tokio::spawn(served));
        }
        tokio::spawn(history::record(Arc::clone(&shared)));
        tokio::spawn(ask_workers(shared));
        // Fails if the sender is gone, which also means the end.
        let _ = is_over.wait_for(|is_over| *is_over).await;
        for task in accepting {
            task.abort();
        }
        crowd.end().await;
    });
}

/// Requests heartbeats from the workers from time to time.
async fn ask_workers(shared: Arc<Shared>) {
    let mut interval = tokio::time::interval(HEARTBEAT_PAUSE);
    loop {
        interval.tick().await;
        if let Some(AdminContext { server, workers, .. }) = shared.serving.get() {
            server.life.heartbeats.ask(monotonic_us());
            for worker in workers {
                worker.wake();
            }
        }
    }
}

const HEARTBEAT_PAUSE: Duration = Duration::from_secs(5);
