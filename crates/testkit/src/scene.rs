//! A larderd with a bystander: a well-behaved client that sends requests while other clients
//! misbehave.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::server::Signal;
use crate::{Address, ServerUnderTest, Stopwatch, Stream, Transport};
use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::Pid;

/// A server under test and its bystander.
pub struct Scene {
    /// The server.
    pub server: ServerUnderTest,
    address: Address,
    bystander: Bystander,
    rss_before_bytes: u64,
    descriptors_before: usize,
    operations_before: usize,
}

struct Bystander {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Duration>>,
}

impl Scene {
    /// Starts larderd on a port, and the bystander.
    pub fn start(larderd: &Path, args: &[&str]) -> Result<Self> {
        Self::start_on(larderd, Transport::Tcp, args)
    }

    /// Same as [`Self::start`], but on a port or a unix socket.
    pub fn start_on(larderd: &Path, transport: Transport, args: &[&str]) -> Result<Self> {
        let server = ServerUnderTest::start(larderd, transport, args)?;
        let address = server.address().clone();
        Self::around(server, address)
    }

    /// Same as [`Self::start`], but with a running server. The bystander connects to `address`.
    pub fn around(server: ServerUnderTest, address: Address) -> Result<Self> {
        let mut stream = Stream::connect(&address)?;
        stream.ask(b"version\r\n", b"\r\n")?;
        // The numbers below are compared at the end of the scene, so the server must have started
        // all its workers. It does not report this, but usually this pause suffices.
        sleep(Duration::from_millis(200));
        let (rss_before_bytes, descriptors_before) =
            (server.rss_bytes()?, server.descriptor_count()?);
        let operations_before = server.ring_operations()?;
        let server_pid = server.process_id();
        Ok(Self {
            server,
            address,
            bystander: Bystander::watch(stream, server_pid),
            rss_before_bytes,
            descriptors_before,
            operations_before,
        })
    }

    /// Opens another connection.
    pub fn connect(&self) -> Result<Stream> {
        let log = || format!("cannot connect to {:?}: {}", self.address, self.server.log());
        Stream::connect(&self.address).with_context(log)
    }

    /// Fails if the server's memory has grown by more than `bytes` since the start.
    pub fn has_grown_at_most(&self, bytes: u64) -> Result<()> {
        let now_bytes = self.server.rss_bytes()?;
        let grown_bytes = now_bytes.saturating_sub(self.rss_before_bytes);
        ensure!(grown_bytes <= bytes, "the server has grown by {grown_bytes} bytes, not {bytes}");
        Ok(())
    }

    /// Runs `act` while the server is suspended. The bystander must wait during that time.
    pub fn while_stopped(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        self.server.signal(Signal::STOP)?;
        let acted = act();
        self.server.signal(Signal::CONT)?;
        acted
    }

    /// Ends the scene after all other clients have left. Checks that the server runs, that the
    /// bystander always received a response in time, and that the descriptors of the other clients
    /// are closed. Also checks that the kernel has no operation in progress for them, which would
    /// keep a socket open after its descriptor is closed.
    pub fn end(mut self) -> Result<()> {
        let longest = self.bystander.end()?;
        ensure!(longest < BYSTANDER_PATIENCE, "the bystander had to wait for {longest:?}");
        ensure!(self.server.is_running()?, "the server has ended: {}", self.server.log());
        // The bystander has closed its connection, so there is one descriptor less than at the
        // start.
        let wanted = self.descriptors_before - 1;
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.server.descriptor_count()? > wanted {
            let count = self.server.descriptor_count()?;
            ensure!(Instant::now() < deadline, "{count} descriptors are open, not {wanted}");
            sleep(Duration::from_millis(10));
        }
        while self.server.ring_operations()? > self.operations_before {
            let (count, wanted) = (self.server.ring_operations()?, self.operations_before);
            ensure!(Instant::now() < deadline, "{count} operations are under way, not {wanted}");
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Bystander {
    fn watch(mut stream: Stream, server: Pid) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !watched.load(Ordering::Relaxed) {
                let stopwatch = Stopwatch::start(server);
                stream.ask(b"set bystander 0 0 2\r\nok\r\n", b"STORED\r\n")?;
                stream.ask(b"get nothing\r\n", b"END\r\n")?;
                longest = longest.max(stopwatch.elapsed());
                sleep(Duration::from_millis(5));
            }
            Ok(longest)
        });
        Self { is_over, thread }
    }

    /// Returns the longest time that the bystander had to wait for the server.
    fn end(self) -> Result<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        let longest = self.thread.join().map_err(|_| anyhow!("the bystander has panicked"))?;
        longest.context("the bystander was not answered")
    }
}

/// Long enough for machines with two cores.
const BYSTANDER_PATIENCE: Duration = Duration::from_secs(2);
