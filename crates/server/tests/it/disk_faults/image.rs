//! An image: a file with a real file system, which the kernel mounts. A test can cut its power,
//! freeze it, or fill it without any effect on the machine's disk.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use tempfile::TempDir;

use super::{folders, run};

/// The file systems that docs/disk-tier.md recommends.
pub(crate) const KINDS: [&str; 2] = ["ext4", "xfs"];

/// A file with a file system that is mounted on a folder.
pub(crate) struct Image(TempDir);

impl Image {
    /// Creates and mounts an empty file system.
    pub(crate) fn new(kind: &str) -> Result<Self> {
        let image = Self(folders(&["mounted"])?);
        // mkfs.xfs requires at least 300 MiB. The file is sparse.
        File::create(image.file())?.set_len(320 << 20)?;
        run(&[&format!("mkfs.{kind}"), "-q", words(&image.file())?])?;
        image.mount(&[])?;
        Ok(image)
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("image")
    }

    /// Returns the folder on which the file system is mounted.
    pub(crate) fn mounted(&self) -> PathBuf {
        self.0.path().join("mounted")
    }

    pub(crate) fn mount(&self, options: &[&str]) -> Result<()> {
        let options = [&["loop"], options].concat().join(",");
        run(&["mount", "-o", &options, words(&self.file())?, words(&self.mounted())?])
    }

    pub(crate) fn unmount(&self) -> Result<()> {
        run(&["umount", words(&self.mounted())?])
    }

    /// Discards everything that the journal has not written, and refuses all calls until the next
    /// mount. The metadata is then in the state that a power loss leaves.
    pub(crate) fn cut_power(&self) -> Result<()> {
        run(&["xfs_io", "-x", "-c", "shutdown", words(&self.mounted())?])
    }

    /// Makes ext4 detect an error, which makes the file system read-only for the processes that use
    /// it.
    pub(crate) fn find_error(&self) -> Result<()> {
        let device = fs::metadata(self.mounted())?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let device = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))?;
        let name = device.file_name().context("a device without a name")?;
        let trigger = Path::new("/sys/fs/ext4").join(name).join("trigger_fs_error");
        Ok(fs::write(trigger, "1")?)
    }

    /// Blocks all writers of the file system until it is thawed.
    pub(crate) fn freeze(&self) -> Result<()> {
        run(&["fsfreeze", "--freeze", words(&self.mounted())?])
    }

    pub(crate) fn thaw(&self) -> Result<()> {
        run(&["fsfreeze", "--unfreeze", words(&self.mounted())?])
    }

    /// Fills all remaining space.
    pub(crate) fn fill(&self) -> Result<()> {
        let filler = File::create(self.filler())?;
        let mut bytes: u64 = 0;
        // A file system reserves some blocks, and needs some to describe the file.
        for size in [16 << 20, 1 << 20, 4096] {
            while fallocate(&filler, FallocateFlags::empty(), bytes, size).is_ok() {
                bytes += size;
            }
        }
        let left = statvfs(&self.mounted())?;
        let left = left.f_bavail * left.f_bsize;
        ensure!(
            bytes > 0 && left < 1 << 20,
            "{left} bytes are left in addition to {bytes} of the filler"
        );
        Ok(())
    }

    /// Frees the space that [`Image::fill`] has filled.
    pub(crate) fn make_room(&self) -> Result<()> {
        Ok(fs::remove_file(self.filler())?)
    }

    fn filler(&self) -> PathBuf {
        self.mounted().join("filler")
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // Neither a frozen nor a mounted file system may outlive its test. Most are not frozen.
        drop(self.thaw());
        drop(run(&["umount", "-l", &self.mounted().display().to_string()]));
    }
}

fn words(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}
