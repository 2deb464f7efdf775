//! A server that a test starts, uses and stops.

use std::env;
use std::ffi::OsString;
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

/// The kinds of servers that transcripts are played on. They behave the same except where a
/// transcript marks a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// larderd.
    Larder,
    /// Debian's memcached 1.6.18.
    Memcached,
    /// memcached 1.6.45 or newer, which conformance/memcached/build.sh builds.
    NewMemcached,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Larder => "larderd",
            Self::Memcached => "memcached",
            Self::NewMemcached => "the newest memcached",
        })
    }
}

/// The transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A Unix socket in a new folder.
    Unix,
    /// A free port of 127.0.0.1.
    Tcp,
}

/// The address of a server.
#[derive(Clone, Debug)]
pub enum Address {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// An address of the loopback interface.
    Tcp(SocketAddr),
}

/// A running server. Dropping it kills the server.
#[derive(Debug)]
pub struct ServerUnderTest {
    child: Child,
    address: Address,
    folder: TempDir,
}

impl ServerUnderTest {
    /// Starts a binary with these arguments, on an address that no other process uses, and waits
    /// until it accepts connections.
    ///
    /// # Errors
    /// The binary cannot be started, ends immediately, or does not listen within 30 seconds. The
    /// error quotes the server's stderr.
    pub fn start(binary: &Path, transport: Transport, args: &[&str]) -> Result<Self> {
        Self::start_with(binary, transport, args, &[])
    }

    /// Same as [`ServerUnderTest::start`], but with these environment variables.
    ///
    /// # Errors
    /// Same as [`ServerUnderTest::start`].
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

