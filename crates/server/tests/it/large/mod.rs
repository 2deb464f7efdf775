//! A client with its own keys that stores and reads large values in all dialects, and checks that
//! they are the expected ones.

mod dialect;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::LazyLock;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use dialect::{Answer, Dialect};

use crate::dice::Dice;
use crate::peers::{Death, Peer, Site};

/// Noise: random bytes, from which all values are cut. A value is therefore known by its position
/// and length.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut dice = Dice::new(1);
    (0..NOISE_STARTS + VALUE_BYTES_MAX).map(|_| dice.below(256) as u8).collect()
});

const NOISE_STARTS: usize = 100_000;
const VALUE_BYTES_MAX: usize = 1_000_000;

/// Returns a value of this length, a different one for each of the first hundred thousand numbers.
pub(crate) fn value(number: usize, bytes: usize) -> &'static [u8] {
    &NOISE[number % NOISE_STARTS..][..bytes]
}

/// Number of keys of each client.
pub(crate) const KEYS: usize = 12;

/// Maximum length of a client's values in bytes.
const LENGTH_MAX: usize = 900_000;

/// Lengths around limits: the longest contiguous value, pieces, segments, buffers.
const EDGES: [usize; 8] = [
    16 << 10,
    (32 << 10) - 16,
    32 << 10,
    (64 << 10) - 32,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
];

/// A value as a sequence of parts of the noise: start and length of each. Appends and prepends add
/// parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Text(Vec<(usize, usize)>);

impl Text {
    fn bytes(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }

    fn is(&self, mut shown: &[u8]) -> bool {
        self.bytes() == shown.len()
            && self.0.iter().all(|(start, bytes)| {
                let (part, rest) = shown.split_at(*bytes);
                shown = rest;
                part == value(*start, *bytes)
            })
    }
}

/// The mode of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Set,
    Append,
    Prepend,
}

/// A request.
#[derive(Clone, Debug)]
enum Request {
    Store { key: String, mode: Mode, part: (usize, usize), is_quiet: bool },
    Fetch { key: String },
}

pub(crate) struct Guest {
    number: u64,
    dice: Dice,
    /// The possible values of each key; a miss is always possible.
    known: HashMap<String, Vec<Text>>,
    hits: u64,
}

impl Guest {
    pub(crate) fn new(number: u64, dice: Dice) -> Self {
        Self { number, dice, known: HashMap::new(), hits: 0 }
    }

    /// Connects repeatedly; returns how many values were found.
    pub(crate) fn stay(mut self, site: &Site, until: Instant) -> Result<u64> {
        while Instant::now() < until {
            let mut peer = site.connect()?;
            let dialect = match &peer {
                Peer::Plain(_) => {
                    self.dice.one_of(&[Dialect::Text, Dialect::Meta, Dialect::Binary])
                }
                // A TLS peer has already sent a command in the text protocol during its handshake.
                Peer::Tls(_) => self.dice.one_of(&[Dialect::Text, Dialect::Meta]),
            };
            for _ in 0..self.dice.below(20) {
                if Instant::now() < until {
                    let requests = self.requests(&peer);
                    self.converse(&mut peer, dialect, &requests).with_context(|| {
                        format!("guest {}, {dialect:?}: {requests:?}", self.number)
                    })?;
                }
            }
            self.leave(peer, dialect)?;
        }
        Ok(self.hits)
    }

    /// Disconnects, possibly in the middle of a value or of a response.
    fn leave(&mut self, mut peer: Peer, dialect: Dialect) -> Result<()> {
        let request = match self.dice.below(3) {
            0 => return Ok(()),
            1 => self.store(),
            _ => self.fetch(),
        };
        let mut sent = Vec::new();
        dialect.write(&mut sent, &request, &mut self.dice);
        let bytes = match request {
            Request::Store { .. } => self.dice.below(sent.len()),
            Request::Fetch { .. } => sent.len(),
        };
        peer.send(&sent[..bytes])?;
        let death = self.dice.one_of(&[Death::Reset, Death::Close]);
        peer.die(death)?;
        Ok(())
    }

    fn key(&mut self) -> String {
        format!("g{}k{}", self.number, self.dice.below(KEYS))
    }

    fn length(&mut self) -> usize {
        match self.dice.below(8) {
            0..=3 => self.dice.one_of(&EDGES) - 3 + self.dice.below(8),
            4 => self.dice.below(200),
            5 | 6 => self.dice.below(100_000),
            _ => self.dice.below(LENGTH_MAX),
        }
    }

    fn store(&mut self) -> Request {
        let key = self.key();
        let longest = self.known.get(&key).into_iter().flatten().map(Text::bytes).max();
        let (mut mode, mut bytes) = (Mode::Set, self.length());
        if self.dice.below(3) == 0 && longest.unwrap_or(0) + bytes <= LENGTH_MAX {
            mode = self.dice.one_of(&[Mode::Append, Mode::Prepend]);
            bytes = bytes.max(1);
        }
        let part = (self.dice.below(NOISE_STARTS), bytes);
        let is_quiet = self.dice.below(4) == 0;
        Request::Store { key, mode, part, is_quiet }
    }

    fn fetch(&mut self) -> Request {
        Request::Fetch { key: self.key() }
    }

    /// Returns some requests. A client that cannot read while it sends does not mix stores and
    /// fetches.
    fn requests(&mut self, peer: &Peer) -> Vec<Request> {
        let can_mix = matches!(peer, Peer::Plain(_));
        let (count, kind) = (1 + self.dice.below(10), self.dice.below(3));
        let mut requests = Vec::new();
        for _ in 0..count {
            let stores = match kind {
                0 if can_mix => self.dice.below(2) == 0,
                0 | 1 => true,
                _ => false,
            };
            // Later requests depend on the result.
            let request = if stores { self.store() } else { self.fetch() };
            if let Request::Store { key, mode, .. } = &request
                && *mode != Mode::Set
                && requests
                    .iter()
                    .any(|earlier| matches!(earlier, Request::Store { key: at, .. } if at == key))
            {
                continue;
            }
            requests.push(request);
        }
        requests
    }

