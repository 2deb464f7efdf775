//! The input of the rules: statistics of a server, and kernel data about its process.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use larder_loadgen::address::Address;
use larder_loadgen::connect::dialer::Dialer;
use larder_protocol::StatsSection;

use super::service;
use crate::connection::Connection;
use crate::stats;

/// The facts about a server.
#[derive(Debug)]
pub(super) struct Facts {
    /// The rows of `stats` and `stats larder`.
    rows: BTreeMap<String, String>,
    /// The rows of `stats settings`. They are a separate map because the setting `evictions` has
    /// the same name as a counter.
    settings: BTreeMap<String, String>,
    /// The process of the server, if it runs on this machine.
    pub(super) process: Option<Process>,
}

/// The process of a server on this machine.
#[derive(Debug)]
pub(super) struct Process {
    folder: PathBuf,
}

impl Facts {
    /// Returns the facts of a server on another machine with these statistics, for tests.
    #[cfg(test)]
    pub(super) fn of_rows(rows: &[(&str, &str)]) -> Self {
        let rows = rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self { rows: rows.collect(), settings: BTreeMap::new(), process: None }
    }

    /// Reads the facts about a server.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses its statistics.
    pub(super) fn ask(dialer: &Dialer) -> Result<Self> {
        let address = dialer.address();
        let mut connection = Connection::open(dialer)?;
        let mut ask = |section| -> Result<BTreeMap<_, _>> {
            let lines = stats::ask(&mut connection, section);
            let lines = lines.with_context(|| format!("stats at {address}"))?;
            Ok(lines.into_iter().map(|line| (line.name, line.value)).collect())
        };
        let mut rows = ask(StatsSection::General)?;
        let settings = ask(StatsSection::Settings)?;
        // memcached does not have this section. It responds with an error, and keeps the
        // connection.
        rows.extend(ask(StatsSection::Larder).unwrap_or_default());
        let process = is_here(address).then(|| rows.get("pid").cloned()).flatten();
        let process = process.and_then(|pid| Process::of(&pid));
        Ok(Self { rows, settings, process })
    }

    /// Returns a statistic; 0 if the server does not have it.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.rows.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// Returns a statistic that is a word; empty if the server does not have it.
    pub(super) fn word(&self, name: &str) -> &str {
        self.rows.get(name).map_or("", String::as_str)
    }

    /// Returns a setting; empty if the server does not have it.
    pub(super) fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }
}

impl Process {
    /// Returns the process with this id if it is a larderd. Compares the name because a server in a
    /// container reports an id that is valid only in the container.
    fn of(pid: &str) -> Option<Self> {
        let folder = Path::new("/proc").join(pid);
        let name = fs::read_to_string(folder.join("comm")).ok()?;
        (name.trim_end() == "larderd").then_some(Self { folder })
    }

    /// Translates a path of the process to a path that works here. A server in a container has its
    /// own root directory, which only its user and root can enter.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        let own = self.folder.join("root").join(path.trim_start_matches('/'));
        if own.exists() { own } else { PathBuf::from(path) }
    }

    /// Returns the systemd unit of the process and the time that systemd gives it to stop. Returns
    /// `None` if the process does not belong to a unit, or the time is unlimited.
    pub(super) fn stop_limit(&self) -> Option<(String, Duration)> {
        let unit = service::unit(&fs::read_to_string(self.folder.join("cgroup")).ok()?)?;
        let limit = service::stop_limit(&unit)?;
        Some((unit, limit))
    }

    /// Returns the value of a line of /proc/PID/status.
    pub(super) fn status(&self, name: &str) -> Option<String> {
        let status = fs::read_to_string(self.folder.join("status")).ok()?;
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value.trim().to_owned())
    }

    /// Returns the bytes of a line of /proc/PID/smaps_rollup. Only the user of the server and root
    /// may read it.
    pub(super) fn memory_bytes(&self, name: &str) -> Option<u64> {
        let rollup = fs::read_to_string(self.folder.join("smaps_rollup")).ok()?;
        let mut lines = rollup.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(found, _)| *found == name)?;
        Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }

    /// True if the process has an io_uring open. `None` if this user cannot see it: only the user
    /// of the server and root can.
    pub(super) fn has_ring(&self) -> Option<bool> {
        let descriptors = fs::read_dir(self.folder.join("fd")).ok()?;
        let mut targets = descriptors.flatten().map(|descriptor| fs::read_link(descriptor.path()));
        Some(targets.any(|to| to.is_ok_and(|to| to.as_os_str() == "anon_inode:[io_uring]")))
    }
}

fn is_here(address: &Address) -> bool {
    match address {
        Address::Unix(_) => true,
        Address::Tcp { host, .. } => {
            host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
    }
}
