//! An origin, the proxies in front of it, and the servers behind them that clients use.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use larder_testkit::history::Place;
use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, Proxy, ServerUnderTest};
use md5::{Digest, Md5};
use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

use super::wrong::{Fault, WrongCache};
use crate::binary;
use crate::upgrade_scene::{PidFile, has_ended, wait_until};

/// The staleness bound of the near caches.
pub(super) const MAX_STALE: Duration = Duration::from_millis(500);
/// The same without reports of changes: the default of `--near-ttl`.
pub(super) const TTL: Duration = Duration::from_secs(1);
const ORIGIN_TIMEOUT: Duration = Duration::from_millis(250);
pub(super) const NEARS: usize = 3;
const ORIGINS: usize = 3;

/// The options of an origin.
fn origin_args(follows: bool) -> Vec<String> {
    let mut args = vec!["-t", "2", "-m", "256", "--upgrade-drain=2"];
    if follows {
        args.push("--followers=64");
    }
    args.into_iter().map(str::to_owned).collect()
}

/// The options of a near cache of the origins at these addresses.
fn near_args(origins: &[SocketAddr]) -> Vec<String> {
    let stale = MAX_STALE.as_millis();
    let timeout = ORIGIN_TIMEOUT.as_millis();
    let origins = origins.iter().map(ToString::to_string).collect::<Vec<_>>();
    let origin = format!("--origin={}", origins.join(","));
    let options = [format!("--near-max-stale={stale}ms"), format!("--origin-timeout={timeout}ms")];
    let more = ["-t", "2", "--upgrade-drain=1", &origin].map(str::to_owned);
    [more.to_vec(), options.to_vec()].concat()
}

fn socket_in(folder: &TempDir, number: usize) -> PathBuf {
    folder.path().join(format!("near-{number}"))
}

/// The servers between the proxies and the clients.
#[derive(Clone, Copy, Debug)]
pub(super) enum Between {
    /// Near caches.
    Near,
    /// Near caches of an origin that does not report changes.
    Timed,
    /// Near caches of three origins.
    Several,
    /// Near caches of three origins, without proxies. All of them can be upgraded.
    Upgraded,
    /// Nothing: clients use the proxies. So every read returns the item of the origin.
    Nothing,
    /// Caches that break a promise.
    Wrong(Fault),
}

pub(super) struct Cluster {
    pub(super) origins: Vec<Server>,
    /// The addresses by which near caches know the origins.
    names: Vec<SocketAddr>,
    /// In front of the origin, one for each near cache, or if there are several origins, one in
    /// front of each for all near caches: they must know the origins by the same names.
    pub(super) proxies: Vec<Proxy>,
    pub(super) nears: Vec<Server>,
    /// The places, with the addresses that their clients use. The origin is the first.
    pub(super) places: Vec<(Place, Address)>,
    /// The staleness bound of the places.
    pub(super) max_stale: Duration,
    /// The folder of the sockets through which clients read the memory of near caches.
    folder: TempDir,
    _wrong: Vec<WrongCache>,
}

