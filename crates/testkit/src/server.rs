//! A server that a test starts, talks to and stops.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

use crate::stream::Stream;

/// Which of the two servers: they agree, except where a transcript says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// larderd.
    Larder,
    /// Debian's memcached 1.6.18.
    Memcached,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Larder => "larderd",
            Self::Memcached => "memcached",
        })
    }
}

/// What a server listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A unix socket in a folder of the server's own.
    Unix,
    /// A free port of 127.0.0.1.
    Tcp,
}

/// Where a server listens.
#[derive(Clone, Debug)]
pub enum Address {
    /// The path of a unix socket.
    Unix(PathBuf),
    /// An address of the loopback interface.
    Tcp(SocketAddr),
}

/// A running server, killed when it is dropped.
#[derive(Debug)]
pub struct ServerUnderTest {
    child: Child,
    address: Address,
    folder: TempDir,
}

impl ServerUnderTest {
    /// Starts a binary with these arguments and whatever else makes it listen where nobody else
    /// does, and waits until it accepts connections.
    ///
    /// # Errors
    /// The binary cannot be started, ends at once or does not listen within 10 seconds; the error
    /// has what it wrote to stderr.
    pub fn start(binary: &Path, transport: Transport, args: &[&str]) -> Result<Self> {
        Self::start_with(binary, transport, args, &[])
    }

    /// As [`ServerUnderTest::start`], with these variables in its environment.
    ///
    /// # Errors
    /// Those of [`ServerUnderTest::start`].
    pub fn start_with(
        binary: &Path,
        transport: Transport,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let folder = new_folder()?;
        let address = match transport {
            Transport::Unix => Address::Unix(folder.path().join("socket")),
            Transport::Tcp => Address::Tcp(free_address()?),
        };
        Self::start_in(folder, binary, address, args, environment)
    }

    /// As [`ServerUnderTest::start`], listening where it is told to.
    ///
    /// # Errors
    /// Those of [`ServerUnderTest::start`].
    pub fn start_at(binary: &Path, address: Address, args: &[&str]) -> Result<Self> {
        Self::start_in(new_folder()?, binary, address, args, &[])
    }

    fn start_in(
        folder: TempDir,
        binary: &Path,
        address: Address,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let child = command(binary)
            .envs(environment.iter().copied())
            .args(listen_args(&address))
            .args(args)
            .stderr(File::create(folder.path().join(LOG_NAME))?)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let mut server = Self { child, address, folder };
        server.wait_until_it_accepts().with_context(|| format!("{} {args:?}", binary.display()))?;
        Ok(server)
    }

    fn wait_until_it_accepts(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let error = match Stream::connect(&self.address) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if let Some(status) = self.child.try_wait()? {
                bail!("ended with {status} instead of listening: {}", self.log());
            }
            if Instant::now() > deadline {
                bail!("does not listen on {:?}: {error}: {}", self.address, self.log());
            }
            sleep(START_POLL);
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// The server does not accept it.
    pub fn connect(&self) -> Result<Stream> {
        Stream::connect(&self.address)
            .with_context(|| format!("cannot connect to {:?}: {}", self.address, self.log()))
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Memory of the process that is present, in bytes.
    ///
    /// # Errors
    /// The process is gone.
    pub fn rss_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kib.context("the process is gone")?.parse::<u64>()? * 1024)
    }

    /// File descriptors the process has open.
    ///
    /// # Errors
    /// The process is gone.
    pub fn descriptor_count(&self) -> Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.pid()))?.count())
    }

    /// Operations that the kernel holds for the process's io_urings, each with a reference to its file. 0 without
    /// rings.
    ///
    /// # Errors
    /// The process is gone, or the kernel does not list the operations of a ring.
    pub fn ring_operations(&self) -> Result<usize> {
        let process = PathBuf::from(format!("/proc/{}", self.pid()));
        let mut operations = 0;
        for descriptor in fs::read_dir(process.join("fd"))? {
            let number = descriptor?.file_name();
            let target = fs::read_link(process.join("fd").join(&number));
            // What has been closed meanwhile was no ring.
            if target.is_ok_and(|target| target.as_os_str() == "anon_inode:[io_uring]") {
                operations += operations_of(&process.join("fdinfo").join(number))?;
            }
        }
        Ok(operations)
    }

    /// Waits until all threads of the process whose names begin so wait for something, and returns how often they have
    /// begun to wait so far.
    ///
    /// # Errors
    /// The process is gone, or the threads have something to do for 10 seconds.
    pub fn waits_of_threads(&self, name: &str) -> Result<u64> {
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            let (mut waits, mut is_busy) = (0, false);
            for thread in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
                let status = fs::read_to_string(thread?.path().join("status"))?;
                let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
                if field("Name:\t").is_some_and(|of| of.starts_with(name)) {
                    let count = field("voluntary_ctxt_switches:");
                    waits += count.context("the kernel does not count")?.trim().parse::<u64>()?;
                    is_busy |= !field("State:\t").is_some_and(|state| state.starts_with('S'));
                }
            }
            if !is_busy {
                return Ok(waits);
            }
        }
        bail!("threads {name:?} do not come to rest")
    }

    /// Whether the process still runs.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// What the server has written to stderr.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join(LOG_NAME)).unwrap_or_default()
    }

    /// Sends it a signal that does not end it.
    ///
    /// # Errors
    /// It has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Sends a signal and waits for the end.
    ///
    /// # Errors
    /// The server still runs after 10 seconds.
    pub fn stop(mut self, signal: Signal) -> Result<ExitStatus> {
        kill_process(Pid::from_child(&self.child), signal)?;
        let status = end_of(&mut self.child)?;
        status.with_context(|| format!("still runs after {signal:?}: {}", self.log()))
    }
}

