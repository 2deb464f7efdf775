//! The scene of the tests of upgrades: a server whose binary can be replaced.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, ServerUnderTest};
use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

use crate::binary;

/// A pid file whose process is killed at the end of the test.
pub(crate) struct PidFile(pub(crate) PathBuf);

impl PidFile {
    pub(crate) fn pid(&self) -> Result<Pid> {
        let pid = fs::read_to_string(&self.0)?.trim().parse()?;
        Pid::from_raw(pid).context("0 is not a process id")
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Ok(pid) = self.pid() {
            // Fails if the process has already exited.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// A server whose binary can be replaced, with a pid file.
pub(crate) struct Scene {
    pub(crate) pid_file: PidFile,
    pub(crate) folder: TempDir,
    pub(crate) first: ServerUnderTest,
}

impl Scene {
    pub(crate) fn tcp(args: &[&str]) -> Result<Self> {
        Self::start(|_| Ok(Address::Tcp(free_address()?)), args)
    }

    pub(crate) fn start(address: impl Fn(&Path) -> Result<Address>, args: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let binary = folder.path().join("larderd");
        symlink(self::binary(), &binary)?;
        let path = folder.path().join("pid").display().to_string();
        let args: Vec<&str> = ["-P", &path].iter().chain(args).copied().collect();
        let first = ServerUnderTest::start_at(&binary, address(folder.path())?, &args)?;
        let scene = Self { pid_file: PidFile(path.into()), folder, first };
        wait_until("the pid file is written", || scene.pid().is_ok())?;
        Ok(scene)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the process in the pid file.
    pub(crate) fn pid(&self) -> Result<Pid> {
        self.pid_file.pid()
    }

    /// Requests an upgrade from the serving process, and waits until another one serves.
    pub(crate) fn upgrade(&self) -> Result<Pid> {
        let (old, said) = (self.pid()?, self.said("has taken over"));
        kill_process(old, Signal::USR2)?;
        wait_until("another process has taken over", || self.said("has taken over") > said)
            .with_context(|| self.first.log())?;
        ensure!(self.pid()? != old, "the pid file is still of {old:?}");
        Ok(old)
    }

    pub(crate) fn said(&self, words: &str) -> usize {
        self.first.log().matches(words).count()
    }

    /// Waits until a process is gone, or only remains to be reaped.
    pub(crate) fn wait_for_end(&mut self, pid: Pid) -> Result<()> {
        let first = &mut self.first;
        let is_first = pid.as_raw_pid().unsigned_abs() == first.pid();
        wait_until("the old process ends", || {
            if is_first { first.is_running().is_ok_and(|runs| !runs) } else { has_ended(pid) }
        })
        .with_context(|| self.first.log())
    }
}

pub(crate) fn has_ended(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        ensure!(Instant::now() < deadline, "not within 20 s: {what}");
        sleep(Duration::from_millis(5));
    }
    Ok(())
}
