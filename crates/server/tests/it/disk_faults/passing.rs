//! A file system in user space that can block calls and make them fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use super::folders;

/// A mounted file system of `file_system.py`.
pub(crate) struct Passing {
    place: TempDir,
    process: Child,
}

impl Passing {
    pub(crate) fn mount() -> Result<Self> {
        let place = folders(&["real", "mounted", "orders"])?;
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/disk_faults/file_system.py");
        let process = Command::new("/usr/bin/python3")
            .arg(script)
            .args(["real", "mounted", "orders"].map(|name| place.path().join(name)))
            .stdin(Stdio::null())
            .spawn()?;
        let mut disk = Self { place, process };
        fs::write(disk.place.path().join("real/probe"), "")?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while !disk.mounted().join("probe").exists() {
            ensure!(disk.process.try_wait()?.is_none(), "{NEEDS}");
            ensure!(
                Instant::now() < deadline,
                "the file system is not mounted after 10 s: {NEEDS}"
            );
            sleep(Duration::from_millis(20));
        }
        Ok(disk)
    }

    pub(crate) fn mounted(&self) -> PathBuf {
        self.place.path().join("mounted")
    }

    /// Orders the file system to block calls of a kind: `hang-read`, `hang-write` or `hang-sync`.
    pub(crate) fn order(&self, order: &str) -> Result<()> {
        self.give(order, "")
    }

    /// Orders the file system to fail `count` calls of a kind, after the next `after` calls of that
    /// kind.
    pub(crate) fn fail(&self, kind: &str, after: u32, count: u32) -> Result<()> {
        self.give(&format!("fail-{kind}"), &format!("{after} {count}"))
    }

    /// Gives an order in one step, because the file system may read it at any time.
    fn give(&self, order: &str, words: &str) -> Result<()> {
        let written = self.place.path().join("order");
        fs::write(&written, words)?;
        Ok(fs::rename(written, self.place.path().join("orders").join(order))?)
    }

    pub(crate) fn withdraw(&self, order: &str) -> Result<()> {
        Ok(fs::remove_file(self.place.path().join("orders").join(order))?)
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        for kind in ["hang-read", "hang-write", "hang-sync"] {
            // Most orders do not exist.
            drop(fs::remove_file(self.place.path().join("orders").join(kind)));
        }
        drop(Command::new("umount").arg("-l").arg(self.mounted()).status());
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

const NEEDS: &str = "it needs /dev/fuse and Debian's python3-fusepy";
