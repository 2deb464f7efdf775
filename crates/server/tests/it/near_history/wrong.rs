//! A cache in front of a server that breaks a promise, to show that the judge finds it.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use larder_testkit::server::free_address;
use larder_testkit::{Address, Stream};

/// How the cache breaks a promise.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Copies live longer than the staleness bound, also after a write through the cache.
    LivesLong,
    /// Writes through the cache do not drop copies, but these do not live too long.
    ForgetsWrites,
}

impl Fault {
    fn copies_live(self) -> Duration {
        match self {
            Self::LivesLong => 2 * super::cluster::MAX_STALE,
            Self::ForgetsWrites => super::cluster::MAX_STALE / 5,
        }
    }
}

/// A cache that keeps the responses to `gets` of one key, and passes everything else on.
#[derive(Debug)]
pub(super) struct WrongCache {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

type Copied = (Instant, Vec<u8>);

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    fault: Fault,
    /// The responses by key, and the moments at which they were requested.
    copies: Mutex<HashMap<Vec<u8>, Copied>>,
}

impl WrongCache {
    pub(super) fn start(server: SocketAddr, fault: Fault) -> Result<Self> {
        let address = free_address()?;
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let ends = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(Shared { server, fault, copies: Mutex::default() });
        let acceptor = thread::spawn({
            let ends = Arc::clone(&ends);
            move || {
                while !ends.load(Relaxed) {
                    match listener.accept() {
                        Ok((client, _)) => {
                            let shared = Arc::clone(&shared);
                            // Ends with an error if either side closes its connection.
                            thread::spawn(move || shared.serve(client));
                        }
                        Err(_) => sleep(Duration::from_millis(2)),
                    }
                }
            }
        });
        Ok(Self { address, ends, acceptor: Some(acceptor) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for WrongCache {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(acceptor) = self.acceptor.take() {
            // A thread that panicked has printed why.
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn serve(&self, mut client: TcpStream) -> Result<()> {
        client.set_nonblocking(false)?;
        client.set_nodelay(true)?;
        let mut fetching = Stream::connect(&Address::Tcp(self.server))?;
        let mut passing = TcpStream::connect(self.server)?;
        passing.set_nodelay(true)?;
        thread::spawn({
            let (mut from, mut to) = (passing.try_clone()?, client.try_clone()?);
            move || {
                // Ends with an error if either side closes its connection.
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            }
        });
        let mut part = vec![0; 64 << 10];
        loop {
            let bytes = client.read(&mut part)?;
            if bytes == 0 {
                passing.shutdown(Shutdown::Both)?;
                return Ok(());
            }
            match self.copied(&part[..bytes], &mut fetching)? {
                Some(response) => client.write_all(&response)?,
                None => passing.write_all(&part[..bytes])?,
            }
        }
    }

    /// Returns the response to a `gets` of one key; `None` for other commands.
    fn copied(&self, request: &[u8], fetching: &mut Stream) -> Result<Option<Vec<u8>>> {
        let key = request.strip_prefix(b"gets ").and_then(|rest| rest.strip_suffix(b"\r\n"));
        let Some(key) = key.filter(|key| !key.contains(&b' ')) else { return Ok(None) };
        if let Some((since, copy)) = self.copies.lock().unwrap().get(key)
            && since.elapsed() < self.fault.copies_live()
        {
            return Ok(Some(copy.clone()));
        }
        let since = Instant::now();
        let response = fetching.ask(request, b"END\r\n").context("the origin does not answer")?;
        self.copies.lock().unwrap().insert(key.to_vec(), (since, response.clone()));
        Ok(Some(response))
    }
}