    /// Same as [`ServerUnderTest::start`], but on the given address.
    ///
    /// # Errors
    /// Same as [`ServerUnderTest::start`].
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
            .envs(disk_tier(&folder, args))
            .envs(patience(args))
            .envs(environment.iter().copied())
            .args(listen_args(&address))
            .args(args)
            .stderr(File::create(folder.path().join(LOG_NAME))?)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let mut server = Self { child, address, folder };
        let loads = args.iter().any(|arg| arg.starts_with("--dump"));
        server
            .wait_until_it_accepts(loads)
            .with_context(|| format!("{} {args:?}", binary.display()))?;
        Ok(server)
    }

    fn wait_until_it_accepts(&mut self, loads: bool) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let error = match Stream::connect(&self.address) {
                Ok(_) if loads || env::var_os("LARDER_TIER").is_some() => {
                    return self.wait_until_its_items_are_read(deadline);
                }
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if let Some(status) = self.child.try_wait()? {
                bail!("ended with {status} before it listened: {}", self.log());
            }
            if Instant::now() > deadline {
                bail!("does not listen on {:?}: {error}: {}", self.address, self.log());
            }
            sleep(START_POLL);
        }
    }

    /// Waits until the server has opened its directory on disk, or loaded its dump. A server
    /// accepts connections before that, and responds with an error. The directories of
    /// [`disk_tier`] are empty, so that the server opens them immediately.
    fn wait_until_its_items_are_read(&self, deadline: Instant) -> Result<()> {
        loop {
            let mut stream = Stream::connect(&self.address)?;
            // A server with the binary protocol or TLS ends the connection.
            let Ok(answer) = stream.ask(b"stats\r\n", b"\r\n") else { break };
            if !String::from_utf8_lossy(&answer).contains("STAT recovering_percent") {
                break;
            }
            if Instant::now() > deadline {
                bail!("still reads its items: {}", self.log());
            }
            sleep(START_POLL);
        }
        Ok(())
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// The server does not accept it.
    pub fn connect(&self) -> Result<Stream> {
        Stream::connect(&self.address)
            .with_context(|| format!("cannot connect to {:?}: {}", self.address, self.log()))
    }

    /// Returns the server's address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the process id as system calls take it.
    pub fn process_id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns the resident memory of the process, in bytes.
    ///
    /// # Errors
    /// The process has ended.
    pub fn rss_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kib.context("the process has ended")?.parse::<u64>()? * 1024)
    }

    /// Returns the number of open file descriptors of the process.
    ///
    /// # Errors
    /// The process has ended.
    pub fn descriptor_count(&self) -> Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.pid()))?.count())
    }

    /// Returns the number of pending operations in the io_urings of the process. Each operation
    /// holds a reference to its file. Returns 0 without rings.
    ///
    /// # Errors
    /// The process has ended, or the kernel does not list the operations of a ring.
    pub fn ring_operations(&self) -> Result<usize> {
        let process = PathBuf::from(format!("/proc/{}", self.pid()));
        let mut operations = 0;
        for descriptor in fs::read_dir(process.join("fd"))? {
            let number = descriptor?.file_name();
            let target = fs::read_link(process.join("fd").join(&number));
            // A descriptor that was closed in the meantime is not a ring.
            if target.is_ok_and(|target| target.as_os_str() == "anon_inode:[io_uring]") {
                operations += operations_of(&process.join("fdinfo").join(number))?;
            }
        }
        Ok(operations)
    }

    /// Waits until all threads whose names begin with `name` are blocked. Returns how often they
    /// have blocked so far.
    ///
    /// # Errors
    /// The process has ended, or the threads stay busy for 30 seconds.
    pub fn waits_of_threads(&self, name: &str) -> Result<u64> {
        let deadline = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < deadline {
            let (mut waits, mut is_busy) = (0, false);
            for thread in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
                let status = fs::read_to_string(thread?.path().join("status"))?;
                let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
                if field("Name:\t").is_some_and(|of| of.starts_with(name)) {
                    let count = field("voluntary_ctxt_switches:");
                    waits += count
                        .context("the kernel does not report context switches")?
                        .trim()
                        .parse::<u64>()?;
                    is_busy |= !field("State:\t").is_some_and(|state| state.starts_with('S'));
                }
            }
            if !is_busy {
                return Ok(waits);
            }
        }
        bail!("threads {name:?} do not become idle")
    }

    /// Returns true if the process still runs.
    ///
    /// # Errors
    /// The kernel does not report the state of the process.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Returns the server's output on stderr.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join(LOG_NAME)).unwrap_or_default()
    }

    /// Sends the server a signal that does not end it.
    ///
    /// # Errors
    /// The server has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Sends a signal and waits for the end of the server.
    ///
    /// # Errors
    /// The server still runs after 30 seconds.
    pub fn stop(mut self, signal: Signal) -> Result<ExitStatus> {
        kill_process(Pid::from_child(&self.child), signal)?;
        let status = end_of(&mut self.child)?;
        status.with_context(|| format!("still runs after {signal:?}: {}", self.log()))
    }
}

