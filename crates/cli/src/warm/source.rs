//! A server from which items are copied.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use larder_loadgen::connect::dialer::Dialer;
use larder_protocol::StatsSection;
use larder_protocol::follow::{Fetched, Message, Terms, push_alive, push_fetch};

use super::copied::CopiedKeys;
use super::plan::Plan;
use super::progress::Shared;
use super::target::{Requests, Target, Use};
use crate::connection::Connection;
use crate::stats;
use crate::transfer::fetch::now_unix_secs;
use crate::transfer::keys::KeyList;
use crate::transfer::progress::Pace;
use crate::transfer::wire::may_be_refused;

/// The connections to a source, and the keys that were copied from it.
#[derive(Debug)]
pub(super) struct Source<'a> {
    dialer: Dialer,
    /// The number of the server in the list before the change.
    number: usize,
    plan: &'a Plan,
    shared: &'a Shared,
    target: &'a Mutex<Target>,
    fetches: Connection,
    stream: Connection,
    terms: Terms,
    alive: u64,
    copied: CopiedKeys,
    /// Keys whose items have changed since they were fetched.
    again: VecDeque<Vec<u8>>,
    /// The changes that were read last. The requests of the current batch may have been sent
    /// earlier.
    changes: Changes,
    use_of_target: Use,
    requests: Requests,
}

/// The changes that the source reported between two lines `alive`.
#[derive(Debug, Default)]
struct Changes {
    buckets: HashSet<u32>,
    everything: bool,
}

impl Changes {
    fn have(&self, bucket: u32) -> bool {
        self.everything || self.buckets.contains(&bucket)
    }
}

/// Keys whose items are requested.
#[derive(Debug)]
struct Batch {
    keys: Vec<Vec<u8>>,
    /// The number of the line `alive` that was sent with the requests.
    alive: u64,
}

impl<'a> Source<'a> {
    /// Connects and begins the change stream.
    ///
    /// # Errors
    /// The server cannot be reached, or does not report its changes. The message names the remedy.
    pub(super) fn open(
        dialer: Dialer,
        number: usize,
        plan: &'a Plan,
        shared: &'a Shared,
        target: &'a Mutex<Target>,
    ) -> Result<Self> {
        let use_of_target = target.lock().unwrap_or_else(PoisonError::into_inner).use_of_target;
        let address = dialer.address().clone();
        let mut stream = Connection::open(&dialer)?;
        stream.send(format!("larder_follow {MAX_STALE_MS}\r\n").as_bytes())?;
        let line = stream.line()?;
        let Some(terms) = Terms::read(line) else {
            let remedy = match line {
                b"ERROR" => {
                    "; start it with --followers 1 or more; memcached cannot report changes"
                }
                _ => "",
            };
            bail!("{address} does not report its changes: {}{remedy}", line.escape_ascii());
        };
        let mut fetches = Connection::open(&dialer)?;
        fetches.send(format!("larder_follower {:032x}\r\n", terms.token).as_bytes())?;
        match fetches.line()? {
            b"OK" => {}
            line => bail!("{address} does not know its change stream: {}", line.escape_ascii()),
        }
        Ok(Self {
            dialer,
            number,
            plan,
            shared,
            target,
            fetches,
            stream,
            terms,
            alive: 0,
            copied: CopiedKeys::new(terms.buckets_log2),
            again: VecDeque::new(),
            changes: Changes::default(),
            use_of_target,
            requests: Requests::new(use_of_target),
        })
    }

    pub(super) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Copies the items that will belong to the target. With `used_since`, only those that were
    /// stored or read since that Unix time, and are not copied yet. Returns the time of the source
    /// at the beginning: all items that this call does not copy are stored later.
    ///
    /// # Errors
    /// A server cannot be reached, stops responding, or responds with something else.
    pub(super) fn copy(&mut self, used_since: Option<u64>, mut pace: Pace) -> Result<u64> {
        let began = self.time()?;
        let mut keys = KeyList::begin(&self.dialer)?;
        let (mut key, mut has_keys) = (Vec::new(), true);
        let (mut listed, mut sent) = (0, None);
        let most = if pace.is_limited() { PACED_BATCH_MAX } else { BATCH_MAX };
        let batch_max = pace.batch_max(most);
        while has_keys {
            let (mut batch, mut batch_bytes) = (Vec::new(), 0);
            while batch.len() < batch_max && batch_bytes < BATCH_BYTES_MAX {
                has_keys = keys.next(&mut key)?;
                if !has_keys {
                    break;
                }
                listed += 1;
                let is_wanted = used_since.is_none_or(|since| {
                    // The source updates the time of a read once a minute.
                    keys.last_used() + CLOCK_SECS >= since && !self.is_copied(&key)
                });
                if is_wanted && self.plan.moves(self.number, &key) {
                    batch_bytes += key.len() + REQUEST_BYTES;
                    batch.push(std::mem::take(&mut key));
                }
            }
            self.shared.check()?;
            if used_since.is_none() {
                self.shared.listed(std::mem::take(&mut listed));
            }
            pace.wait(batch.len());
            // The source executes these requests while the target stores the items before.
            let next = self.request(batch)?;
            if let Some(sent) = sent.replace(next) {
                self.copy_batch(sent)?;
            }
        }
        sent.map_or(Ok(()), |sent| self.copy_batch(sent))?;
        self.shared.unreadable(keys.unreadable());
        Ok(began)
    }

