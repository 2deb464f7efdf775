//! The load that one thread makes.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use larder_protocol::Store;
use larder_protocol::text::client::{Reply, request};

use crate::bench::tally::Tally;
use crate::bench::{Arguments, Mode};
use crate::connection::{Connection, unexpected};
use crate::mix::mix;
use crate::value::write_value;

/// Some connections, and what is under way on them.
pub(super) struct Load<'a> {
    arguments: &'a Arguments,
    connections: Vec<Pipeline>,
    random: Random,
    /// The requests sent last, and the value in them or expected; kept for their memory.
    requests: Vec<u8>,
    value: Vec<u8>,
    tally: Tally,
}

/// A connection and the requests on it that are not answered.
struct Pipeline {
    connection: Connection,
    sent_at: Instant,
    asked: Vec<Asked>,
}

/// A request, by the number of its key.
#[derive(Clone, Copy)]
enum Asked {
    Get(u32),
    Set,
}

impl<'a> Load<'a> {
    /// Opens the connections with these numbers, which also decide which keys are drawn.
    pub(super) fn new(arguments: &'a Arguments, numbers: Range<u32>) -> Result<Self> {
        let random = Random(mix(u64::from(numbers.start)));
        let open = |_| {
            let connection = Connection::open(&arguments.server.server)?;
            Ok(Pipeline { connection, sent_at: Instant::now(), asked: Vec::new() })
        };
        Ok(Self {
            arguments,
            connections: numbers.map(open).collect::<Result<_>>()?,
            random,
            requests: Vec::new(),
            value: Vec::new(),
            tally: Tally::default(),
        })
    }

    /// Stores every key once, over the first connection.
    pub(super) fn store_all_keys(mut self) -> Result<()> {
        let step = self.arguments.pipeline.max(16);
        for first in (0..self.arguments.keys).step_by(step as usize) {
            self.requests.clear();
            for number in first..self.arguments.keys.min(first.saturating_add(step)) {
                self.push_set(0, number)?;
            }
            self.send(0)?;
            self.read_answers(0)?;
        }
        Ok(())
    }

    /// Sends requests on all connections and reads the answers, again and again, for this long.
    pub(super) fn run(mut self, duration: Duration) -> Result<Tally> {
        let started = Instant::now();
        while started.elapsed() < duration {
            for connection in 0..self.connections.len() {
                self.ask(connection)?;
            }
            for connection in 0..self.connections.len() {
                self.read_answers(connection)?;
            }
        }
        self.tally.elapsed = started.elapsed();
        Ok(self.tally)
    }

    fn ask(&mut self, connection: usize) -> Result<()> {
        self.requests.clear();
        for _ in 0..self.arguments.pipeline {
            let number = self.random.below(self.arguments.keys);
            let is_get = match self.arguments.mode {
                Mode::Get => true,
                Mode::Set => false,
                Mode::Mix => self.random.share() < self.arguments.get_share,
            };
            if is_get {
                request::get(&mut self.requests, &[&key(number)], false, None)?;
                self.connections[connection].asked.push(Asked::Get(number));
            } else {
                self.push_set(connection, number)?;
            }
        }
        self.send(connection)
    }

    fn push_set(&mut self, connection: usize, number: u32) -> Result<()> {
        let value_bytes = self.arguments.value_bytes as usize;
        write_value(u64::from(number), value_bytes, &mut self.value);
        let key = key(number);
        let head = Store { key: &key, value_bytes, ..Store::PLAIN };
        request::store(&mut self.requests, &head, &self.value, false)?;
        self.connections[connection].asked.push(Asked::Set);
        Ok(())
    }

    fn send(&mut self, connection: usize) -> Result<()> {
        let pipeline = &mut self.connections[connection];
        pipeline.sent_at = Instant::now();
        pipeline.connection.send(&self.requests)
    }

    fn read_answers(&mut self, connection: usize) -> Result<()> {
        let Pipeline { connection, sent_at, asked } = &mut self.connections[connection];
        for asked in asked.drain(..) {
            let is_hit = match (asked, connection.reply()?) {
                (Asked::Set, Reply::Stored) | (Asked::Get(_), Reply::End) => false,
                (Asked::Get(number), Reply::Value(hit)) => {
                    ensure!(hit.key == key(number), "the server answered with another key's item");
                    let value_bytes = self.arguments.value_bytes as usize;
                    write_value(u64::from(number), value_bytes, &mut self.value);
                    self.tally.wrong_values += u64::from(hit.value != self.value);
                    true
                }
                (_, other) => return Err(unexpected(other)),
            };
            if is_hit {
                let end = connection.reply()?;
                ensure!(end == Reply::End, unexpected(end));
            }
            self.tally.gets += u64::from(matches!(asked, Asked::Get(_)));
            self.tally.hits += u64::from(is_hit);
            self.tally.count(sent_at.elapsed());
        }
        Ok(())
    }
}

/// The key with this number, 20 bytes.
fn key(number: u32) -> [u8; 20] {
    let mut key = *b"bench:00000000000000";
    let mut rest = number;
    for digit in key.iter_mut().rev().take(10) {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Numbers that look random: each is mixed from a count.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    fn below(&mut self, end: u32) -> u32 {
        (((self.next() >> 32) * u64::from(end)) >> 32) as u32
    }

    /// From 0 to below 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_twenty_bytes_and_their_number() {
        assert_eq!(&key(0), b"bench:00000000000000");
        assert_eq!(&key(u32::MAX), b"bench:00004294967295");
    }

    #[test]
    fn all_keys_are_drawn_and_none_beyond_them() {
        let mut random = Random(0);
        let mut drawn = [0; 10];
        for _ in 0..10_000 {
            drawn[random.below(10) as usize] += 1;
            assert!((0.0..1.0).contains(&random.share()));
        }
        assert!(drawn.iter().all(|times| (900..1100).contains(times)), "{drawn:?}");
    }
}