impl Cluster {
    pub(super) fn start(between: Between) -> Result<Self> {
        let is_upgraded = matches!(between, Between::Upgraded);
        let count = if is_upgraded || matches!(between, Between::Several) { ORIGINS } else { 1 };
        let near_count = if is_upgraded { NEARS + 1 } else { NEARS };
        let follows = !matches!(between, Between::Timed);
        let origins = (0..count).map(|_| Server::origin(follows)).collect::<Result<Vec<_>>>()?;
        let place = |name: String, stale: Duration, address: SocketAddr| {
            let max_stale = stale.as_nanos() as u64;
            (Place { name, max_stale }, Address::Tcp(address))
        };
        let folder = tempfile::tempdir()?;
        let max_stale = if matches!(between, Between::Timed) { TTL } else { MAX_STALE };
        let mut places = vec![place("the origin".to_owned(), Duration::ZERO, origins[0].address)];
        let (mut nears, mut wrong) = (Vec::new(), Vec::new());
        let behind = |number: usize| Proxy::start(origins[number % count].address);
        let proxy_count = if is_upgraded { 0 } else { NEARS };
        let proxies = (0..proxy_count).map(behind).collect::<io::Result<Vec<_>>>()?;
        let names: Vec<_> = match is_upgraded {
            true => origins.iter().map(|origin| origin.address).collect(),
            false => proxies.iter().map(Proxy::address).collect(),
        };
        for number in 1..=near_count {
            let (stale, address) = match between {
                Between::Nothing => (Duration::ZERO, names[number - 1]),
                Between::Near | Between::Timed | Between::Several | Between::Upgraded => {
                    let origins = if count > 1 { &names[..] } else { &names[number - 1..number] };
                    let near = Server::near(origins, &socket_in(&folder, number))?;
                    let address = near.address;
                    nears.push(near);
                    (max_stale, address)
                }
                Between::Wrong(fault) => {
                    let cache = WrongCache::start(names[number - 1], fault)?;
                    let address = cache.address();
                    wrong.push(cache);
                    (MAX_STALE, address)
                }
            };
            places.push(place(format!("near cache {number}"), stale, address));
        }
        Ok(Self { origins, names, proxies, nears, places, max_stale, folder, _wrong: wrong })
    }

    /// Returns the socket for clients that read the memory of a place. If it does not exist,
    /// returns `None`.
    pub(super) fn readers_socket(&self, place: usize) -> Option<PathBuf> {
        let socket = socket_in(&self.folder, place);
        socket.exists().then_some(socket)
    }

    /// Ends all faults.
    pub(super) fn calm(&self) -> Result<()> {
        for near in &self.nears {
            near.signal(Signal::CONT)?;
        }
        for origin in &self.origins {
            origin.signal(Signal::CONT)?;
        }
        for proxy in &self.proxies {
            proxy.refuse(false);
            proxy.set(&larder_testkit::proxy::Flows::default());
            proxy.cut();
        }
        Ok(())
    }

    /// Returns what the servers have logged.
    pub(super) fn logs(&self) -> String {
        let nears = self.nears.iter().enumerate();
        let nears = nears.map(|(at, near)| format!("near cache {}:\n{}", at + 1, near.log()));
        let origins = self.origins.iter().map(|origin| format!("an origin:\n{}", origin.log()));
        origins.chain(nears).collect::<Vec<_>>().join("\n")
    }

    /// Returns the number of clients. At least one uses each origin.
    pub(super) fn client_count(&self) -> usize {
        if self.origins.len() > 1 { self.origins.len() * self.places.len() } else { 8 }
    }

    /// Returns the proxies that a near cache uses.
    pub(super) fn proxies_of(&self, near: usize) -> &[Proxy] {
        if self.origins.len() > 1 { &self.proxies } else { &self.proxies[near..=near] }
    }

    /// Returns the addresses of the origins, and the owners of keys.
    pub(super) fn origins(&self) -> Origins {
        let addresses = self.origins.iter().map(|origin| Address::Tcp(origin.address)).collect();
        Origins { addresses, ring: ring(&self.names[..self.origins.len()]) }
    }
}

/// The origins of a cluster.
pub(super) struct Origins {
    pub(super) addresses: Vec<Address>,
    /// The points of the origins, in ascending order, with their numbers.
    ring: Vec<(u32, usize)>,
}

impl Origins {
    /// Returns the number of the origin that owns a key.
    pub(super) fn owner_of(&self, key: &str) -> usize {
        let hash = points(key)[0];
        let point = self.ring.iter().find(|(point, _)| *point >= hash);
        point.map_or(self.ring[0].1, |(_, origin)| *origin)
    }
}

/// Returns the points of origins of the same weight in libmemcached's ketama.
fn ring(origins: &[SocketAddr]) -> Vec<(u32, usize)> {
    let of = |(number, origin): (usize, &SocketAddr)| {
        let sums = (0..40).map(|sum| points(&format!("{origin}-{sum}"))).collect::<Vec<_>>();
        sums.into_iter().flatten().map(move |point| (point, number))
    };
    let mut ring: Vec<_> = origins.iter().enumerate().flat_map(of).collect();
    ring.sort_unstable();
    ring
}

