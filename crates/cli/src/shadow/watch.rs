//! Takes reads and stores from the log (`watch`) of a server. The log has neither values nor
//! flags, so that only hits and the sizes of items can be compared.

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use larder_loadgen::address::Address;
use larder_loadgen::connect::{connect, hint};
use memchr::memchr;
use percent_encoding::percent_decode;
use socket2::Socket;

use super::report::Report;
use super::tally::{Explained, Tally, Uncompared};
use super::{Arguments, conclude, stop_signals};
use crate::outcome::Outcome;

/// Sends the reads and stores of a log to the candidate.
pub(super) fn run(live: &Address, arguments: &Arguments) -> Result<Outcome> {
    let socket = connect(live)
        .map_err(|error| anyhow!("cannot connect to {live}: {error:#}; {}", hint(live, &error)))?;
    let stop = stop_signals()?;
    let mut log = Lines::new(socket, LOG_WAIT)?;
    log.socket.write_all(b"watch fetchers mutations\r\n")?;
    match log.next(ANSWER_WAIT)?.as_deref() {
        Some(b"OK") => {}
        Some(other) => bail!(
            "{live} refuses to log its requests: {}; it may run with -W",
            other.escape_ascii()
        ),
        None => bail!("{live} does not answer the command watch"),
    }
    eprintln!("shadow: {NOTE}");
    let until = arguments.seconds.map(|secs| Instant::now() + Duration::from_secs(secs.into()));
    let mut mirror = Mirror::new(&arguments.candidate);
    let mut shown_at = Instant::now();
    let every = Duration::from_secs(arguments.every.into());
    while !stop.load(Relaxed) && until.is_none_or(|until| Instant::now() < until) {
        while !mirror.is_full()
            && let Some(line) = log.next(Duration::ZERO)?
        {
            mirror.take(&line);
        }
        mirror.exchange();
        if !every.is_zero() && shown_at.elapsed() >= every {
            shown_at = Instant::now();
            eprintln!("shadow: {}", mirror.tally.progress());
        }
        log.receive()?;
    }
    let Mirror { tally, stores, skipped, sizes_different, .. } = mirror;
    let more = vec![
        ("note", NOTE.into()),
        ("stores", stores.into()),
        ("lines_skipped_by_live", skipped.into()),
        ("sizes_different", sizes_different.into()),
    ];
    conclude(&tally, &Report { tally: &tally, live: None, more }, arguments)
}

/// A line of the log that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Logged {
    Read { key: Vec<u8>, size: Option<u64>, descriptor: Vec<u8> },
    Stored { key: Vec<u8>, size: u64, ttl_secs: i64, descriptor: Vec<u8> },
    Skipped(u64),
}

impl Logged {
    fn of(line: &[u8]) -> Option<Self> {
        let field = |name: &[u8]| {
            let mut words = line.split(|byte| *byte == b' ');
            words.find_map(|word| word.strip_prefix(name))
        };
        let number = |name: &[u8]| std::str::from_utf8(field(name)?).ok()?.parse::<i64>().ok();
        if let Some(skipped) = number(b"skipped=") {
            return Some(Self::Skipped(skipped.try_into().ok()?));
        }
        let key: Vec<u8> = percent_decode(field(b"key=")?).collect();
        let descriptor = field(b"cfd=").unwrap_or_default().to_vec();
        let size = u64::try_from(number(b"size=")?).ok()?;
        match (field(b"type=")?, field(b"status=")?) {
            (b"item_get", status) => {
                let size = (status == b"found").then_some(size);
                Some(Self::Read { key, size, descriptor })
            }
            (b"item_store", b"stored") => {
                let ttl_secs = number(b"ttl=").unwrap_or(0);
                Some(Self::Stored { key, size, ttl_secs, descriptor })
            }
            _ => None,
        }
    }
}

/// The requests to the candidate.
#[derive(Debug)]
struct Mirror {
    address: Address,
    link: Option<Lines>,
    retry_at: Instant,
    batch: Vec<Logged>,
    tally: Tally,
    stores: u64,
    skipped: u64,
    sizes_different: u64,
}

impl Mirror {
    fn new(address: &Address) -> Self {
        Self {
            address: address.clone(),
            link: None,
            retry_at: Instant::now(),
            batch: Vec::new(),
            tally: Tally { connections: 1, ..Tally::default() },
            stores: 0,
            skipped: 0,
            sizes_different: 0,
        }
    }

