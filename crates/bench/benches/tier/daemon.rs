//! A server with files on the measured disk.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::server::{Address, Signal};
use larder_testkit::{ServerUnderTest, Transport};

/// A running server that listens on TCP. Dropping it kills the server.
pub(crate) struct Daemon(ServerUnderTest);

/// The numbers that a server reports.
pub(crate) struct Statistics(BTreeMap<String, u64>);

impl Daemon {
    /// Starts larderd with one worker and a directory on disk. `options` are further options,
    /// separated by spaces.
    pub(crate) fn larderd(binary: &Path, files: &Path, options: &str) -> Result<Self> {
        let files = files.to_str().context("the path of the disk is not UTF-8")?;
        let mut args = vec!["-t", "1", "--tier-path", files];
        args.extend(options.split(' '));
        Ok(Self(ServerUnderTest::start(binary, Transport::Tcp, &args)?))
    }

    /// Starts the server that uses RocksDB and counts the bytes that it writes.
    pub(crate) fn rocksdb(binary: &Path, files: &Path, cache_mib: u64) -> Result<Self> {
        let files = files.to_str().context("the path of the disk is not UTF-8")?;
        let cache_mib = cache_mib.to_string();
        let args = ["-S", "-d", files, "-m", &cache_mib];
        Ok(Self(ServerUnderTest::start(binary, Transport::Tcp, &args)?))
    }

    pub(crate) fn server(&self) -> &ServerUnderTest {
        &self.0
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        match self.0.address() {
            Address::Tcp(address) => Ok(*address),
            Address::Unix(path) => bail!("{} is not a TCP address", path.display()),
        }
    }

    /// Returns the rows of `stats` and of another request for statistics, such as `stats larder`.
    pub(crate) fn statistics(&self, more: &str) -> Result<Statistics> {
        let mut stream = self.0.connect()?;
        let mut answer = stream.ask(b"stats\r\n", b"END\r\n")?;
        answer.extend(stream.ask(format!("{more}\r\n").as_bytes(), b"END\r\n")?);
        let answer = String::from_utf8(answer)?;
        let rows = answer.lines().filter_map(|line| {
            let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Ok(Statistics(rows.collect()))
    }

    /// Returns the statistics of larderd.
    pub(crate) fn tier_statistics(&self) -> Result<Statistics> {
        self.statistics("stats larder")
    }

    /// Returns the bytes that the process has read from the disk.
    pub(crate) fn bytes_read(&self) -> Result<u64> {
        let account = fs::read_to_string(format!("/proc/{}/io", self.0.pid()))?;
        let bytes = account.lines().find_map(|line| line.strip_prefix("read_bytes: "));
        Ok(bytes.context("the kernel does not count the bytes that a process reads")?.parse()?)
    }

    /// Waits until larderd has read its directory and serves requests.
    pub(crate) fn wait_until_it_serves(&self) -> Result<()> {
        let mut stream = self.0.connect()?;
        loop {
            let answer = stream.ask(b"get nothing\r\n", b"\r\n")?;
            if answer == b"END\r\n" {
                return Ok(());
            }
            let is_recovering = answer.starts_with(b"SERVER_ERROR recovering");
            ensure!(is_recovering, "{}: {}", answer.escape_ascii(), self.0.log());
        }
    }

    pub(crate) fn kill(self) -> Result<()> {
        self.0.stop(Signal::KILL).map(drop)
    }

    /// Stops larderd cleanly.
    pub(crate) fn stop(self) -> Result<()> {
        let status = self.0.stop(Signal::TERM)?;
        ensure!(status.success(), "the stop ended with {status}");
        Ok(())
    }
}

impl Statistics {
    pub(crate) fn of(&self, name: &str) -> Result<u64> {
        let value = self.0.get(name).copied();
        value.with_context(|| format!("the server has no statistic {name}"))
    }

    /// Returns the increase of a counter since `earlier`.
    pub(crate) fn growth(&self, earlier: &Self, name: &str) -> Result<u64> {
        Ok(self.of(name)?.saturating_sub(earlier.of(name)?))
    }
}
