//! Servers that are killed under load from several connections. No acknowledged change may be lost,
//! and no value may appear that was not stored.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::Signal;
use larder_testkit::{Address, Stream};

use super::{Place, get, number, set};

const CONNECTIONS: usize = 6;
const KEYS: usize = 400;
const ROUNDS: usize = 6;

#[test]
fn a_server_that_is_killed_at_work_loses_nothing_that_it_answered() -> Result<()> {
    let place = Place::new()?;
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(Client::new).collect();
    let mut changes = 0;
    for round in 0..ROUNDS {
        let began = Instant::now();
        let (server, mut stream) = place.start(&["-m", "256"])?;
        let log = server.log();
        ensure!(log.contains(if round == 0 { "made" } else { "attached" }), "{log}");
        for client in &mut clients {
            client.check(&mut stream).with_context(|| format!("round {round}: {log}"))?;
        }
        ensure!(began.elapsed() < Duration::from_secs(20), "after {:?}", began.elapsed());
        ensure!(number(&mut stream, "evictions")? == 0, "there is room for all of it");
        let address = server.address().clone();
        let workers = clients.drain(..).map(|mut client| {
            let address = address.clone();
            thread::spawn(move || {
                client.work_until_it_ends(&address)?;
                Ok(client)
            })
        });
        let workers: Vec<_> = workers.collect();
        thread::sleep(Duration::from_millis(300 + 77 * round as u64));
        server.stop(Signal::KILL)?;
        let ended = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        clients = ended.collect::<Result<_>>()?;
        changes += clients.iter().map(|client| client.changes).sum::<u64>();
    }
    ensure!(changes > 1000 * ROUNDS as u64, "only {changes} changes");
    let (server, mut stream) = place.start(&["-m", "256"])?;
    for client in &mut clients {
        client.check(&mut stream)?;
    }
    drop(server);
    Ok(())
}

/// The state of a key that only one connection changes.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The last acknowledged version; 0 without an item.
    answered: u64,
    /// The version that the key has if the change without an acknowledgement was executed; `None`
    /// if every change was acknowledged.
    asked: Option<u64>,
}

struct Client {
    number: usize,
    keys: Vec<Known>,
    /// The number of increments.
    count: Known,
    /// The number of appended words.
    words: Known,
    version: u64,
    changes: u64,
    random: u64,
}

