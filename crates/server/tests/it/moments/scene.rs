//! The scene of these tests: the folder of a server, in which the test holds its processes at
//! steps.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_server::Step;
use larder_testkit::server::{Signal, command};
use larder_testkit::{Address, Stream};
use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

/// The location of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only in memory.
    Memory,
    /// In the memory file of `-e`.
    File,
    /// In a directory of mode store.
    Store,
    /// In a directory of mode cache.
    Cache,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Memory, Kind::File, Kind::Store, Kind::Cache];

impl Kind {
    pub(crate) fn has_directory(self) -> bool {
        matches!(self, Self::Store | Self::Cache)
    }
}

/// The folder of a server. It contains its cache, its socket, and the files that hold it at steps.
pub(crate) struct Scene {
    kind: Kind,
    folder: TempDir,
    /// Options in addition to those of its kind. If an option occurs twice, the last one applies.
    pub(crate) options: &'static [&'static str],
    /// Processes that the test has found, which are killed at its end.
    seen: Vec<Pid>,
}

impl Scene {
    pub(crate) fn new(kind: Kind) -> Result<Self> {
        // Not on a disk, because a memory file reserves all of its space when it is created.
        let folder = tempfile::tempdir_in("/dev/shm")?;
        fs::create_dir(folder.path().join("steps"))?;
        Ok(Self { kind, folder, options: &[], seen: Vec::new() })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = command(Path::new(env!("CARGO_BIN_EXE_larderd")));
        let arg = |name: &str| self.path(name).display().to_string();
        command.args(["-s", &arg("socket"), "-t", "1", "-P", &arg("pid"), "-m", "16"]);
        command.args(["--admin-listen", &arg("admin")]);
        match self.kind {
            Kind::Memory => {}
            Kind::File => drop(command.args(["-e", &arg("file")])),
            Kind::Store => {
                command.args(["--durability", "sync", "--tier-mode", "store"]);
            }
            Kind::Cache => drop(command.args(["--tier-mode", "cache", "--tier-admit", "all"])),
        }
        if self.kind.has_directory() {
            command.args(["--tier-path", &arg("tier"), "--tier-size", "32m"]);
        }
        command.args(self.options);
        command
    }

    /// Starts a server that can be held.
    pub(crate) fn start(&mut self) -> Result<Server> {
        let log = File::options().append(true).create(true).open(self.path("log"))?;
        let mut command = self.command();
        let child = command.env("LARDERD_STEPS", self.path("steps")).stderr(log).spawn()?;
        let pid = Pid::from_child(&child);
        self.seen.push(pid);
        Ok(Server { child, pid })
    }

    /// Starts a server and waits until it serves.
    pub(crate) fn serve(&mut self) -> Result<Server> {
        let server = self.start()?;
        self.wait_for(server.pid, Step::Announced)?;
        Ok(server)
    }

    /// Holds the next process that reaches a step.
    pub(crate) fn hold(&self, step: Step) -> Result<()> {
        File::create(self.path("steps").join(step.to_string()))?;
        Ok(())
    }

    pub(crate) fn let_go(&self, step: Step) -> Result<()> {
        Ok(fs::remove_file(self.path("steps").join(step.to_string()))?)
    }

    /// Waits until a process has reached a step.
    pub(crate) fn wait_for(&self, pid: Pid, step: Step) -> Result<()> {
        self.wait_until(&format!("{pid:?} is at {step}"), || Ok(self.is_past(pid, step)))
    }

    /// Waits until a new process has reached a step, and returns it.
    pub(crate) fn wait_for_new(&mut self, step: Step) -> Result<Pid> {
        let mut found = None;
        self.wait_until(&format!("a new process is at {step}"), || {
            let pid_of = |line: &str| {
                let (pid, at) = line.split_once(' ')?;
                let pid = Pid::from_raw(pid.parse().ok()?)?;
                (at == step.to_string() && !self.seen.contains(&pid)).then_some(pid)
            };
            found = self.reached().lines().find_map(pid_of);
            Ok(found.is_some())
        })?;
        let new = found.context("it was found")?;
        self.seen.push(new);
        Ok(new)
    }

    /// True if a process has reached a step.
    pub(crate) fn is_past(&self, pid: Pid, step: Step) -> bool {
        self.reached().contains(&format!("{} {step}\n", pid.as_raw_pid()))
    }

    fn reached(&self) -> String {
        fs::read_to_string(self.path("steps").join("reached")).unwrap_or_default()
    }

    pub(crate) fn wait_until(
        &self,
        what: &str,
        mut is_so: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so()? {
            if Instant::now() > deadline {
                bail!("not within {PATIENCE:?}: {what}; steps: {}; {}", self.reached(), self.log());
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn connect(&self) -> Result<Stream> {
        let stream = Stream::connect(&Address::Unix(self.path("socket")))?;
        stream.set_timeout(PATIENCE)?;
        Ok(stream)
    }

    /// Stores an item, and waits for the acknowledgement.
    pub(crate) fn set(&self, key: &str) -> Result<()> {
        let answer =
            self.connect()?.ask(format!("set {key} 0 0 1\r\nv\r\n").as_bytes(), b"\r\n")?;
        ensure!(answer == b"STORED\r\n", "set {key}: {}", answer.escape_ascii());
        Ok(())
    }

    pub(crate) fn has(&self, key: &str) -> Result<bool> {
        let request = format!("mg {key}\r\n");
        let mut answer = self.connect()?.ask(request.as_bytes(), b"\r\n")?;
        while answer.starts_with(b"SERVER_ERROR recovering") {
            sleep(Duration::from_millis(20));
            answer = self.connect()?.ask(request.as_bytes(), b"\r\n")?;
        }
        match &*answer {
            b"HD\r\n" => Ok(true),
            b"EN\r\n" => Ok(false),
            other => bail!("mg {key}: {}", other.escape_ascii()),
        }
    }

    /// Starts a server again. Fails if an acknowledged item is missing.
    pub(crate) fn check_items(&mut self, keys: &[&str]) -> Result<()> {
        let mut server = self.serve().context("the next start")?;
        for key in keys {
            ensure!(self.has(key)?, "{key} was acknowledged and is lost; {}", self.log());
        }
        server.signal(Signal::TERM)?;
        let status = server.wait(self)?;
        ensure!(status.success(), "the last stop: {status}; {}", self.log());
        Ok(())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for pid in &self.seen {
            // Most of them have ended.
            if is_ours(*pid) {
                let _ = kill_process(*pid, Signal::KILL);
            }
        }
    }
}

/// True if a process id still belongs to a larderd, and not to another process.
fn is_ours(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid()))
        .is_ok_and(|name| name.trim() == "larderd")
}

/// True if a process has ended, or only remains to be reaped. Its last thread closes its files.
pub(crate) fn has_ended(pid: Pid) -> bool {
    let of = |name: &str| format!("/proc/{}/{name}", pid.as_raw_pid());
    let is_zombie = fs::read_to_string(of("stat")).map_or(true, |stat| stat.contains(") Z "));
    is_zombie && fs::read_dir(of("task")).map_or(true, |threads| threads.count() <= 1)
}

/// A server that the test has started.
pub(crate) struct Server {
    child: Child,
    pub(crate) pid: Pid,
}

impl Server {
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.pid, signal)?)
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self, scene: &Scene) -> Result<ExitStatus> {
        let mut ended = None;
        scene.wait_until("the server ends", || {
            ended = self.child.try_wait()?;
            Ok(ended.is_some())
        })?;
        ended.context("it has ended")
    }

    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if the server has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
