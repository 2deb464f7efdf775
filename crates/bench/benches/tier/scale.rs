//! The sizes and durations of the measurements, and the disk that they use.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Error, Result};
use larder_bench::{binary, is_measuring, setting};
use tempfile::TempDir;

pub(crate) struct Scale {
    pub(crate) larderd: PathBuf,
    pub(crate) larder: PathBuf,
    pub(crate) rocksdb: Option<PathBuf>,
    /// The folder whose disk is measured.
    pub(crate) disk: PathBuf,
    pub(crate) items: u64,
    /// Seconds of each load.
    pub(crate) secs: u64,
    /// Size of the log whose writes are counted. A log of less than 1 GiB does not have enough
    /// space for the live items of some workloads and for the segments that a store keeps free.
    pub(crate) log_bytes: u64,
}

impl Scale {
    pub(crate) fn of_environment() -> Result<Self> {
        let (items, secs, log_mib) = match is_measuring() {
            true => (1_000_000, 10, 1024),
            false => (50_000, 1, 128),
        };
        let rocksdb = env::var_os("ROCKSDB_SERVER").map(|_| binary("ROCKSDB_SERVER"));
        Ok(Self {
            larderd: binary("LARDERD").map_err(Error::msg)?,
            larder: binary("LARDER").map_err(Error::msg)?,
            rocksdb: rocksdb.transpose().map_err(Error::msg)?,
            disk: env::var_os("LARDER_TIER_DIR").map_or_else(env::temp_dir, PathBuf::from),
            items: setting("LARDER_ITEMS", items),
            secs: setting("LARDER_SECS", secs),
            log_bytes: setting("LARDER_LOG_MIB", log_mib) << 20,
        })
    }

    /// Creates a folder on the measured disk. Dropping it removes the folder.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        let folder = tempfile::Builder::new().prefix("larder-tier-").tempdir_in(&self.disk);
        folder.with_context(|| format!("cannot create a folder in {}", self.disk.display()))
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(self.secs)
    }
}