    /// Returns the Unix time of the source.
    fn time(&self) -> Result<u64> {
        let mut connection = Connection::open(&self.dialer)?;
        let lines = stats::ask(&mut connection, StatsSection::General)?;
        let time = lines.iter().find(|line| line.name == "time");
        let time = time.and_then(|line| line.value.parse().ok());
        time.ok_or_else(|| anyhow!("{} does not report its time", self.dialer.address()))
    }

    fn is_copied(&self, key: &[u8]) -> bool {
        self.copied.contains(self.terms.bucket_of(key), key)
    }

    /// Handles the changes since the last call, and copies changed items again.
    ///
    /// # Errors
    /// Same as [`Self::copy`].
    pub(super) fn follow(&mut self) -> Result<()> {
        let many = self.again.len().min(BATCH_MAX);
        let keys = self.again.drain(..many).collect();
        let batch = self.request(keys)?;
        self.copy_batch(batch)
    }

    /// Copies changed items again until none is left, or they change all the time.
    ///
    /// # Errors
    /// Same as [`Self::copy`].
    pub(super) fn settle(&mut self) -> Result<()> {
        for _ in 0..SETTLE_MAX {
            self.follow()?;
            if self.again.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Handles all changes that the source has made so far.
    ///
    /// # Errors
    /// Same as [`Self::copy`].
    pub(super) fn catch_up(&mut self) -> Result<()> {
        // Rule: HeardBeforeEnd
        let batch = self.request(Vec::new())?;
        self.copy_batch(batch)
    }

    /// Reads the items of a batch and stores them in the target.
    fn copy_batch(&mut self, batch: Batch) -> Result<()> {
        let changes = self.read_changes(batch.alive)?;
        self.drop_changed(&changes)?;
        let before = std::mem::replace(&mut self.changes, changes);
        let now_unix_secs = now_unix_secs();
        for key in batch.keys {
            let address = self.fetches.address().clone();
            let fetched = Fetched::read(self.fetches.line()?);
            let Some(fetched) = fetched else { bail!(self.fetches.foreign()) };
            let mut value = Vec::new();
            if let Fetched::Value { value_bytes, .. } = fetched {
                if value_bytes > VALUE_BYTES_MAX {
                    bail!(
                        "{address} sends a value of {value_bytes} bytes, which was not requested"
                    );
                }
                self.fetches.value(value_bytes as u32, |part| {
                    value.extend_from_slice(part);
                    Ok(())
                })?;
            }
            let bucket = self.terms.bucket_of(&key);
            // Rule: SkipOverlapped
            if before.have(bucket) || self.changes.have(bucket) {
                self.again.push_back(key);
                continue;
            }
            self.store(&key, bucket, &fetched, &value, now_unix_secs)?;
        }
        self.send()
    }

    /// Appends the store of a fetched item, if it can be copied.
    fn store(
        &mut self,
        key: &[u8],
        bucket: u32,
        fetched: &Fetched,
        value: &[u8],
        now_unix_secs: u64,
    ) -> Result<()> {
        let Fetched::Value { flags, is_noted, .. } = *fetched else {
            if matches!(fetched, Fetched::Uncopied) {
                self.shared.left_out(1);
            }
            return self.drop_from_standby(key);
        };
        if !is_noted || may_be_refused(key) {
            self.shared.left_out(1);
            return self.drop_from_standby(key);
        }
        let Some(exptime) = exptime_of(fetched, now_unix_secs) else {
            return self.drop_from_standby(key);
        };
        self.requests.store(key, value, flags, exptime);
        if !self.copied.contains(bucket, key) {
            let inserted = self.copied.insert(bucket, key);
            inserted.map_err(|_| anyhow!("there are more keys than the tool can remember"))?;
            self.shared.copied(key.len() + value.len());
        }
        if self.requests.are_many() {
            self.send()?;
        }
        Ok(())
    }

    /// Removes from a standby what the source no longer has. From another target it is already
    /// removed.
    fn drop_from_standby(&mut self, key: &[u8]) -> Result<()> {
        if self.use_of_target == Use::Standby {
            self.requests.drop(key);
        }
        match self.requests.are_many() {
            true => self.send(),
            false => Ok(()),
        }
    }

    /// Removes from a standby the items that the source does not have.
    ///
    /// # Errors
    /// Same as [`Self::copy`].
    pub(super) fn remove_others(&mut self, standby: &Dialer) -> Result<()> {
        let (mut keys, mut key) = (KeyList::begin(standby)?, Vec::new());
        let waiting: HashSet<Vec<u8>> = self.again.iter().cloned().collect();
        while keys.next(&mut key)? {
            if !self.is_copied(&key) && !waiting.contains(&key) {
                self.drop_from_standby(&key)?;
            }
        }
        self.send()
    }

    /// Requests items, and the changes before.
    fn request(&mut self, keys: Vec<Vec<u8>>) -> Result<Batch> {
        let mut out = Vec::new();
        keys.iter().for_each(|key| push_fetch(&mut out, key, VALUE_BYTES_MAX));
        self.fetches.send(&out)?;
        self.alive += 1;
        let mut line = Vec::new();
        push_alive(&mut line, self.alive);
        self.stream.send(&line)?;
        Ok(Batch { keys, alive: self.alive })
    }

    /// Reads the changes that the source had made when it received a line `alive`.
    fn read_changes(&mut self, alive: u64) -> Result<Changes> {
        let mut changes = Changes::default();
        loop {
            let address = self.stream.address().clone();
            let line = self.stream.line().with_context(|| format!("following {address}"))?;
            match Message::read(line) {
                Some(Message::Changed(bucket)) => _ = changes.buckets.insert(bucket),
                Some(Message::Flushed) => changes.everything = true,
                Some(Message::Heard(number)) if number == alive => return Ok(changes),
                Some(Message::Heard(_)) | None => {
                    bail!("{address} has ended its change stream: {}", line.escape_ascii());
                }
            }
        }
    }

    /// Removes copied items whose originals have changed from the target.
    fn drop_changed(&mut self, changes: &Changes) -> Result<()> {
        let mut dropped = Vec::new();
        // Rule: DropBucket
        match changes.everything {
            true => self.copied.take_all(|key| dropped.push(key.to_vec())),
            false => changes.buckets.iter().for_each(|bucket| {
                self.copied.take(*bucket, |key| dropped.push(key.to_vec()));
            }),
        }
        self.shared.dropped(dropped.len());
        for key in dropped {
            // A standby keeps the old item until it has the new one.
            if self.use_of_target == Use::Member {
                self.requests.drop(&key);
            }
            self.again.push_back(key);
            if self.requests.are_many() {
                self.send()?;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        if self.requests.is_empty() {
            return Ok(());
        }
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        target.execute(&mut self.requests)
    }
}

/// Returns the exptime of a copied item; `None` if it expires too soon to be copied. A copy never
/// lives longer than its original.
fn exptime_of(fetched: &Fetched, now_unix_secs: u64) -> Option<i64> {
    let Fetched::Value { ttl_ms, .. } = fetched else { return None };
    let Some(ttl_ms) = ttl_ms else { return Some(0) };
    let secs = i64::try_from(ttl_ms / 1000).unwrap_or(i64::MAX);
    match secs {
        0 => None,
        1..=RELATIVE_SECS_MAX => Some(secs),
        // A longer relative time would be read as a Unix time.
        _ => Some(secs.saturating_add(i64::try_from(now_unix_secs).unwrap_or(0))),
    }
}

/// The staleness that the change stream announces. The source ends a stream on which nothing
/// arrives for five times as long.
const MAX_STALE_MS: u32 = 2_000;

/// Longer values are not copied.
const VALUE_BYTES_MAX: usize = 64 << 20;

/// The requests of a batch are smaller than the buffers of a socket, so that source and tool never
/// wait for each other.
const BATCH_MAX: usize = 512;

/// With a limited rate, clients of the source wait for fewer requests of the copy.
const PACED_BATCH_MAX: usize = 64;
const BATCH_BYTES_MAX: usize = 16 << 10;
const REQUEST_BYTES: usize = 24;

/// The most batches of changed items that the end of a standby copies.
const SETTLE_MAX: usize = 10_000;

/// The clocks of the tool's requests and of the source's items may differ by this much.
const CLOCK_SECS: u64 = 2;

/// The longest relative exptime of the protocol: 30 days.
const RELATIVE_SECS_MAX: i64 = 60 * 60 * 24 * 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_does_not_outlive_its_original() {
        let of = |ttl_ms| {
            let (value_bytes, flags, cas) = (0, 0, 0);
            let fetched = Fetched::Value { value_bytes, flags, cas, ttl_ms, is_noted: true };
            exptime_of(&fetched, 1_000_000_000)
        };
        assert_eq!(of(None), Some(0));
        assert_eq!(of(Some(999)), None);
        assert_eq!(of(Some(1_999)), Some(1));
        assert_eq!(of(Some(2_592_000_000)), Some(2_592_000));
        assert_eq!(of(Some(2_592_001_000)), Some(1_002_592_001));
        assert_eq!(of(Some(u64::MAX)), Some((u64::MAX / 1000) as i64 + 1_000_000_000));
    }
}
