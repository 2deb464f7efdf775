//! A memory cgroup in which a test starts larderd.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::server::{ServerUnderTest, Transport};
use crate::skip::skip;

/// A memory cgroup that a test makes, and a program that starts larderd in it.
pub struct MemoryGroup {
    larderd: PathBuf,
    folder: PathBuf,
    is_v2: bool,
    temporary: TempDir,
}

impl MemoryGroup {
    /// Makes a cgroup with this limit in MiB. Skips the test and returns `None` if this machine
    /// does not allow that.
    #[track_caller]
    pub fn new(larderd: &Path, name: &str, mebibytes: u64) -> Option<Self> {
        let made = Self::make(larderd, name, mebibytes);
        if let Err(why) = &made {
            skip(format!("no memory cgroup can be made here: {why:#}"));
        }
        made.ok()
    }

    fn make(larderd: &Path, name: &str, mebibytes: u64) -> Result<Self> {
        let memberships = fs::read_to_string("/proc/self/cgroup")?;
        let own = memberships.lines().find_map(|line| line.split_once(":memory:"));
        let (parent, is_v2) = match own {
            Some((_, path)) => (PathBuf::from(format!("/sys/fs/cgroup/memory{path}")), false),
            None => (PathBuf::from("/sys/fs/cgroup"), true),
        };
        let folder = parent.join(format!("larder-test-{name}-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let (larderd, temporary) = (larderd.to_owned(), TempDir::new()?);
        let group = Self { larderd, folder, is_v2, temporary };
        group.limit(mebibytes)?;
        Ok(group)
    }

    /// Changes the limit.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn limit(&self, mebibytes: u64) -> Result<()> {
        let name = if self.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        let path = self.folder.join(name);
        fs::write(&path, (mebibytes << 20).to_string())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns a folder that is removed together with the cgroup.
    pub fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Returns a program that runs larderd in the cgroup.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn larderd(&self) -> Result<PathBuf> {
        let path = self.temporary.path().join("larderd");
        let (folder, larderd) = (self.folder.display(), self.larderd.display());
        let script = format!(
            "#!/bin/sh\necho $$ >'{folder}/cgroup.procs' || exit 1\nexec '{larderd}' \"$@\"\n"
        );
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    /// Starts larderd in the cgroup.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(&self, args: &[&str]) -> Result<ServerUnderTest> {
        ServerUnderTest::start(&self.larderd()?, Transport::Unix, args)
    }

    /// Returns the most memory that the processes have used together, in MiB. With cgroups v2 the
    /// kernel has it from version 5.19 on.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn peak(&self) -> Result<u64> {
        let name = if self.is_v2 { "memory.peak" } else { "memory.max_usage_in_bytes" };
        Ok(fs::read_to_string(self.folder.join(name))?.trim().parse::<u64>()? >> 20)
    }

    /// Returns how many processes the kernel has ended because they exceeded the limit.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn killed(&self) -> Result<u64> {
        let name = if self.is_v2 { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(self.folder.join(name))?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        Ok(count.context("no line oom_kill")?.parse()?)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel may still release the memory of a process that has ended.
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(&self.folder).is_err() && Instant::now() < deadline {
            sleep(Duration::from_millis(20));
        }
    }
}