impl Drop for ServerUnderTest {
    fn drop(&mut self) {
        // The only possible error is that the child has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the number of operations of the ring that this fdinfo file describes.
fn operations_of(fdinfo: &Path) -> Result<usize> {
    let deadline = Instant::now() + STOP_TIMEOUT;
    while Instant::now() < deadline {
        let described = fs::read_to_string(fdinfo)?;
        // The kernel omits the list while the ring is in use.
        if let Some((_, list)) = described.split_once("PollList:\n") {
            return Ok(list.lines().filter(|line| line.trim_start().starts_with("op=")).count());
        }
        sleep(START_POLL);
    }
    bail!("{} does not list operations", fdinfo.display())
}

/// Returns environment variables that give the server under test a disk tier, if `LARDER_TIER`
/// names a mode. So the same tests can also run with a disk tier. Returns none for servers with
/// options that exclude one; conformance/tier.toml lists further exceptions.
fn disk_tier(folder: &TempDir, args: &[&str]) -> Vec<(&'static str, OsString)> {
    const CONTRADICT: [&str; 5] =
        ["-e", "--memory-file", "--local-readers", "--tier-path", "ext_path"];
    let contradicts = |arg: &&str| CONTRADICT.iter().any(|word| arg.starts_with(word));
    match env::var_os("LARDER_TIER") {
        Some(mode) if !args.iter().any(contradicts) => vec![
            ("LARDER_TIER_MODE", mode),
            ("LARDER_TIER_PATH", folder.path().join("tier").into()),
            ("LARDER_TIER_SIZE", "256m".into()),
        ],
        _ => Vec::new(),
    }
}

/// Returns the environment variable that lets changes wait 20 seconds for the disk. While other
/// tests run, the disk may be too slow for more than one second, the default, and changes would
/// fail.
fn patience(args: &[&str]) -> Option<(&'static str, &'static str)> {
    let has = |option: &str| args.iter().any(|arg| arg.starts_with(option));
    (has("--tier-path") && !has("--tier-wait-secs")).then_some(("LARDER_TIER_WAIT_SECS", "20"))
}

/// Runs a command that ends by itself.
///
/// # Errors
/// The command cannot be started, or still runs after 30 seconds. Then it is killed.
pub fn run_to_end(command: &mut Command) -> Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if end_of(&mut child)?.is_none() {
        child.kill()?;
        bail!("{command:?} did not end by itself: {:?}", child.wait_with_output()?);
    }
    Ok(child.wait_with_output()?)
}

/// Waits for the end of a child, at most for the time limit.
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

/// Returns the larderd to test: the environment variable `LARDERD`, or the binary that cargo built
/// for the test (`env!("CARGO_BIN_EXE_larderd")`).
pub fn larderd(built_by_cargo: &str) -> PathBuf {
    env::var_os("LARDERD").map_or_else(|| built_by_cargo.into(), PathBuf::from)
}

/// Returns Debian's memcached, the reference for correct behaviour.
///
/// # Errors
/// memcached is not installed. The error names the command that installs it.
pub fn memcached() -> Result<PathBuf> {
    let path = PathBuf::from("/usr/bin/memcached");
    if !path.exists() {
        bail!("memcached is not installed: run `apt-get install memcached` as root");
    }
    Ok(path)
}

/// Returns the version that a server binary prints with `-V`, such as `memcached 1.6.18`.
///
/// # Errors
/// The binary does not run, or prints something else.
pub fn version(binary: &Path) -> Result<String> {
    let name = || binary.display().to_string();
    let output = Command::new(binary).arg("-V").output().with_context(name)?;
    let printed = String::from_utf8(output.stdout).with_context(name)?;
    // larderd prints the version of the memcached that it follows, and then its own version.
    let last = printed.lines().rfind(|line| line.contains(' ')).map(str::to_owned);
    last.with_context(|| format!("{} -V prints {printed:?}, expected its version", name()))
}

/// Returns a command for a server binary without the `LARDER_*` variables of the tests'
/// environment. It keeps `LARDER_IO`, which selects the event loop for all tests. As root it adds
/// `-u root`, which memcached requires.
pub fn command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("LARDER_") && name != "LARDER_IO" {
            command.env_remove(name);
        }
    }
    if is_root() {
        command.args(["-u", "root"]);
    }
    command
}

/// Returns true if the tests run as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Returns an address of the loopback interface on which no process listens. Each call returns a
/// different address.
///
/// The port is outside the range that the kernel assigns to clients. A client could otherwise take
/// the port before the server listens, or be connected to itself. This function also does not try
/// to listen on the port. A process that another thread is starting would inherit the socket and
/// listen for a moment, and the test would mistake it for the server.
///
/// # Errors
/// No port is free.
pub fn free_address() -> io::Result<SocketAddr> {
    const PORTS: std::ops::Range<u32> = 10_000..32_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let mut refused = io::ErrorKind::AddrNotAvailable.into();
    for _ in PORTS {
        // Concurrent test programs begin at different ports.
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
const START_TIMEOUT: Duration = Duration::from_secs(30);
const START_POLL: Duration = Duration::from_millis(2);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