impl Client {
    fn new(number: usize) -> Self {
        let random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64 + 1);
        let (count, words) = (Known::default(), Known::default());
        Self {
            number,
            keys: vec![Known::default(); KEYS],
            count,
            words,
            version: 0,
            changes: 0,
            random,
        }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % below as u64) as usize
    }

    fn key(&self, place: usize) -> String {
        format!("key_{}_{place}", self.number)
    }

    /// Changes its own keys, and some shared ones, until the server is gone.
    fn work_until_it_ends(&mut self, address: &Address) -> Result<()> {
        self.changes = 0;
        let mut stream = Stream::connect(address)?;
        while self.change(&mut stream)? {
            self.changes += 1;
        }
        Ok(())
    }

    /// Returns false if the server is gone.
    fn change(&mut self, stream: &mut Stream) -> Result<bool> {
        let place = self.draw(KEYS);
        match self.draw(16) {
            0 => {
                let known = self.keys[place].answered;
                self.keys[place].asked = Some(0);
                let request = format!("delete {}\r\n", self.key(place));
                let end = if known == 0 { "NOT_FOUND\r\n" } else { "DELETED\r\n" };
                let done = answered(stream, request.as_bytes(), end)?;
                self.keys[place] = settled(self.keys[place], done);
                Ok(done)
            }
            1 => {
                self.count.asked = Some(self.count.answered + 1);
                let request = format!("ma count_{} N0 J1 v\r\n", self.number);
                let done = answered(
                    stream,
                    request.as_bytes(),
                    &format!("{}\r\n", self.count.answered + 1),
                )?;
                self.count = settled(self.count, done);
                Ok(done)
            }
            2 => {
                let next = self.words.answered + 1;
                self.words.asked = Some(next);
                let word = format!("{next:08}");
                let request = format!("ms words_{} 8 MA N0\r\n{word}\r\n", self.number);
                let done = answered(stream, request.as_bytes(), "HD\r\n")?;
                self.words = settled(self.words, done);
                Ok(done)
            }
            3 => {
                self.version += 1;
                let key = format!("shared_{}", self.draw(4));
                let request = store(&key, &value(&key, self.version));
                answered(stream, &request, "STORED\r\n")
            }
            4 | 5 => {
                let request = format!("get {}\r\n", self.key(place));
                answered(stream, request.as_bytes(), "END\r\n")
            }
            _ => {
                self.version += 1;
                let key = self.key(place);
                self.keys[place].asked = Some(self.version);
                let request = store(&key, &value(&key, self.version));
                let done = answered(stream, &request, "STORED\r\n")?;
                self.keys[place] = settled(self.keys[place], done);
                Ok(done)
            }
        }
    }

    /// Compares the cache with the known state, and determines which unacknowledged changes were
    /// executed.
    fn check(&mut self, stream: &mut Stream) -> Result<()> {
        for place in 0..KEYS {
            let key = self.key(place);
            let found = version_of(&key, get(stream, &key)?)?;
            self.keys[place] = learn(&key, self.keys[place], found)?;
        }
        let key = format!("count_{}", self.number);
        let found = get(stream, &key)?;
        let count = found.map(|text| anyhow::Ok(String::from_utf8(text)?.trim().parse::<u64>()?));
        self.count = learn(&key, self.count, count.transpose()?.unwrap_or(0))?;
        let key = format!("words_{}", self.number);
        let words = get(stream, &key)?.unwrap_or_default();
        let count = words.len() as u64 / 8;
        let expected: String = (1..=count).map(|word| format!("{word:08}")).collect();
        ensure!(words == expected.as_bytes(), "{key} is wrong");
        self.words = learn(&key, self.words, count)?;
        if count > 5000 {
            stream.ask(format!("delete {key}\r\n").as_bytes(), b"DELETED\r\n")?;
            self.words = Known::default();
        }
        for shared in 0..4 {
            let key = format!("shared_{shared}");
            version_of(&key, get(stream, &key)?)?;
        }
        // The key's group may have been left locked.
        set(stream, &format!("own_{}", self.number), 0, b"1")
    }
}

fn settled(known: Known, done: bool) -> Known {
    match (done, known.asked) {
        (true, Some(asked)) => Known { answered: asked, asked: None },
        _ => known,
    }
}

fn learn(key: &str, known: Known, found: u64) -> Result<Known> {
    ensure!(
        found == known.answered || Some(found) == known.asked,
        "{key} has version {found}; {} was answered, {:?} asked for",
        known.answered,
        known.asked
    );
    Ok(Known { answered: found, asked: None })
}

/// Returns true if the request received the expected response, false if the server is gone.
fn answered(stream: &mut Stream, request: &[u8], end: &str) -> Result<bool> {
    let Err(error) = stream.ask(request, end.as_bytes()) else { return Ok(true) };
    let words = error.to_string();
    if let Some((_, got)) = words.split_once(", got ") {
        // The server exited in the middle of a response; the part so far must be correct.
        let got = got.trim_matches('"');
        ensure!(end == "END\r\n" || end.escape_debug().to_string().starts_with(got), "{words}");
        return Ok(false);
    }
    let has_gone = matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
    ensure!(has_gone, "{words}");
    Ok(false)
}

fn store(key: &str, value: &[u8]) -> Vec<u8> {
    [format!("set {key} 0 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

/// Returns a value that contains its key, usually some hundred bytes, sometimes in pieces.
pub(crate) fn value(key: &str, version: u64) -> Vec<u8> {
    let mut random = version;
    for byte in key.bytes() {
        random = (random ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mixed = random ^ random >> 29;
    let bytes = if mixed.is_multiple_of(37) { 40_000 } else { mixed as usize % 600 };
    let mut value = format!("{version} {key} ").into_bytes();
    for _ in 0..bytes / 8 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        value.extend_from_slice(&random.to_le_bytes());
    }
    value
}

/// Returns the version in a value; 0 without an item.
///
/// # Errors
/// Fails if the value was not stored for this key.
pub(crate) fn version_of(key: &str, found: Option<Vec<u8>>) -> Result<u64> {
    let Some(found) = found else { return Ok(0) };
    let digits = found.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let version =
        str::from_utf8(&found[..digits])?.parse().with_context(|| format!("{key}: no version"))?;
    ensure!(found == value(key, version), "{key}: not its value of version {version}");
    Ok(version)
}
