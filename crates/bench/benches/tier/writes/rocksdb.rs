//! The server that uses RocksDB.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use larder_testkit::Stream;

use super::target::{Put, Target, VALUE_BYTES, Written, key_text};
use crate::daemon::Daemon;

/// Bytes of requests that are sent together.
const BATCH_BYTES: usize = 64 << 10;
/// RocksDB stops writers while compaction is too slow.
const PATIENCE: Duration = Duration::from_secs(600);
const CACHE_MIB: u64 = 256;

pub(super) struct RocksDb {
    daemon: Daemon,
    stream: Stream,
    requests: Vec<u8>,
}

impl RocksDb {
    pub(super) fn start(binary: &Path, files: &Path) -> Result<Self> {
        let daemon = Daemon::rocksdb(binary, files, CACHE_MIB)?;
        let stream = daemon.server().connect()?;
        stream.set_timeout(PATIENCE)?;
        Ok(Self { daemon, stream, requests: Vec::new() })
    }

    fn send_if_many(&mut self) -> Result<()> {
        match self.requests.len() < BATCH_BYTES {
            true => Ok(()),
            false => self.send(),
        }
    }

    fn send(&mut self) -> Result<()> {
        let sent = self.stream.write_all(&self.requests);
        sent.with_context(|| format!("the server on RocksDB: {}", self.daemon.server().log()))?;
        self.requests.clear();
        Ok(())
    }
}

impl Target for RocksDb {
    fn put(&mut self, put: Put) -> Result<()> {
        let (key, ttl_secs) = (key_text(put.key), put.ttl_secs.unwrap_or(0));
        write!(self.requests, "set {key} 0 {ttl_secs} {VALUE_BYTES} noreply\r\n")?;
        self.requests.resize(self.requests.len() + VALUE_BYTES, b'v');
        self.requests.extend_from_slice(b"\r\n");
        self.send_if_many()
    }

    fn remove(&mut self, key: u64) -> Result<()> {
        write!(self.requests, "delete {} noreply\r\n", key_text(key))?;
        self.send_if_many()
    }

    fn pass_second(&mut self) -> Result<()> {
        self.requests.extend_from_slice(b"advance 1 noreply\r\n");
        self.send_if_many()
    }

    /// A response other than `OK` is the error of a change.
    fn written(&mut self) -> Result<Written> {
        self.requests.extend_from_slice(b"settle\r\n");
        self.send()?;
        let mut answer = [0; 4];
        self.stream.read_exact(&mut answer)?;
        ensure!(&answer == b"OK\r\n", "the server on RocksDB: {}...", answer.escape_ascii());
        let statistics = self.daemon.statistics("stats")?;
        let flushed = statistics.of("rocksdb_flush_bytes")?;
        let bytes = flushed + statistics.of("rocksdb_compaction_bytes")?;
        Ok(Written { bytes, zeroed_bytes: 0 })
    }
}
