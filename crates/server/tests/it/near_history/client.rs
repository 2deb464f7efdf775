//! A client that sends random commands and records their answers. Some clients of near caches also
//! read copies in the memory.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::history::{Did, Event, Shown, Version};
use larder_testkit::{Address, Random};

use super::keys::{KINDS, Keys, Kind};
use super::reply::{Connection, Item, Reply, token};

/// How long a client waits for an answer. The network delays some for longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The latest moment at which a command without an answer is executed, after its beginning. It
/// exceeds all delays of the network and all stops of servers together.
const LATEST_NS: u64 = 20_000_000_000;
/// The mean time between rare things that a client does: new connections, sometimes removals by
/// prefix, seldom flushes. They do not depend on the share of writes, so that they meet copies that
/// live long.
const RARE: Duration = Duration::from_millis(500);
const REMOVAL_PATIENCE: Duration = Duration::from_secs(2);

/// The parts of a round that its clients share.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) keys: Keys,
    /// The beginning of the history.
    pub(super) clock: Instant,
    pub(super) longest: Instant,
    /// True if the round ends before [`Self::longest`].
    pub(super) is_over: AtomicBool,
    /// The number of writes in 10,000 commands. Few let copies live long, many let writes meet.
    pub(super) writes: u64,
    pub(super) origins: Vec<Address>,
    /// The turn to remove a prefix.
    pub(super) removing: Mutex<()>,
}

impl Round {
    pub(super) fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64 + 1
    }

    /// Returns when the round ends.
    pub(super) fn until(&self) -> Instant {
        if self.is_over.load(Relaxed) { self.clock } else { self.longest }
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Returns the address of an origin, and its keys.
    pub(super) fn at_origin(&self, number: usize) -> (Address, Vec<usize>) {
        let origin = number % self.origins.len();
        let owners = &self.keys.owners;
        let keys = (0..KINDS.len()).filter(|key| owners[*key] == origin).collect();
        (self.origins[origin].clone(), keys)
    }
}

#[derive(Debug)]
pub(super) struct Client<'a> {
    number: usize,
    place: usize,
    address: Address,
    /// The keys that the client uses: those of its origin, or all.
    keys: Vec<usize>,
    round: &'a Round,
    random: Random,
    connection: Option<Connection>,
    /// The socket of a near cache whose memory the client reads.
    pub(super) socket: Option<PathBuf>,
    memory: Option<larder::Client>,
    /// The last cas token of each key that an answer contained.
    tokens: Vec<u64>,
    writes: u64,
    /// When the client next does something that depends on the time: see [`RARE`].
    rare: Instant,
    pub(super) events: Vec<Event>,
    /// The number of commands without an answer, or with an error.
    pub(super) lost: u64,
    /// The errors among them.
    pub(super) errors: Vec<String>,
    /// The number of hits in the memory.
    pub(super) local: u64,
}