fn points(text: &str) -> [u32; 4] {
    let sum: [u8; 16] = Md5::digest(text).into();
    [0, 4, 8, 12].map(|at| u32::from_le_bytes([sum[at], sum[at + 1], sum[at + 2], sum[at + 3]]))
}

/// A server that can be killed and upgraded.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    args: Vec<String>,
    pub(crate) pid_file: PidFile,
    /// The process that started last, or the one that its successors replaced.
    process: Mutex<Option<ServerUnderTest>>,
    folder: TempDir,
}

impl Server {
    /// Starts an origin with a memory file.
    pub(crate) fn origin(follows: bool) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut args = origin_args(follows);
        args.extend(["-e".to_owned(), folder.path().join("cache").display().to_string()]);
        Self::start(folder, free_address()?, args)
    }

    /// Starts a near cache, whose memory clients read by a socket.
    pub(crate) fn near(origins: &[SocketAddr], socket: &Path) -> Result<Self> {
        let (mut args, address) = (near_args(origins), free_address()?);
        args.push(format!("--listen={address},unix[readers]:{}", socket.display()));
        Self::start(tempfile::tempdir()?, address, args)
    }

    fn start(folder: TempDir, address: SocketAddr, mut args: Vec<String>) -> Result<Self> {
        symlink(binary(), folder.path().join("larderd"))?;
        let pid_file = PidFile(folder.path().join("pid"));
        args.extend(["-P".to_owned(), pid_file.0.display().to_string()]);
        let server = Self { address, args, pid_file, process: Mutex::new(None), folder };
        server.begin()?;
        Ok(server)
    }

    /// Starts a process, and waits until it accepts connections and has written its id.
    fn begin(&self) -> Result<()> {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let binary = self.folder.path().join("larderd");
        let server = ServerUnderTest::start_at(&binary, Address::Tcp(self.address), &args)?;
        *self.process.lock().unwrap() = Some(server);
        wait_until("the pid file is written", || self.pid_file.pid().is_ok())
    }

    /// Replaces the program that an upgrade starts.
    pub(crate) fn replace_program(&self, path: &str) -> Result<()> {
        let link = self.folder.path().join("larderd");
        fs::remove_file(&link)?;
        Ok(symlink(path, link)?)
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.pid_file.pid()?, signal)?)
    }

    pub(crate) fn log(&self) -> String {
        self.process.lock().unwrap().as_ref().map(ServerUnderTest::log).unwrap_or_default()
    }

    /// Kills the process and starts another one. It begins without items, or finds those of the
    /// memory file.
    pub(super) fn restart(&self, keeps_items: bool) -> Result<()> {
        let pid = self.pid_file.pid()?;
        kill_process(pid, Signal::KILL)?;
        self.wait_for_end(pid)?;
        // The other threads of a killed process may end later than the first.
        wait_until("the port is free", || TcpStream::connect(self.address).is_err())?;
        *self.process.lock().unwrap() = None;
        fs::remove_file(&self.pid_file.0)?;
        if !keeps_items {
            fs::remove_file(self.folder.path().join("cache"))?;
        }
        self.begin()
    }

    /// Replaces the process by a successor on the same memory file.
    pub(crate) fn upgrade(&self) -> Result<()> {
        let old = self.pid_file.pid()?;
        kill_process(old, Signal::USR2)?;
        wait_until("the successor has written its id", || {
            self.pid_file.pid().is_ok_and(|pid| pid != old)
        })
        .with_context(|| self.log())?;
        self.wait_for_end(old).with_context(|| self.log())
    }

    fn wait_for_end(&self, pid: Pid) -> Result<()> {
        wait_until("the process ends", || {
            // Reaps the process if it is a child.
            let mut process = self.process.lock().unwrap();
            process.as_mut().map(ServerUnderTest::is_running);
            has_ended(pid)
        })
    }
}
