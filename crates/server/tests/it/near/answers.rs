//! A near cache answers each command like its origin.

use anyhow::{Context, Result, ensure};
use larder_testkit::{ServerUnderTest, Transport};

use super::Chain;
use crate::binary;
use crate::followers::commands::run;

/// Requests of the text and meta protocols, each with the end of its response. They run in this
/// order, each of them twice.
const REQUESTS: &[(&str, &str)] = &[
    ("get a\r\n", "END\r\n"),
    ("set a 7 0 3\r\nabc\r\n", "\r\n"),
    ("get a\r\n", "END\r\n"),
    ("gets a b a\r\n", "END\r\n"),
    ("add a 0 0 1\r\nx\r\n", "\r\n"),
    ("add b 0 0 1\r\nx\r\n", "\r\n"),
    ("replace b 1 0 2\r\nyz\r\n", "\r\n"),
    ("append b 0 0 1\r\n!\r\n", "\r\n"),
    ("prepend b 0 0 1\r\n?\r\n", "\r\n"),
    ("gets a b nothing\r\n", "END\r\n"),
    ("cas a 0 0 1 99999\r\nx\r\n", "\r\n"),
    ("set n 0 0 1\r\n5\r\n", "\r\n"),
    ("incr n 3\r\n", "\r\n"),
    ("decr n 1\r\n", "\r\n"),
    ("incr a 1\r\n", "\r\n"),
    ("incr nothing 1\r\n", "\r\n"),
    ("get n\r\n", "END\r\n"),
    ("touch a 100\r\n", "\r\n"),
    ("touch nothing 100\r\n", "\r\n"),
    ("gat 100 a b nothing\r\n", "END\r\n"),
    ("gats 0 a\r\n", "END\r\n"),
    ("mg a\r\n", "\r\n"),
    ("mg a v f c k s t Oabc\r\n", "c\r\n"),
    ("ms timed 1 T90\r\nx\r\n", "\r\n"),
    ("mg timed t v\r\n", "x\r\n"),
    ("mg nothing v\r\n", "\r\n"),
    ("mg a q k v\r\nmn\r\n", "MN\r\n"),
    ("mg nothing q v\r\nmn\r\n", "MN\r\n"),
    ("mg YQ== b k v\r\n", "c\r\n"),
    ("mg a h l t v\r\n", "c\r\n"),
    ("mg fresh N60 v t\r\n", "\r\n\r\n"),
    ("mg fresh v t\r\n", "\r\n\r\n"),
    ("ms fresh 2 c\r\nok\r\n", "\r\n"),
    ("mg fresh v t c\r\n", "ok\r\n"),
    ("ms m 3 T0 F9 Oxy\r\nabc\r\n", "\r\n"),
    ("ms m 3 MA q\r\ndef\r\nmn\r\n", "MN\r\n"),
    ("ms m 3 C1\r\nxxx\r\n", "\r\n"),
    ("mg m v f\r\n", "f\r\n"),
    ("md m I T30\r\n", "\r\n"),
    ("mg m v t s\r\n", "f\r\n"),
    ("mg m v t s\r\n", "f\r\n"),
    ("md m q\r\nmd m q\r\nmn\r\n", "MN\r\n"),
    ("ma n\r\n", "\r\n"),
    ("ma n v q D5\r\nmn\r\n", "MN\r\n"),
    ("md created q\r\nma created N0 J13 v\r\n", "\r\n13\r\n"),
    ("me a\r\n", "\r\n"),
    ("mn\r\n", "MN\r\n"),
    ("set quiet 0 0 1 noreply\r\nx\r\nget quiet\r\n", "END\r\n"),
    ("delete quiet noreply\r\nget quiet\r\n", "END\r\n"),
    ("set bad 0 0 1\r\nxyz\r\nmn\r\n", "MN\r\n"),
    ("set a 0 0 -1\r\nmn\r\n", "MN\r\n"),
    ("get\r\n", "\r\n"),
    ("nonsense\r\n", "\r\n"),
    ("delete a\r\n", "\r\n"),
    ("delete a\r\n", "\r\n"),
    ("get a\r\n", "END\r\n"),
    ("delete_prefix f\r\n", "\r\n"),
    ("flush_all\r\n", "\r\n"),
    ("flush_all noreply\r\nget b n\r\n", "END\r\n"),
    ("version\r\n", "\r\n"),
];

/// Times differ by a second if the servers execute a command in different seconds. The origin does
/// not see the reads that copies answer, so that the marks of reads differ, too.
fn without_times(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let word = |word: &str| match word.strip_prefix(['t', 'l', 'h']) {
        Some(rest) if !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()) => {
            word[..1].to_owned()
        }
        _ => match word.split_once('=') {
            Some((name @ ("exp" | "la" | "fetch"), _)) => name.to_owned(),
            _ => word.to_owned(),
        },
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.split("\r\n").map(line).collect::<Vec<_>>().join("\r\n")
}

