//! Random conversations in the binary protocol have the same results on larderd and on Debian's
//! memcached.
//!
//! The conversations contain no requests whose responses differ:
//!
//! - An unknown opcode with a key or extras. memcached consumes these twice, and continues in the
//!   middle of the next request.
//! - A value for an opcode that has no value, with `touch`, `gat` and `stat`. memcached reads it as
//!   the next request.
//! - Arithmetic on a text and appends to a number. memcached writes a number in place only if no
//!   unsent response refers to it, so its length depends on the network.
//! - Requests that end the connection, because earlier responses may be lost.

use anyhow::{Result, bail};
use larder_protocol::binary::client::{ParsedReply, Reply, read_reply};
use larder_protocol::binary::opcode::*;
use larder_protocol::binary::{Header, REQUEST_MAGIC};

use crate::dice::Dice;
use crate::pair::{Dialect, Pair};

const CONVERSATIONS: u64 = 60;
const COMMANDS: usize = 300;

/// Draws the requests of a conversation.
struct Requests<'a>(&'a mut Dice);

impl Requests<'_> {
    /// Returns a key of a text or, less often, of a number.
    fn key(&mut self) -> (Vec<u8>, bool) {
        match self.0.below(10) {
            0..=3 => (format!("text{}", self.0.below(5)).into_bytes(), false),
            4..=7 => (format!("number{}", self.0.below(3)).into_bytes(), true),
            8 => (vec![b'k'; 250], false),
            _ => (b" \r\n\0\x80".to_vec(), false),
        }
    }

    fn exptime(&mut self) -> [u8; 4] {
        let exptimes = [0, 0, 0, 100, 2_592_000, 2_592_001, 1_000_000_000, 2_147_483_647, u32::MAX];
        self.0.one_of(&exptimes).to_be_bytes()
    }

    /// Returns a cas token. It is usually 0, and never the token of an item.
    fn cas(&mut self) -> u64 {
        self.0.one_of(&[0, 0, 0, 0, 0, 0, 0, 1_000_000_000_000])
    }

    fn store(&mut self) -> Vec<u8> {
        let (key, is_number) = self.key();
        let extending = [APPEND, PREPEND, APPENDQ, PREPENDQ];
        let storing = [SET, SET, SETQ, SETQ, ADD, ADDQ, REPLACE, REPLACEQ];
        let extends = !is_number && self.0.below(4) == 0;
        let opcode = if extends { self.0.one_of(&extending) } else { self.0.one_of(&storing) };
        let value = if is_number {
            let numbers = ["0", "9", "10", "18446744073709551615", "18446744073709551616"];
            self.0.one_of(&numbers).as_bytes().to_vec()
        } else {
            vec![b'v'; self.0.one_of(&[0, 1, 10, 300, 3000, 30_000])]
        };
        let flags: u32 = self.0.one_of(&[0, 1, u32::MAX]);
        let extras =
            if extends { Vec::new() } else { [flags.to_be_bytes(), self.exptime()].concat() };
        self.packet(opcode, &extras, &key, &value)
    }

    fn command(&mut self) -> Vec<u8> {
        let (key, is_number) = self.key();
        match self.0.below(20) {
            0..=5 => self.store(),
            6..=9 => {
                let opcode = self.0.one_of(&[GET, GETQ, GETK, GETKQ]);
                self.packet(opcode, &[], &key, b"")
            }
            10 | 11 => {
                let (opcode, exptime) =
                    (self.0.one_of(&[TOUCH, GAT, GATQ, GATK, GATKQ]), self.exptime());
                self.packet(opcode, &exptime, &key, b"")
            }
            12 | 13 => {
                let opcode = self.0.one_of(&[DELETE, DELETEQ]);
                self.packet(opcode, &[], &key, b"")
            }
            14..=16 if is_number => {
                let opcode = self.0.one_of(&[INCREMENT, DECREMENT, INCREMENTQ, DECREMENTQ]);
                let delta: u64 = self.0.one_of(&[0, 1, 5, 99, u64::MAX]);
                let initial: u64 = self.0.one_of(&[0, 7, u64::MAX]);
                let extras =
                    [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &self.exptime()].concat();
                self.packet(opcode, &extras, &key, b"")
            }
            17 if self.0.below(10) == 0 => {
                let opcode = self.0.one_of(&[FLUSH, FLUSHQ]);
                self.packet(opcode, &[], b"", b"")
            }
            _ => self.other(),
        }
    }

    /// Returns a request that does not concern an item.
    fn other(&mut self) -> Vec<u8> {
        match self.0.below(6) {
            0 | 1 => self.packet(NOOP, &[], b"", b""),
            2 => {
                let name = self.0.one_of(&["maps", "res", "sizes", "items2", "setting"]);
                self.packet(STAT, &[], name.as_bytes(), b"")
            }
            3 => self.packet(SASL_LIST, &[], b"", b""),
            _ => {
                let (opcode, bytes) =
                    (self.0.one_of(&[0x1b, 0x1f, 0x30, 0xff]), self.0.below(5000));
                self.packet(opcode, &[], b"", &vec![0x80; bytes])
            }
        }
    }

    fn packet(&mut self, opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let header = Header {
            opcode,
            key_bytes: key.len() as u16,
            extras_bytes: extras.len() as u8,
            body_bytes: (extras.len() + key.len() + value.len()) as u32,
            opaque: self.0.below(1 << 30) as u32,
            cas: self.cas(),
            ..Header::default()
        };
        [&header.bytes(REQUEST_MAGIC), extras, key, value].concat()
    }
}

/// Returns the responses without the parts that may differ: cas tokens, and the spaces after a
/// number with the length that includes them.
fn comparable(answer: &[u8]) -> Result<Vec<String>> {
    let (mut rest, mut replies) = (answer, Vec::new());
    while !rest.is_empty() {
        let ParsedReply::Reply { reply, consumed } = read_reply(rest) else {
            bail!("half an answer: {}", rest.escape_ascii());
        };
        let Reply { opcode, status, opaque, cas, extras, key, value } = reply;
        // The eight bytes of a counter are not a text.
        let value = if extras.is_empty() { value } else { value.trim_ascii_end() };
        replies.push(format!(
            "{opcode:#x} {status:#x} {opaque} {} {} {} {}",
            if cas == 0 { "no token" } else { "token" },
            extras.escape_ascii(),
            key.escape_ascii(),
            value.escape_ascii()
        ));
        rest = &rest[consumed..];
    }
    Ok(replies)
}

const FLUSH_AND_QUIT: [[u8; 24]; 2] = {
    let mut packets = [[0; 24]; 2];
    packets[0][0] = 0x80;
    packets[0][1] = FLUSH;
    packets[1][0] = 0x80;
    packets[1][1] = QUIT;
    packets
};

#[test]
fn random_conversations_have_the_same_results_as_with_memcached() -> Result<()> {
    let binary =
        Dialect { begin: (&FLUSH_AND_QUIT[0], &[0; 16]), end: &FLUSH_AND_QUIT[1], comparable };
    Pair::start(binary)?.compare(CONVERSATIONS, |dice| {
        let mut requests = Requests(dice);
        (0..COMMANDS).map(|_| requests.command()).collect()
    })
}