/// A command that was sent.
#[derive(Clone, Copy)]
struct Sent {
    key: usize,
    name: &'static str,
    begun: u64,
    answered: u64,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        number: usize,
        (place, address): (usize, Address),
        keys: Vec<usize>,
        round: &'a Round,
        seed: u64,
    ) -> Self {
        Self {
            number,
            place,
            address,
            keys,
            round,
            random: Random::with_seed(seed | 1),
            connection: None,
            socket: None,
            memory: None,
            tokens: vec![0; KINDS.len()],
            writes: 0,
            rare: round.clock,
            events: Vec::new(),
            lost: 0,
            errors: Vec::new(),
            local: 0,
        }
    }

    fn some_key(&mut self) -> usize {
        self.keys[self.random.below(self.keys.len() as u64) as usize]
    }

    /// Sends commands until the end of the round.
    ///
    /// # Errors
    /// An answer is not one of the protocol, or has a value of another key.
    pub(super) fn run(&mut self) -> Result<()> {
        while Instant::now() < self.round.until() {
            if self.is_connected() {
                self.command().with_context(|| format!("client {}", self.number))?;
            } else {
                sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    fn is_connected(&mut self) -> bool {
        if self.connection.is_none() {
            self.connection = Connection::open(&self.address, PATIENCE).ok();
        }
        self.connection.is_some()
    }

    fn command(&mut self) -> Result<()> {
        if Instant::now() >= self.rare {
            let wait = self.random.below(2 * RARE.as_millis() as u64);
            self.rare = Instant::now() + Duration::from_millis(wait);
            return match self.random.below(40) {
                0 => self.flush(),
                1..6 => self.remove_prefix(),
                // After an upgrade, the next one is to another process.
                _ => {
                    self.connection = None;
                    Ok(())
                }
            };
        }
        let key = self.some_key();
        let choice = self.random.below(100);
        if self.random.below(10_000) >= self.round.writes {
            return match choice {
                0..35 if self.socket.is_some() => self.read_memory(key),
                0..50 => self.read("gets", &[key]),
                50..60 => self.read("get", &[key]),
                60..80 => self.meta_read(key, "mg", "v c"),
                _ => self.read_several(),
            };
        }
        let is_counter = KINDS[key].is_counter();
        match choice {
            0..2 if KINDS[key].is_deleted() && !is_counter => self.set_large(key),
            2..15 if KINDS[key].is_deleted() => self.delete(key),
            15..25 => self.add(key),
            25..35 => self.cas(key),
            35..50 if is_counter => self.increment(key),
            35..50 => self.append(key),
            50..55 => self.set_without_answer(key),
            55..60 => self.touch(key),
            60..75 => self.meta_set(key),
            _ => self.set(key),
        }
    }

    /// Sends a command. Returns `None` without an answer, or with an error. The connection is
    /// closed unless the answer was complete.
    fn exchange(
        &mut self,
        key: usize,
        name: &'static str,
        request: &[u8],
    ) -> (Sent, Option<Reply>) {
        let begun = self.round.now();
        let reply = self.connection.as_mut().map(|connection| connection.ask(request));
        let answered = self.round.now();
        let reply = reply.and_then(Result::ok);
        if reply.is_none() {
            self.connection = None;
        }
        // Another client removes items by prefix, at the origin or at one of several origins.
        let is_busy = reply.as_ref().is_some_and(|reply| {
            name == "delete_prefix" && reply.line.contains("SERVER_ERROR busy")
        });
        let failed = !is_busy && reply.as_ref().is_none_or(Reply::is_error);
        self.lost += u64::from(failed);
        if let Some(reply) = reply.as_ref().filter(|_| failed) {
            self.errors.push(format!("{name}: {}", reply.line));
        }
        (Sent { key, name, begun, answered }, reply)
    }

    fn record(&mut self, sent: Sent, did: Did) {
        if let Did::Read(Some(Shown { cas: Some(cas), .. })) = did {
            self.tokens[sent.key] = cas;
        }
        let Sent { key, name, begun, answered } = sent;
        let (client, place) = (self.number, self.place);
        self.events.push(Event { client, place, key, name, begun, answered, did });
    }

    /// Records a command that the server may execute later.
    fn record_late(&mut self, sent: Sent, did: Did) {
        self.record(Sent { answered: sent.begun + LATEST_NS, ..sent }, did);
    }

    fn shown(&self, key: usize, item: &Item) -> Result<Shown> {
        Ok(Shown { version: self.round.keys.version(key, &item.value)?, cas: item.cas })
    }

    fn read_several(&mut self) -> Result<()> {
        let count = 2 + self.random.below(3) as usize;
        let first = self.random.below(self.keys.len() as u64) as usize;
        let keys = (0..count).map(|next| self.keys[(first + next * 3) % self.keys.len()]);
        let mut keys: Vec<usize> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        self.read("gets", &keys)
    }

    /// Reads an item in the memory of the near cache, or asks for it if it is not there.
    fn read_memory(&mut self, key: usize) -> Result<()> {
        if self.memory.is_none() {
            let socket = self.socket.as_ref().context("no socket")?;
            self.memory = larder::Client::connect_within(socket, PATIENCE).ok();
        }
        let Some(memory) = &self.memory else { return Ok(()) };
        let (begun, mut value) = (self.round.now(), Vec::new());
        let found = memory.get_into(&self.round.keys.names[key], &mut value);
        let sent = Sent { key, name: "memory", begun, answered: self.round.now() };
        match found {
            Ok(None) => self.record(sent, Did::Read(None)),
            Ok(Some(hit)) => {
                self.local += u64::from(hit.is_local);
                let version = self.round.keys.version(key, &value)?;
                self.record(sent, Did::Read(Some(Shown { version, cas: Some(hit.cas) })));
            }
            Err(_) => self.lost += 1,
        }
        Ok(())
    }

    fn read(&mut self, name: &'static str, keys: &[usize]) -> Result<()> {
        let names = keys.iter().map(|key| self.round.keys.names[*key].as_str());
        let request = format!("{name} {}\r\n", names.collect::<Vec<_>>().join(" "));
        self.look(name, keys, &request)
    }

    /// Reads and touches.
    fn touch(&mut self, key: usize) -> Result<()> {
        let name = self.round.keys.names[key].clone();
        match self.random.below(3) {
            0 => self.look("gats", &[key], &format!("gats 1000 {name}\r\n")),
            1 => self.meta_read(key, "mg T", "v c T1000"),
            _ => {
                let (sent, reply) =
                    self.exchange(key, "touch", format!("touch {name} 1000\r\n").as_bytes());
                match reply.as_ref().map(|reply| reply.line.as_str()) {
                    Some("NOT_FOUND") => self.record(sent, Did::Read(None)),
                    None | Some("TOUCHED") => {}
                    Some(line) => ensure!(line.starts_with("SERVER_ERROR"), "touch: {line}"),
                }
                Ok(())
            }
        }
    }

    fn look(&mut self, name: &'static str, keys: &[usize], request: &str) -> Result<()> {
        let (sent, reply) = self.exchange(keys[0], name, request.as_bytes());
        let Some(Reply { items, line }) = reply else { return Ok(()) };
        let is_complete = line == "END";
        ensure!(is_complete || line.starts_with("SERVER_ERROR"), "{request}{line}");
        for item in &items {
            let is_of = |key: &&usize| self.round.keys.names[**key] == item.key;
            let key = *keys.iter().find(is_of).with_context(|| format!("{request}{item:?}"))?;
            let shown = self.shown(key, item)?;
            self.record(Sent { key, ..sent }, Did::Read(Some(shown)));
        }
        for key in keys.iter().filter(|_| is_complete) {
            if !items.iter().any(|item| item.key == self.round.keys.names[*key]) {
                self.record(Sent { key: *key, ..sent }, Did::Read(None));
            }
        }
        Ok(())
    }

    fn meta_read(&mut self, key: usize, name: &'static str, flags: &str) -> Result<()> {
        let request = format!("mg {} {flags}\r\n", self.round.keys.names[key]);
        let (sent, reply) = self.exchange(key, name, request.as_bytes());
        let Some(reply) = reply.filter(|reply| !reply.is_error()) else { return Ok(()) };
        match (reply.line.as_str(), &reply.items[..]) {
            ("EN", []) => self.record(sent, Did::Read(None)),
            (_, [item]) => {
                let shown = self.shown(key, item)?;
                self.record(sent, Did::Read(Some(shown)));
            }
            (line, _) => bail!("{request}{line}"),
        }
        Ok(())
    }

    /// Begins a write. Returns its number.
    fn new_write(&mut self) -> u64 {
        self.writes += 1;
        self.writes * 16 + self.number as u64
    }

    fn new_value(&mut self, key: usize) -> (Version, Vec<u8>) {
        let write = self.new_write();
        (Version::of(write), self.round.keys.value(key, write, false))
    }

    /// Sends a write with a value after the line.
    fn store(
        &mut self,
        key: usize,
        name: &'static str,
        line: &str,
        version: Version,
        value: &[u8],
    ) -> Result<()> {
        let request = [line.as_bytes(), b"\r\n", value, b"\r\n"].concat();
        let (sent, reply) = self.exchange(key, name, &request);
        let Some(reply) = reply.filter(|reply| !reply.is_error()) else {
            self.record_late(sent, Did::MayHaveWritten(version));
            return Ok(());
        };
        let words: Vec<&str> = reply.line.split(' ').collect();
        match words[..] {
            ["STORED"] => self.record(sent, Did::Wrote(Shown { version, cas: None })),
            ["HD", ref flags @ ..] => {
                self.record(sent, Did::Wrote(Shown { version, cas: token(flags) }));
            }
            ["NOT_FOUND" | "NF", ..] => self.record(sent, Did::Read(None)),
            ["NOT_STORED"] if name == "append" => self.record(sent, Did::Read(None)),
            ["NOT_STORED" | "NS" | "EXISTS" | "EX", ..] => {}
            _ => bail!("{line}: {}", reply.line),
        }
        Ok(())
    }

    fn exptime(&mut self) -> u64 {
        self.random.one_of(&[0, 0, 1000])
    }

    fn text_line(&mut self, key: usize, name: &str, value: &[u8]) -> String {
        let exptime = self.exptime();
        format!("{name} {} 0 {exptime} {}", self.round.keys.names[key], value.len())
    }

    fn set(&mut self, key: usize) -> Result<()> {
        let (version, value) = self.new_value(key);
        let line = self.text_line(key, "set", &value);
        self.store(key, "set", &line, version, &value)
    }

    /// Stores a value that near caches do not keep.
    fn set_large(&mut self, key: usize) -> Result<()> {
        let write = self.new_write();
        let value = self.round.keys.value(key, write, true);
        let line = self.text_line(key, "set", &value);
        self.store(key, "set", &line, Version::of(write), &value)
    }

    fn add(&mut self, key: usize) -> Result<()> {
        let (version, value) = self.new_value(key);
        let line = self.text_line(key, "add", &value);
        self.store(key, "add", &line, version, &value)
    }

    fn cas(&mut self, key: usize) -> Result<()> {
        let (version, value) = self.new_value(key);
        let line = self.text_line(key, "cas", &value);
        let line = format!("{line} {}", self.tokens[key]);
        self.store(key, "cas", &line, version, &value)
    }

    fn meta_set(&mut self, key: usize) -> Result<()> {
        let (version, value) = self.new_value(key);
        let exptime = self.exptime();
        let line = format!("ms {} {} c T{exptime}", self.round.keys.names[key], value.len());
        self.store(key, "ms", &line, version, &value)
    }

    fn append(&mut self, key: usize) -> Result<()> {
        let write = self.new_write();
        let value = format!(",{write}").into_bytes();
        let line = self.text_line(key, "append", &value);
        self.store(key, "append", &line, Version::of(write), &value)
    }

    /// Sends a set that has no answer. The next command uses the same connection.
    fn set_without_answer(&mut self, key: usize) -> Result<()> {
        let (version, value) = self.new_value(key);
        let line = self.text_line(key, "set", &value);
        let request = [line.as_bytes(), b" noreply\r\n", &value, b"\r\n"].concat();
        let begun = self.round.now();
        let sent = self.connection.as_mut().map(|connection| connection.send(&request));
        if !matches!(sent, Some(Ok(()))) {
            self.connection = None;
        }
        let name = "set noreply";
        let sent = Sent { key, name, begun, answered: begun };
        self.record_late(sent, Did::MayHaveWritten(version));
        self.read("gets", &[key])
    }

    fn increment(&mut self, key: usize) -> Result<()> {
        let name = &self.round.keys.names[key];
        let is_meta = self.random.below(2) == 0;
        let request = if is_meta { format!("ma {name} c v") } else { format!("incr {name} 1") };
        let request = format!("{request}\r\n");
        let (sent, reply) = self.exchange(key, "increment", request.as_bytes());
        let Some(reply) = reply.filter(|reply| !reply.is_error()) else {
            self.record_late(sent, Did::MayHaveCounted);
            return Ok(());
        };
        let shown = match (reply.line.as_str(), &reply.items[..]) {
            ("NOT_FOUND" | "NF", []) => {
                self.record(sent, Did::Read(None));
                return Ok(());
            }
            (_, [item]) => self.shown(key, item)?,
            (line, _) => {
                let value = line.as_bytes().to_vec();
                self.shown(key, &Item { key: String::new(), value, cas: None })?
            }
        };
        self.record(sent, Did::Wrote(shown));
        Ok(())
    }

    fn delete(&mut self, key: usize) -> Result<()> {
        let word = self.random.one_of(&["delete", "md"]);
        let request = format!("{word} {}\r\n", self.round.keys.names[key]);
        let (sent, reply) = self.exchange(key, word, request.as_bytes());
        let reply = reply.filter(|reply| !reply.is_error());
        match reply.as_ref().map(|reply| reply.line.as_str()) {
            None => self.record_late(sent, Did::MayHaveRemoved),
            Some("DELETED" | "HD") => self.record(sent, Did::Removed),
            Some("NOT_FOUND" | "NF") => self.record(sent, Did::Read(None)),
            Some(line) => bail!("{request}{line}"),
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let (sent, reply) = self.exchange(0, "flush_all", b"flush_all\r\n");
        let is_done = match reply.filter(|reply| !reply.is_error()) {
            None => false,
            Some(reply) if reply.line == "OK" => true,
            Some(reply) => bail!("flush_all: {}", reply.line),
        };
        for key in self.keys.clone() {
            match is_done {
                true => self.record(Sent { key, ..sent }, Did::Removed),
                false => self.record_late(Sent { key, ..sent }, Did::MayHaveRemoved),
            }
        }
        Ok(())
    }

    /// Removes the keys with a prefix. The origin removes them in the background, after its answer.
    /// The removal counts as acknowledged when the origin reports its end, and as one at the
    /// origin: only its change stream tells the near cache about it.
    fn remove_prefix(&mut self) -> Result<()> {
        // The origin refuses a removal during another one.
        let Ok(_turn) = self.round.removing.try_lock() else { return Ok(()) };
        let request = format!("delete_prefix {}\r\n", self.round.keys.prefix);
        let (mut sent, reply) = self.exchange(0, "delete_prefix", request.as_bytes());
        let id = match reply.filter(|reply| !reply.is_error()) {
            None => None,
            Some(reply) => {
                let rest = reply.line.strip_prefix("OK");
                rest.with_context(|| format!("{request}{}", reply.line))?.trim().parse().ok()
            }
        };
        let is_done = id.is_some_and(|id| self.is_removed(id));
        sent.answered = self.round.now();
        let keys = self.keys.clone();
        for key in keys.into_iter().filter(|key| KINDS[*key] == Kind::Prefixed) {
            match is_done {
                true => self.record(Sent { key, ..sent }, Did::Removed),
                false => self.record_late(Sent { key, ..sent }, Did::MayHaveRemoved),
            }
            if let Some(event) = self.events.last_mut() {
                event.place = 0;
            }
        }
        Ok(())
    }

    /// Waits for the end of a removal. Returns false if the origin does not report it, or if there
    /// are several origins.
    fn is_removed(&self, id: u64) -> bool {
        let [origin] = &self.round.origins[..] else { return false };
        let deadline = Instant::now() + REMOVAL_PATIENCE;
        while Instant::now() < deadline {
            let Ok(mut stream) = larder_testkit::Stream::connect(origin) else { break };
            let asked = stream
                .set_timeout(PATIENCE)
                .and_then(|()| stream.ask(b"stats delete_prefix\r\n", b"END\r\n"));
            let Ok(rows) = asked else { break };
            let rows = String::from_utf8_lossy(&rows).into_owned();
            if !rows.contains(&format!("STAT id {id}\r\n")) {
                break;
            }
            if rows.contains("STAT state done\r\n") {
                return true;
            }
            sleep(Duration::from_millis(2));
        }
        false
    }
}