    fn converse(&mut self, peer: &mut Peer, dialect: Dialect, requests: &[Request]) -> Result<()> {
        let mut sent = Vec::new();
        for request in requests {
            dialect.write(&mut sent, request, &mut self.dice);
        }
        dialect.write_end(&mut sent);
        let cuts = self.cuts(sent.len());
        match peer {
            Peer::Plain(stream) => {
                let mut writer = stream.try_clone()?;
                thread::scope(|scope| {
                    let writing = scope.spawn(move || {
                        send_in_parts(&sent, &cuts, |part| Ok(writer.write_all(part)?))
                    });
                    let heard = self.listen(peer, dialect, requests);
                    let written = writing.join().expect("it does not panic");
                    heard.and(written)
                })
            }
            Peer::Tls(_) => {
                send_in_parts(&sent, &cuts, |part| peer.send(part))?;
                self.listen(peer, dialect, requests)
            }
        }
    }

    /// Returns the positions at which the input is divided.
    fn cuts(&mut self, bytes: usize) -> Vec<usize> {
        let count = self.dice.one_of(&[0, 0, 1, 3, 8]);
        let mut cuts: Vec<usize> = (0..count)
            .map(|_| match self.dice.below(4) {
                0 => bytes - 1 - self.dice.below(bytes.min(80)),
                1 => self.dice.below(bytes.min(80)),
                _ => self.dice.below(bytes),
            })
            .collect();
        cuts.push(bytes);
        cuts.sort_unstable();
        cuts
    }

    fn listen(&mut self, peer: &mut Peer, dialect: Dialect, requests: &[Request]) -> Result<()> {
        let at_once_max = self.dice.one_of(&[1 << 16, 1 << 16, 1 << 20, 5000]);
        let mut ear = Ear { peer, heard: Vec::new(), used: 0, at_once_max };
        for request in requests {
            match request {
                Request::Store { is_quiet: true, .. } => self.note_stored(request),
                Request::Store { .. } => match dialect.answer(&mut ear, request)? {
                    Answer::Stored => self.note_stored(request),
                    Answer::NotStored => self.note_refused(request)?,
                    answer => bail!("{request:?} is answered by {answer:?}"),
                },
                Request::Fetch { key } => match dialect.answer(&mut ear, request)? {
                    Answer::Value(shown) => {
                        let known = self.known.entry(key.clone()).or_default();
                        known.retain(|text| text.is(&shown));
                        ensure!(!known.is_empty(), "{} wrong bytes under {key}", shown.len());
                        self.hits += 1;
                    }
                    Answer::Miss => {
                        self.known.remove(key);
                    }
                    answer => bail!("{request:?} is answered by {answer:?}"),
                },
            }
        }
        dialect.end(&mut ear)?;
        ensure!(ear.used == ear.heard.len(), "more is said than was asked");
        Ok(())
    }

    fn note_stored(&mut self, request: &Request) {
        let Request::Store { key, mode, part, is_quiet } = request else { return };
        let known = self.known.entry(key.clone()).or_default();
        let mut longer = known.clone();
        match mode {
            Mode::Set => longer = vec![Text(vec![*part])],
            Mode::Append => longer.iter_mut().for_each(|text| text.0.push(*part)),
            Mode::Prepend => longer.iter_mut().for_each(|text| text.0.insert(0, *part)),
        }
        // A failed set removes the old item.
        if *is_quiet && *mode != Mode::Set {
            longer.append(known);
        }
        *known = longer;
    }

    fn note_refused(&mut self, request: &Request) -> Result<()> {
        let Request::Store { key, mode, .. } = request else { return Ok(()) };
        ensure!(*mode != Mode::Set, "a set was not stored");
        self.known.remove(key);
        Ok(())
    }
}

fn send_in_parts(
    bytes: &[u8],
    cuts: &[usize],
    mut send: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut start = 0;
    for end in cuts {
        send(&bytes[start..*end])?;
        start = *end;
        sleep(Duration::from_micros(50));
    }
    Ok(())
}

/// Reads responses in order, a part at a time.
struct Ear<'a> {
    peer: &'a mut Peer,
    heard: Vec<u8>,
    used: usize,
    at_once_max: usize,
}

impl Ear<'_> {
    fn hear(&mut self) -> Result<()> {
        let before = self.heard.len();
        self.heard.resize(before + self.at_once_max, 0);
        let bytes = self.peer.read(&mut self.heard[before..])?;
        self.heard.truncate(before + bytes);
        if self.at_once_max < 10_000 {
            sleep(Duration::from_micros(100));
        }
        ensure!(bytes > 0, "the server has closed the connection");
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<Vec<u8>> {
        while self.heard.len() < self.used + bytes {
            self.hear()?;
        }
        self.used += bytes;
        Ok(self.heard[self.used - bytes..self.used].to_vec())
    }

    /// Reads a line without its end.
    fn line(&mut self) -> Result<String> {
        loop {
            let rest = &self.heard[self.used..];
            if let Some(end) = rest.windows(2).position(|end| end == b"\r\n") {
                let line = rest[..end].escape_ascii().to_string();
                self.used += end + 2;
                return Ok(line);
            }
            ensure!(rest.len() < 1000, "no line: {}", rest[..1000].escape_ascii());
            self.hear()?;
        }
    }
}
