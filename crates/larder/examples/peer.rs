//! One of several programs, in several languages, that use one shared cache at the same time and
//! check each other's writes. `go/shared/conformance` documents their roles and runs them.
//!
//! `cargo run --release -p larder --example peer -- FILE ROUNDS SELF PEER...`

use std::error::Error;
use std::time::{Duration, Instant};
use std::{env, thread};

use larder::Cache;

const KEYS: u64 = 50;
const SHARED_KEYS: u64 = 7;
const WAIT: Duration = Duration::from_secs(20);

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

struct Peer {
    cache: Cache,
    own: String,
    all: Vec<String>,
    rounds: u64,
}

impl Peer {
    /// Stores "writer key round filling checksum".
    fn store(&self, key: &str, round: u64) -> Outcome {
        let filling = "r".repeat(usize::try_from(round * 37 % 900)?);
        let text = format!("{} {key} {round} {filling}", self.own);
        let sum = fnv1a(text.as_bytes());
        Ok(self.cache.set(key, format!("{text} {sum:016x}"), None)?)
    }

    /// Returns the writer and the round of a key's value, after checking that the value is
    /// complete.
    fn read(&self, key: &str) -> Outcome<Option<(String, u64)>> {
        let Some(value) = self.cache.get(key) else { return Ok(None) };
        let value = String::from_utf8(value)?;
        let (text, sum) = value.rsplit_once(' ').ok_or("a value without a checksum")?;
        if u64::from_str_radix(sum, 16)? != fnv1a(text.as_bytes()) {
            return Err(format!("the value of {key} is torn: {value}").into());
        }
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            [writer, of, round, _] if of == key => Ok(Some((writer.to_owned(), round.parse()?))),
            _ => Err(format!("the value of {key} belongs to another key: {value}").into()),
        }
    }

    /// Waits until all programs have reached this point.
    fn meet(&self, name: &str) -> Outcome {
        self.store(&format!("{name}:{}", self.own), 0)?;
        let started = Instant::now();
        for peer in &self.all {
            while !self.cache.contains(format!("{name}:{peer}")) {
                if started.elapsed() > WAIT {
                    return Err(format!("{peer} is not {name}").into());
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    fn play(&self) -> Outcome {
        for round in 0..self.rounds {
            self.store(&format!("{}:{}", self.own, round % KEYS), round)?;
            let shared = format!("shared:{}", round % SHARED_KEYS);
            self.store(&shared, round)?;
            if self.cache.increment("count", 1)?.is_none() {
                self.cache.add("count", "0", None)?;
                self.cache.increment("count", 1)?.ok_or("the counter is missing")?;
            }
            self.read(&shared)?;
            let other = &self.all[usize::try_from(round)? % self.all.len()];
            let key = format!("{other}:{}", round * 7 % KEYS);
            if let Some((writer, _)) = self.read(&key)?
                && writer != *other
            {
                return Err(format!("{writer} has written {key}").into());
            }
        }
        Ok(())
    }

    fn check_all(&self) -> Outcome {
        for peer in &self.all {
            for number in 0..KEYS {
                let found = self.read(&format!("{peer}:{number}"))?;
                let last = (peer.clone(), self.rounds - KEYS + number);
                if found.as_ref() != Some(&last) {
                    return Err(format!("the final value is {found:?}, expected {last:?}").into());
                }
            }
        }
        let count = self.cache.get("count").unwrap_or_default();
        let expected = self.rounds * u64::try_from(self.all.len())?;
        if count != expected.to_string().into_bytes() {
            let count = String::from_utf8_lossy(&count);
            return Err(format!("{count} were counted, not {expected}").into());
        }
        Ok(())
    }
}

fn main() -> Outcome {
    let mut arguments = env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: peer FILE ROUNDS SELF PEER...");
    let cache = Cache::builder().shared(next()?).open()?;
    let (rounds, own) = (next()?.parse()?, next()?);
    let peer = Peer { cache, own, all: arguments.collect(), rounds };
    peer.meet("ready")?;
    peer.play()?;
    peer.meet("done")?;
    peer.check_all()
}