impl Drop for ServerUnderTest {
    fn drop(&mut self) {
        // A child that has ended already cannot be killed, and that is all that can go wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Operations of the ring that this file of the kernel describes.
fn operations_of(fdinfo: &Path) -> Result<usize> {
    let deadline = Instant::now() + STOP_TIMEOUT;
    while Instant::now() < deadline {
        let described = fs::read_to_string(fdinfo)?;
        // The kernel leaves the list out while the ring is in use.
        if let Some((_, list)) = described.split_once("PollList:\n") {
            return Ok(list.lines().filter(|line| line.trim_start().starts_with("op=")).count());
        }
        sleep(START_POLL);
    }
    bail!("{} does not list operations", fdinfo.display())
}

/// Runs a command that is expected to end by itself.
///
/// # Errors
/// It cannot be started, or has not ended after 10 seconds, when it is killed.
pub fn run_to_end(command: &mut Command) -> Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if end_of(&mut child)?.is_none() {
        child.kill()?;
        bail!("{command:?} did not end by itself: {:?}", child.wait_with_output()?);
    }
    Ok(child.wait_with_output()?)
}

/// Waits until a child has ended, but not for ever.
fn end_of(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + STOP_TIMEOUT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        sleep(START_POLL);
    }
    Ok(None)
}

/// The larderd to test: the one that environment variable `LARDERD` names, else the one that
/// cargo built for the test (`env!("CARGO_BIN_EXE_larderd")`).
pub fn larderd(built_by_cargo: &str) -> PathBuf {
    std::env::var_os("LARDERD").map_or_else(|| built_by_cargo.into(), PathBuf::from)
}

/// Debian's memcached, which says what is right.
///
/// # Errors
/// It is not installed; the error names the command that does it.
pub fn memcached() -> Result<PathBuf> {
    let path = PathBuf::from("/usr/bin/memcached");
    if !path.exists() {
        bail!("memcached is not installed: run `apt-get install memcached` as root");
    }
    Ok(path)
}

/// A command for a server binary, as its own arguments would start it: without `LARDER_*` settings
/// of the tests' environment, but for `LARDER_IO`, by which all tests run with one loop or the other, and as
/// root with the `-u root` that memcached demands.
pub fn command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LARDER_") && name != "LARDER_IO" {
            command.env_remove(name);
        }
    }
    if is_root() {
        command.args(["-u", "root"]);
    }
    command
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// An address of the loopback interface that nobody listens on now, another one each time.
///
/// Its port is none of those that the system gives to clients, one of which could have it by the time that the server
/// listens, or be connected with itself. Nor is it ever listened on here: a process that another thread is just starting
/// would go on listening for a moment, and be taken for the server.
///
/// # Errors
/// There is no free port.
pub fn free_address() -> io::Result<SocketAddr> {
    const PORTS: std::ops::Range<u32> = 10_000..32_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let mut refused = io::ErrorKind::AddrNotAvailable.into();
    for _ in PORTS {
        // Test programs that run at the same time begin at different ones.
        let place = std::process::id().wrapping_mul(97).wrapping_add(TAKEN.fetch_add(1, Relaxed));
        let port = PORTS.start + place % (PORTS.end - PORTS.start);
        let address = SocketAddr::from(([127, 0, 0, 1], port as u16));
        match can_be_bound(&address) {
            Ok(()) => return Ok(address),
            Err(error) => refused = error.into(),
        }
    }
    Err(refused)
}

fn can_be_bound(address: &SocketAddr) -> std::result::Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, address)
}

fn new_folder() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("larder-test-").tempdir()
}

fn listen_args(address: &Address) -> Vec<String> {
    match address {
        Address::Unix(path) => vec!["-s".into(), path.display().to_string()],
        Address::Tcp(address) => {
            let (ip, port) = (address.ip().to_string(), address.port().to_string());
            ["-l", &ip, "-p", &port, "-U", "0"].map(String::from).to_vec()
        }
    }
}

const LOG_NAME: &str = "stderr";
const START_TIMEOUT: Duration = Duration::from_secs(10);
const START_POLL: Duration = Duration::from_millis(2);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