#[test]
fn a_near_cache_answers_like_its_origin() -> Result<()> {
    let chain = Chain::start(&[])?;
    let plain = ServerUnderTest::start(&binary(), Transport::Tcp, &["-t", "1"])?;
    let (mut near, mut alone) = (chain.near.connect()?, plain.connect()?);
    for (request, end) in REQUESTS {
        for round in 1..=2 {
            let expected = alone.ask(request.as_bytes(), end.as_bytes())?;
            let answer = near
                .ask(request.as_bytes(), end.as_bytes())
                .with_context(|| format!("{request:?} in round {round}"))?;
            let (answer, expected) = (without_times(&answer), without_times(&expected));
            ensure!(
                answer == expected,
                "{request:?} in round {round}: the near cache answers {answer:?}, a server {expected:?}"
            );
        }
    }
    Ok(())
}

/// A client that has sent all its requests may close its side.
#[test]
fn a_client_that_sends_no_more_receives_its_answers() -> Result<()> {
    for io in ["uring", "epoll"] {
        let Ok(chain) = Chain::start(&[&format!("--io={io}")]) else { continue };
        for (request, expected) in [
            ("set k 0 0 1\r\nv\r\nincr n 1\r\n", "STORED\r\nNOT_FOUND\r\n"),
            ("get k\r\ntouch k 0\r\n", "VALUE k 0 1\r\nv\r\nEND\r\nTOUCHED\r\n"),
            ("gat 0 k\r\nversion\r\n", "VALUE k 0 1\r\nv\r\nEND\r\nVERSION 1.6.45\r\n"),
        ] {
            let answer = run(&chain.near, request.as_bytes())?;
            ensure!(answer == expected.as_bytes(), "{io}, {request:?}: {}", answer.escape_ascii());
        }
    }
    Ok(())
}

/// The opcode, extras, key and value of a binary request.
type Packet = (u8, &'static [u8], &'static [u8], &'static [u8]);

/// Requests of the binary protocol.
const BINARY: &[Packet] = &[
    (0x00, b"", b"k", b""),
    (0x01, &[0, 0, 0, 7, 0, 0, 0, 0], b"k", b"value"),
    (0x00, b"", b"k", b""),
    (0x0c, b"", b"k", b""),
    (0x09, b"", b"k", b""),
    (0x09, b"", b"nothing", b""),
    (0x0d, b"", b"k", b""),
    (0x02, &[0; 8], b"k", b"x"),
    (0x03, &[0; 8], b"k", b"new"),
    (0x11, &[0; 8], b"k", b"quiet"),
    (0x12, &[0; 8], b"k", b"refused"),
    (0x0e, b"", b"k", b"!"),
    (0x0f, b"", b"k", b"?"),
    (0x00, b"", b"k with spaces\r\n", b""),
    (0x01, &[0; 8], b"k with spaces\r\n", b"value"),
    (0x00, b"", b"k with spaces\r\n", b""),
    (0x05, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0], b"n", b""),
    (0x05, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0], b"n", b""),
    (0x1c, &[0, 0, 0, 0], b"k", b""),
    (0x1d, &[0, 0, 0, 0], b"k", b""),
    (0x04, b"", b"k", b""),
    (0x14, b"", b"k", b""),
    (0x0b, b"", b"", b""),
    (0x08, b"", b"", b""),
    (0x00, b"", b"n", b""),
];

#[test]
fn a_near_cache_answers_binary_requests_like_its_origin() -> Result<()> {
    let chain = Chain::start(&[])?;
    let plain = ServerUnderTest::start(&binary(), Transport::Tcp, &["-t", "1"])?;
    let (mut near, mut alone) = (chain.near.connect()?, plain.connect()?);
    for (number, (opcode, extras, key, value)) in BINARY.iter().enumerate() {
        for _ in 0..2 {
            let packet = |opcode: u8, extras: &[u8], key: &[u8], value: &[u8], opaque: u32| {
                let body = (extras.len() + key.len() + value.len()) as u32;
                let mut packet =
                    vec![0x80, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
                packet.extend_from_slice(&body.to_be_bytes());
                packet.extend_from_slice(&opaque.to_be_bytes());
                packet.extend_from_slice(&[0; 8]);
                [&packet, extras, key, value].concat()
            };
            let mut request = packet(*opcode, extras, key, value, number as u32);
            let end = [0x81, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd, 0xab, 0xcd];
            request.extend_from_slice(&packet(0x0a, b"", b"", b"", 0xabcd_abcd));
            let end = [&end[..], &[0; 8]].concat();
            let expected = alone.ask(&request, &end)?;
            let answer =
                near.ask(&request, &end).with_context(|| format!("opcode {opcode:#04x}"))?;
            ensure!(
                answer == expected,
                "opcode {opcode:#04x} of {:?}: the near cache answers {}, a server {}",
                key.escape_ascii().to_string(),
                answer.escape_ascii(),
                expected.escape_ascii()
            );
        }
    }
    Ok(())
}
