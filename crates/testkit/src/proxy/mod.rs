//! A TCP proxy between a client and a server that misbehaves as a test demands.
//!
//! Each connection of a client is a [`Link`] with two directions. A [`Flow`] for each direction
//! tells what happens to its bytes. It takes effect for the next bytes that arrive.
//!
//! ```text
//! client ──▶ to_server ──▶ server
//!        ◀── to_client ◀──
//! ```

mod link;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

pub use link::Link;

use crate::server::free_address;

/// What happens to the bytes of one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// They are sent on.
    #[default]
    Pass,
    /// They are sent on after this time.
    Delay(Duration),
    /// They disappear. Other flows afterwards cut the link.
    Swallow,
    /// They are sent on at this number of bytes per second, at most 100 pieces per second.
    Slow(u64),
    /// These bytes are sent in place of each piece that arrives. Other flows afterwards cut the
    /// link.
    Garbage(Vec<u8>),
}

/// What happens to the bytes of both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flows {
    /// The requests of the client.
    pub to_server: Flow,
    /// The responses of the server.
    pub to_client: Flow,
}

impl Flows {
    /// Same in both directions.
    pub fn both(flow: Flow) -> Self {
        Self { to_server: flow.clone(), to_client: flow }
    }

    /// A server that receives requests and never answers.
    pub fn never_answers() -> Self {
        Self { to_server: Flow::Pass, to_client: Flow::Swallow }
    }
}

/// A proxy on a free port of 127.0.0.1. Dropping it cuts all links and ends its threads.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    ends: AtomicBool,
    refuses: AtomicBool,
    accepted: AtomicU64,
    /// The flows of new links.
    flows: Mutex<Flows>,
    links: Mutex<Vec<Link>>,
}

impl Proxy {
    /// Starts a proxy to a server, which need not run yet.
    ///
    /// # Errors
    /// No port is free.
    pub fn start(server: SocketAddr) -> io::Result<Self> {
        let address = free_address()?;
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            server,
            ends: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            flows: Mutex::default(),
            links: Mutex::default(),
        });
        let acceptor = Some(thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener)
        }));
        Ok(Self { address, shared, acceptor })
    }

    /// Returns the address on which the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the links that are open, the oldest first.
    pub fn links(&self) -> Vec<Link> {
        let mut links = lock(&self.shared.links);
        links.retain(|link| !link.is_cut());
        links.clone()
    }

    /// Returns the number of connections that the proxy has accepted.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Relaxed)
    }

    /// Sets the flows of all links and of new ones.
    pub fn set(&self, flows: &Flows) {
        let links = lock(&self.shared.links);
        *lock(&self.shared.flows) = flows.clone();
        links.iter().for_each(|link| link.set(flows));
    }

    /// Closes new connections immediately, until it is called with `false`.
    pub fn refuse(&self, refuses: bool) {
        self.shared.refuses.store(refuses, Relaxed);
    }

    /// Cuts all links.
    pub fn cut(&self) {
        self.links().iter().for_each(Link::cut);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ends.store(true, Relaxed);
        if let Some(acceptor) = self.acceptor.take() {
            // A thread that panicked has printed why.
            let _ = acceptor.join();
        }
        self.cut();
    }
}

impl Shared {
    fn accept(&self, listener: &TcpListener) {
        while !self.ends.load(Relaxed) {
            match listener.accept() {
                Ok((client, _)) if !self.refuses.load(Relaxed) => {
                    self.accepted.fetch_add(1, Relaxed);
                    // Without a server the client's connection is closed.
                    if let Ok(server) = TcpStream::connect_timeout(&self.server, CONNECT_TIMEOUT) {
                        self.link(client, server);
                    }
                }
                Ok(_) => {}
                Err(_) => sleep(ACCEPT_POLL),
            }
        }
    }

    /// Starts and lists a link. Until it is listed, `set` and `cut` wait, so that they find it.
    fn link(&self, client: TcpStream, server: TcpStream) {
        let mut links = lock(&self.links);
        links.retain(|link| !link.is_cut());
        let flows = lock(&self.flows).clone();
        // Fails if the client has closed its connection.
        if let Ok(link) = Link::start(client, server, flows) {
            links.push(link);
        }
    }
}

/// Locks a mutex whose content is valid at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const ACCEPT_POLL: Duration = Duration::from_millis(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