    /// True if the collected requests are to be sent.
    fn is_full(&self) -> bool {
        let sizes = self.batch.iter().map(|logged| match logged {
            Logged::Stored { size, .. } => *size,
            _ => 0,
        });
        self.batch.len() >= BATCH_MAX || sizes.sum::<u64>() >= SIZE_MAX
    }

    /// Takes a line of the log.
    fn take(&mut self, line: &[u8]) {
        match Logged::of(line) {
            None => {}
            Some(Logged::Skipped(count)) => self.skipped += count,
            Some(logged) => {
                // A store logs its own look-up before it.
                let is_look_up = match (&logged, self.batch.last()) {
                    (
                        Logged::Stored { key, descriptor, .. },
                        Some(Logged::Read { key: read, descriptor: of_read, .. }),
                    ) => key == read && descriptor == of_read,
                    _ => false,
                };
                if is_look_up {
                    self.batch.pop();
                }
                self.batch.push(logged);
            }
        }
    }

    /// Sends the collected requests and compares the responses.
    fn exchange(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        // The store of the last look-up may follow.
        if batch.len() > 1 && matches!(batch.last(), Some(Logged::Read { .. })) {
            self.batch.extend(batch.pop());
        }
        batch.retain(|logged| !matches!(logged, Logged::Stored { size, .. } if *size > SIZE_MAX));
        let sent = self.send(&batch);
        for (place, logged) in batch.iter().enumerate() {
            let answer = match &sent {
                Ok(()) => self.answer(),
                Err(_) => Err(Uncompared::Unreachable),
            };
            match answer {
                Ok(answer) => self.compare(logged, &answer),
                Err(reason) => {
                    self.link = None;
                    self.retry_at = Instant::now() + RETRY_WAIT;
                    let reads = batch[place..].iter();
                    let count =
                        reads.filter(|logged| matches!(logged, Logged::Read { .. })).count() as u64;
                    self.tally.requests += count;
                    return self.tally.skip(reason, count);
                }
            }
        }
    }

    fn send(&mut self, batch: &[Logged]) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        if self.link.is_none() {
            if Instant::now() < self.retry_at {
                bail!("the candidate was not reachable a short time ago");
            }
            let connected = connect(&self.address);
            if connected.is_err() {
                self.tally.candidate_failures += 1;
            }
            self.link = Some(Lines::new(connected?, ANSWER_WAIT)?);
            self.tally.candidate_connects += 1;
        }
        let mut out = Vec::new();
        batch.iter().for_each(|logged| push(&mut out, logged));
        let link = self.link.as_mut().context("the candidate is connected")?;
        Ok(link.socket.write_all(&out)?)
    }

    fn answer(&mut self) -> Result<Vec<u8>, Uncompared> {
        let link = self.link.as_mut().ok_or(Uncompared::Unreachable)?;
        match link.next(ANSWER_WAIT) {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(Uncompared::Slow),
            Err(_) => Err(Uncompared::Closed),
        }
    }

    fn compare(&mut self, logged: &Logged, answer: &[u8]) {
        let Logged::Read { size, .. } = logged else {
            self.stores += 1;
            return;
        };
        self.tally.requests += 1;
        let candidate = answer
            .strip_prefix(b"HD s")
            .map(|size| std::str::from_utf8(size).ok().and_then(|size| size.parse::<u64>().ok()));
        let servers = [size.is_some(), candidate.is_some()];
        for (server, is_hit) in servers.into_iter().enumerate() {
            self.tally.hits[server] += u64::from(is_hit);
            self.tally.misses[server] += u64::from(!is_hit);
        }
        match (servers, candidate.flatten() == *size) {
            ([true, false], _) => self.tally.explain(Explained::HitAtLiveOnly),
            ([false, true], _) => self.tally.explain(Explained::HitAtCandidateOnly),
            ([true, true], false) => {
                self.sizes_different += 1;
                self.tally.explain(Explained::Diverged);
            }
            _ => self.tally.identical += 1,
        }
    }
}

