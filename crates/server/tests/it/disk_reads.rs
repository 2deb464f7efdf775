//! Requests for items that are only on disk. Their responses must be complete and in order,
//! regardless of what they wait for.

use std::fmt::Write as _;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use larder_testkit::{ServerUnderTest, Transport};
use tempfile::TempDir;

use crate::binary;

const ITEMS: u32 = 3000;

/// Most values are longer than a page.
fn value(number: u32) -> String {
    format!("{number:04}").repeat(500 + number as usize % 1500)
}

fn start(place: &TempDir, mode: &str, io: &str) -> Result<ServerUnderTest> {
    let path = place.path().join("items").display().to_string();
    let args = ["-m", "8", "--tier-path", &path, "--tier-size", "256m", "--tier-mode", mode];
    let args: Vec<&str> = args.into_iter().chain(["--io", io, "-t", "1"]).collect();
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
    let mut stream = server.connect()?;
    for number in 0..ITEMS {
        let value = value(number);
        let request = format!("set k{number} {number} 0 {}\r\n{value}\r\n", value.len());
        ensure!(stream.ask(request.as_bytes(), b"\r\n")? == b"STORED\r\n", "k{number}");
        if number % 64 == 0 {
            stream.wait_for_disk(256 << 10)?;
        }
    }
    Ok(server)
}

/// Appends a request of each kind for an item, and the response to it.
fn ask(number: u32, requests: &mut String, answers: &mut String) -> Result<()> {
    let (value, bytes) = (value(number), value(number).len());
    let other = number + 1;
    write!(requests, "get k{number} none{number} k{other}\r\n")?;
    write!(answers, "VALUE k{number} {number} {bytes}\r\n{value}\r\n")?;
    let (next, next_bytes) = (self::value(other), self::value(other).len());
    write!(answers, "VALUE k{other} {other} {next_bytes}\r\n{next}\r\nEND\r\n")?;
    // "k" and the number in base64, because the key of the meta command differs from the token that
    // is sent.
    write!(requests, "mg {} s b\r\n", base64(format!("k{}", number + 2).as_bytes()))?;
    write!(answers, "HD s{}\r\n", self::value(number + 2).len())?;
    write!(requests, "append k{number} 0 0 2\r\n!!\r\nadd k{other} 0 0 1\r\nx\r\n")?;
    answers.push_str("STORED\r\nNOT_STORED\r\n");
    write!(requests, "touch k{other} 0\r\ndelete k{other}\r\nget k{other}\r\n")?;
    answers.push_str("TOUCHED\r\nDELETED\r\nEND\r\n");
    write!(requests, "incr k{number} 1\r\nmg k{number} s\r\n")?;
    answers.push_str("CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    write!(answers, "HD s{}\r\n", bytes + 2)?;
    Ok(())
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |part: &[u8]| {
        let bits =
            part.iter().chain([&0; 2]).take(3).fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        (0..4)
            .map(move |at| match at <= part.len() {
                true => char::from(DIGITS[bits >> (18 - 6 * at) & 63]),
                false => '=',
            })
            .collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

fn answers_keep_their_order(mode: &str, io: &str) -> Result<()> {
    let place = tempfile::Builder::new().prefix("larder-reads-").tempdir()?;
    let server = start(&place, mode, io)?;
    let mut stream = server.connect()?;
    for first in (0..ITEMS - 200).step_by(100) {
        let (mut requests, mut answers) = (String::new(), String::new());
        for number in (first..first + 30).step_by(3) {
            ask(number, &mut requests, &mut answers)?;
        }
        requests.push_str("mn\r\n");
        answers.push_str("MN\r\n");
        // The requests arrive in parts that may end anywhere.
        for part in requests.as_bytes().chunks(97 + first as usize) {
            stream.write_all(part)?;
        }
        let answer = String::from_utf8(stream.ask(b"", b"MN\r\n")?)?;
        let lines = answer.lines().zip(answers.lines());
        let differs = lines.into_iter().find(|(is, expected)| is != expected);
        ensure!(answer == answers, "k{first}: (answered, expected) {differs:?}");
    }
    Ok(())
}

#[test]
fn answers_from_the_disk_of_a_store_keep_their_order() -> Result<()> {
    for io in ["epoll", "auto"] {
        answers_keep_their_order("store", io)?;
    }
    Ok(())
}

#[test]
fn answers_from_the_disk_of_a_cache_keep_their_order() -> Result<()> {
    for io in ["epoll", "auto"] {
        answers_keep_their_order("cache", io)?;
    }
    Ok(())
}

/// Values of 100 KB, longer than a receive, for keys that are only on disk.
#[test]
fn values_that_arrive_in_parts_meet_the_item_of_the_disk() -> Result<()> {
    for io in ["epoll", "auto"] {
        let place = tempfile::Builder::new().prefix("larder-reads-").tempdir()?;
        let server = start(&place, "store", io)?;
        let mut stream = server.connect()?;
        let long = "y".repeat(100_000);
        for number in 0..10 {
            let store = format!("add k{number} 0 0 {}\r\n{long}\r\n", long.len());
            ensure!(stream.ask(store.as_bytes(), b"\r\n")? == b"NOT_STORED\r\n", "add k{number}");
            let store = format!("append k{number} 0 0 {}\r\n{long}\r\n", long.len());
            ensure!(stream.ask(store.as_bytes(), b"\r\n")? == b"STORED\r\n", "append k{number}");
            let answer = stream.ask(format!("get k{number}\r\n").as_bytes(), b"END\r\n")?;
            let expected = value(number) + &long;
            let head = format!("VALUE k{number} {number} {}\r\n", expected.len());
            ensure!(answer == format!("{head}{expected}\r\nEND\r\n").as_bytes(), "get k{number}");
        }
    }
    Ok(())
}

/// A command that waits for the disk is executed twice. If it is chosen for the sample the first
/// time, the sampling must continue.
#[test]
fn commands_are_sampled_after_reads_of_the_disk() -> Result<()> {
    let place = tempfile::Builder::new().prefix("larder-reads-").tempdir()?;
    let server = start(&place, "store", "epoll")?;
    let mut stream = server.connect()?;
    stream.ask(b"stats hotkeys\r\n", b"END\r\n")?;
    let mut sampled = Vec::new();
    for _ in 0..3 {
        for number in 0..ITEMS {
            stream.ask(format!("get k{number}\r\n").as_bytes(), b"END\r\n")?;
        }
        let statistics = String::from_utf8(stream.ask(b"stats larder\r\n", b"END\r\n")?)?;
        let row = statistics.lines().find_map(|line| line.strip_prefix("STAT hot_keys_sampled "));
        sampled.push(row.context("hot_keys_sampled")?.parse::<u64>()?);
    }
    // Each round has 3,000 reads, of which at least one in 128 is sampled.
    ensure!(sampled.windows(2).all(|pair| pair[0] < pair[1]), "{sampled:?}");
    Ok(())
}