/// Appends the request of a line: a read of the size, or a store of that many bytes.
fn push(out: &mut Vec<u8>, logged: &Logged) {
    let key_of = |key: &[u8]| {
        let is_plain = key.iter().all(u8::is_ascii_graphic);
        if is_plain { (key.to_vec(), "") } else { (encoded(key), " b") }
    };
    match logged {
        Logged::Read { key, .. } => {
            let (key, form) = key_of(key);
            out.extend_from_slice(b"mg ");
            out.extend_from_slice(&key);
            out.extend_from_slice(format!(" s{form}\r\n").as_bytes());
        }
        Logged::Stored { key, size, ttl_secs, .. } => {
            let (key, form) = key_of(key);
            out.extend_from_slice(b"ms ");
            out.extend_from_slice(&key);
            let ttl_secs = (*ttl_secs).max(0);
            out.extend_from_slice(format!(" {size} T{ttl_secs}{form}\r\n").as_bytes());
            out.resize(out.len() + *size as usize, b'x');
            out.extend_from_slice(b"\r\n");
        }
        Logged::Skipped(_) => {}
    }
}

fn encoded(key: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    larder_protocol::base64::encode(&mut text, key);
    text
}

/// A connection that is read by lines.
#[derive(Debug)]
struct Lines {
    socket: Socket,
    received: Vec<u8>,
    taken: usize,
}

impl Lines {
    /// Wraps a socket. Each read waits for up to `wait`.
    fn new(socket: Socket, wait: Duration) -> Result<Self> {
        socket.set_read_timeout(Some(wait))?;
        Ok(Self { socket, received: Vec::new(), taken: 0 })
    }

    /// Returns the next line without its end; `None` if it does not arrive in time.
    fn next(&mut self, patience: Duration) -> Result<Option<Vec<u8>>> {
        let begun = Instant::now();
        loop {
            let rest = &self.received[self.taken..];
            if let Some(newline) = memchr(b'\n', rest) {
                let line = &rest[..newline];
                let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
                self.taken += newline + 1;
                return Ok(Some(line));
            }
            if rest.len() > LINE_BYTES_MAX {
                bail!("a line of more than {LINE_BYTES_MAX} bytes: this is not a memcached");
            }
            if begun.elapsed() >= patience {
                return Ok(None);
            }
            self.receive()?;
        }
    }

    /// Receives bytes; waits for them for a limited time.
    fn receive(&mut self) -> Result<()> {
        self.received.drain(..self.taken);
        self.taken = 0;
        let mut buffer = [0; 16 << 10];
        match self.socket.read(&mut buffer) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(bytes) => self.received.extend_from_slice(&buffer[..bytes]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => bail!("the connection has failed: {error}"),
            },
        }
        Ok(())
    }
}

const NOTE: &str = "the log of a server has neither values nor flags: only hits, misses and sizes \
                    are compared, and the candidate stores values of the logged sizes";

/// The number of lines that one exchange with the candidate covers.
const BATCH_MAX: usize = 256;

/// The largest value that is stored, in bytes.
const SIZE_MAX: u64 = 8 << 20;

const LINE_BYTES_MAX: usize = 8 << 10;

const LOG_WAIT: Duration = Duration::from_millis(100);

const ANSWER_WAIT: Duration = Duration::from_secs(5);

const RETRY_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log_are_read_and_others_are_ignored() {
        let line = b"ts=1.2 gid=3 type=item_get key=a%20b status=found clsid=1 cfd=9 size=5";
        let read = Logged::of(line).unwrap();
        let expected =
            Logged::Read { key: b"a b".to_vec(), size: Some(5), descriptor: b"9".to_vec() };
        assert_eq!(read, expected);
        let mut request = Vec::new();
        push(&mut request, &read);
        assert_eq!(request, b"mg YSBi s b\r\n");
        let line =
            b"ts=1.2 gid=4 type=item_store key=k status=stored cmd=set ttl=60 clsid=1 cfd=9 size=2";
        let mut request = Vec::new();
        push(&mut request, &Logged::of(line).unwrap());
        assert_eq!(request, b"ms k 2 T60\r\nxx\r\n");
        assert_eq!(Logged::of(b"skipped=7"), Some(Logged::Skipped(7)));
        for other in
            [&b"ts=1 gid=2 type=item_store key=k status=too_large ttl=0 size=9"[..], b"", b"OK"]
        {
            assert_eq!(Logged::of(other), None);
        }
    }
}
