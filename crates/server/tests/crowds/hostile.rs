//! Hostile clients: they do not read, do not send, disconnect at the worst moment or come in
//! thousands. A *bystander* is a well-behaved client that checks how fast it is served in the
//! meantime. Memory must stay bounded, other clients must be served, and descriptors must be freed.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Result, ensure};
use larder_protocol::binary::{Header, REQUEST_MAGIC};
use larder_testkit::Stream;
use larder_testkit::scene::Scene;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::SockRef;

use crate::binary;

const MIB: u64 = 1 << 20;
const A_WHILE: Duration = Duration::from_secs(1);

fn set(stream: &mut Stream, key: &str, value: &[u8]) -> Result<()> {
    let head = format!("set {key} 0 0 {}\r\n", value.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(value)?;
    stream.ask(b"\r\n", b"STORED\r\n")?;
    Ok(())
}

/// Closes a connection with a reset.
fn reset(stream: Stream) -> Result<()> {
    let Stream::Tcp(stream) = stream else { unreachable!("scenes are on TCP") };
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    Ok(())
}

fn raise_descriptor_limit() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

#[test]
fn a_reader_that_does_not_read_100_megabytes_costs_a_bounded_part_of_them() -> Result<()> {
    let scene = Scene::start(&binary(), &[])?;
    let value = vec![b'v'; 1_000_000];
    let mut reader = scene.connect()?;
    set(&mut reader, "large", &value)?;
    reader.write_all(b"get")?;
    reader.write_all(&b" large".repeat(100))?;
    reader.write_all(b"\r\n")?;
    sleep(A_WHILE);
    scene.has_grown_at_most(16 * MIB)?;

    // A client that finally reads receives everything.
    let answer = reader.ask(b"", b"END\r\n")?;
    let item = [b"VALUE large 0 1000000\r\n", &value[..], b"\r\n"].concat();
    assert_eq!(answer.len(), 100 * item.len() + b"END\r\n".len());
    assert!(answer.chunks(item.len()).take(100).all(|found| found == item));
    drop(reader);
    scene.end()
}

#[test]
fn memory_for_readers_that_never_read_is_bounded() -> Result<()> {
    let scene = Scene::start(&binary(), &[])?;
    set(&mut scene.connect()?, "large", &vec![b'v'; 1_000_000])?;
    let mut readers = Vec::new();
    for _ in 0..100 {
        let mut reader = scene.connect()?;
        reader.write_all(&[&b"get"[..], &b" large".repeat(20), b"\r\n"].concat())?;
        readers.push(reader);
    }
    sleep(A_WHILE);
    // The buffer budget of all connections, and the value.
    scene.has_grown_at_most(80 * MIB)?;
    drop(readers);
    scene.end()
}

#[test]
fn a_value_that_is_sent_slowly_is_the_one_that_was_asked_for() -> Result<()> {
    let scene = Scene::start(&binary(), &["-m", "64"])?;
    let mut writer = scene.connect()?;
    let value = |fill: u8| vec![fill; 900_000];
    set(&mut writer, "large", &value(b'a'))?;
    let mut readers = Vec::new();
    for _ in 0..20 {
        let mut reader = scene.connect()?;
        reader.write_all(b"get large large large\r\nversion\r\n")?;
        readers.push(reader);
    }
    sleep(A_WHILE);
    // A response that has begun is sent to its end, even if the item is replaced and all memory is
    // overwritten.
    set(&mut writer, "large", &value(b'b'))?;
    for number in 0..80 {
        set(&mut writer, &format!("other{number}"), &value(b'c'))?;
    }
    for mut reader in readers {
        let answer = reader.ask(b"", b"VERSION 1.6.45\r\n")?;
        let item = |fill: u8| [b"VALUE large 0 900000\r\n", &value(fill)[..], b"\r\n"].concat();
        assert!(answer.starts_with(&item(b'a')));
        let later = answer.split_at(item(b'a').len()).1.chunks(item(b'a').len());
        assert!(later.take(2).all(|found| {
            found == item(b'a') || found == item(b'b') || found.starts_with(b"END\r\n")
        }));
    }
    drop(writer);
    scene.end()
}

#[test]
fn a_client_that_reads_no_responses_stops_being_read() -> Result<()> {
    const REQUESTS: usize = 1_000_000;
    let scene = Scene::start(&binary(), &[])?;
    let mut reader = scene.connect()?;
    set(&mut reader, "k", &[b'v'; 100])?;
    let mut writer = reader.try_clone()?;
    let writing = thread::spawn(move || {
        writer.set_timeout(Duration::from_secs(60))?;
        for _ in 0..REQUESTS / 1000 {
            writer.write_all(&b"get k\r\n".repeat(1000))?;
        }
        writer.write_all(b"quit\r\n")
    });
    sleep(A_WHILE);
    scene.has_grown_at_most(16 * MIB)?;
    assert!(
        !writing.is_finished(),
        "the server accepts requests although their responses do not fit"
    );

    let item = [b"VALUE k 0 100\r\n", &[b'v'; 100][..], b"\r\nEND\r\n"].concat();
    let (mut answer_bytes, mut piece) = (0, vec![0; 1 << 20]);
    loop {
        let count = reader.read(&mut piece)?;
        if count == 0 {
            break;
        }
        answer_bytes += count;
    }
    assert_eq!(answer_bytes, REQUESTS * item.len());
    writing.join().expect("the writer does not panic")?;
    drop(reader);
    scene.end()
}

#[test]
fn slow_writers_are_served_when_they_finish() -> Result<()> {
    let scene = Scene::start(&binary(), &["-t", "1"])?;
    let mut writers = Vec::new();
    for _ in 0..50 {
        writers.push(scene.connect()?);
    }
    for byte in b"set dripped 0 0 12\r\nhello, world\r\nget dripped\r\n" {
        for writer in &mut writers {
            writer.write_all(&[*byte])?;
        }
        sleep(Duration::from_millis(20));
    }
    for writer in &mut writers {
        let answer = writer.ask(b"", b"END\r\n")?;
        assert_eq!(answer, b"STORED\r\nVALUE dripped 0 12\r\nhello, world\r\nEND\r\n");
    }
    drop(writers);
    scene.end()
}

#[test]
fn a_silent_client_is_waited_for_before_its_first_byte_and_within_a_value() -> Result<()> {
    let scene = Scene::start(&binary(), &[])?;
    let (mut silent, mut halting) = (scene.connect()?, scene.connect()?);
    halting.write_all(b"set k 0 0 5\r\nva")?;
    sleep(Duration::from_secs(5));
    silent.ask(b"version\r\n", b"\r\n")?;
    halting.ask(b"lue\r\n", b"STORED\r\n")?;
    drop((silent, halting));
    scene.end()
}

#[test]
fn values_that_end_half_way_are_not_stored_and_leave_nothing_behind() -> Result<()> {
    // With -M nothing is evicted, so leaked memory would be missing at the end.
    let scene = Scene::start(&binary(), &["-M", "-m", "64"])?;
    let half = [&b"set half 0 0 1000000\r\n"[..], &vec![b'v'; 700_000]].concat();
    for round in 0..100 {
        let mut writer = scene.connect()?;
        writer.write_all(&half)?;
        if round % 2 == 0 {
            reset(writer)?;
        } else {
            writer.shutdown(Shutdown::Write)?;
            let mut rest = Vec::new();
            writer.read_to_end(&mut rest)?;
            assert!(rest.is_empty(), "{}", rest.escape_ascii());
        }
    }
    let mut stream = scene.connect()?;
    assert_eq!(stream.ask(b"get half\r\n", b"END\r\n")?, b"END\r\n");
    for index in 0..40 {
        set(&mut stream, &format!("whole{index}"), &vec![b'w'; 1_000_000])?;
    }
    drop(stream);
    scene.end()
}

#[test]
fn a_value_that_is_announced_and_does_not_come_takes_no_memory() -> Result<()> {
    let scene = Scene::start(&binary(), &["-m", "4096", "-I", "1g"])?;
    let mut writers = Vec::new();
    for index in 0..50 {
        let mut writer = scene.connect()?;
        // Every other value exceeds the limit and would be skipped.
        let bytes = if index % 2 == 0 { 2_147_483_645 } else { 1_000_000_000 };
        writer.write_all(format!("set k{index} 0 0 {bytes}\r\nbegin").as_bytes())?;
        writers.push(writer);
    }
    sleep(A_WHILE);
    scene.has_grown_at_most(16 * MIB)?;
    drop(writers);
    scene.end()
}

/// CVE-2011-4971, CVE-2016-8704 to -8706, CVE-2017-9951 and CVE-2020-10931 of memcached.
#[test]
fn contradictory_binary_lengths_take_no_memory_and_harm_no_client() -> Result<()> {
    let scene = Scene::start(&binary(), &["-vv"])?;
    let mut writers = Vec::new();
    for opcode in 0..=0x40 {
        for (extras, key, body) in [
            (8, 1, u32::MAX),
            (0, 1, u32::MAX),
            (8, 1, 0xffff_ffe8),
            (0, 250, 0x8000_0000),
            (0, 0xffff, 0xffff),
            (8, 0xffff, 10),
            (0xff, 1, 0x100),
            (0, 10, 2),
        ] {
            let header = Header {
                opcode,
                extras_bytes: extras,
                key_bytes: key,
                body_bytes: body,
                ..Header::default()
            };
            let mut writer = scene.connect()?;
            writer.write_all(&[&header.bytes(REQUEST_MAGIC)[..], &[0x80; 300]].concat())?;
            writers.push(writer);
        }
    }
    sleep(A_WHILE);
    scene.has_grown_at_most(8 * MIB)?;
    drop(writers);
    scene.end()
}

#[test]
fn a_line_of_keys_without_an_end_is_answered_as_it_comes_and_never_kept() -> Result<()> {
    let scene = Scene::start(&binary(), &[])?;
    let mut writer = scene.connect()?;
    writer.write_all(b"get")?;
    for _ in 0..100 {
        writer.write_all(&b" nothing".repeat(100_000))?;
    }
    scene.has_grown_at_most(16 * MIB)?;
    assert_eq!(writer.ask(b"\r\n", b"END\r\n")?, b"END\r\n");
    drop(writer);
    scene.end()
}

#[test]
fn a_line_of_nothing_without_an_end_has_a_lower_limit() -> Result<()> {
    let scene = Scene::start(&binary(), &[])?;
    for byte in [b' ', b'x', 0, 0x80, b'\r'] {
        let mut writer = scene.connect()?;
        let refused = (0..10_000).any(|_| writer.write_all(&[byte; 10_000]).is_err());
        assert!(refused, "the server has taken 100 MB of {byte:#x}");
    }
    scene.has_grown_at_most(8 * MIB)?;
    scene.end()
}

#[test]
fn two_thousand_idle_connections_cost_next_to_nothing() -> Result<()> {
    raise_descriptor_limit()?;
    let scene = Scene::start(&binary(), &["-c", "4096"])?;
    let mut idle = Vec::new();
    for _ in 0..2000 {
        let mut stream = scene.connect()?;
        // Each client sends one command. The buffers that served it must also be freed afterwards.
        stream.ask(b"get nothing\r\n", b"END\r\n")?;
        idle.push(stream);
    }
    // That is one kilobyte for each client.
    scene.has_grown_at_most(2 * MIB)?;
    drop(idle);
    scene.end()
}

/// More connections than a ring has receive buffers. The ring must not forget those that had to
/// wait for a buffer.
#[test]
fn megabytes_that_wait_at_the_same_time_are_all_received() -> Result<()> {
    let scene = Scene::start(&binary(), &["-t", "1", "-m", "256"])?;
    let mut streams = (0..60).map(|_| scene.connect()).collect::<Result<Vec<_>>>()?;
    let value = "v".repeat(10_000);
    let sets = format!("set k 0 0 10000\r\n{value}\r\n").repeat(15) + "get nothing\r\n";
    for _ in 0..3 {
        scene.while_stopped(|| {
            Ok(streams.iter_mut().try_for_each(|stream| stream.write_all(sets.as_bytes()))?)
        })?;
        for stream in &mut streams {
            let answer = stream.ask(b"", b"END\r\n")?;
            ensure!(answer == ("STORED\r\n".repeat(15) + "END\r\n").as_bytes());
        }
    }
    drop(streams);
    scene.end()
}

#[test]
fn connections_beyond_the_limit_are_refused_and_later_ones_accepted() -> Result<()> {
    let scene = Scene::start(&binary(), &["-c", "10"])?;
    let (mut accepted, mut refused_count) = (Vec::new(), 0);
    for _ in 0..30 {
        let mut stream = scene.connect()?;
        let mut answer = [0; 7];
        // The server may refuse before the request is sent.
        let _ = stream.write_all(b"version\r\n");
        stream.read_exact(&mut answer)?;
        if &answer == b"VERSION" {
            accepted.push(stream);
        } else {
            let mut rest = String::from_utf8_lossy(&answer).into_owned();
            let _ = stream.read_to_string(&mut rest);
            assert_eq!(rest, "ERROR Too many open connections\r\n");
            refused_count += 1;
        }
    }
    // The bystander is one of the ten.
    assert_eq!((accepted.len(), refused_count), (9, 21));
    drop(accepted);
    sleep(Duration::from_millis(200));
    let mut stream = scene.connect()?;
    let stats = stream.ask(b"stats\r\n", b"END\r\n")?;
    let stats = String::from_utf8_lossy(&stats);
    ensure!(stats.contains("STAT rejected_connections 21\r\n"), "{stats}");
    drop(stream);
    scene.end()
}

#[test]
fn without_maxconns_fast_connections_beyond_the_limit_wait_for_their_turn() -> Result<()> {
    let scene = Scene::start(&binary(), &["-c", "3", "-o", "no_maxconns_fast"])?;
    let (first, second) = (scene.connect()?, scene.connect()?);
    for stream in [&first, &second] {
        stream.try_clone()?.ask(b"version\r\n", b"\r\n")?;
    }
    let mut third = scene.connect()?;
    third.write_all(b"version\r\n")?;
    third.set_timeout(Duration::from_millis(300))?;
    assert!(third.read(&mut [0; 1]).is_err(), "there are three already, with the bystander");
    drop(first);
    third.set_timeout(Duration::from_secs(5))?;
    third.ask(b"", b"\r\n")?;
    drop((second, third));
    scene.end()
}

#[test]
fn a_connection_idle_for_too_long_is_closed() -> Result<()> {
    let scene = Scene::start(&binary(), &["-o", "idle_timeout=1"])?;
    let mut idle = scene.connect()?;
    idle.ask(b"version\r\n", b"\r\n")?;
    assert_eq!(idle.read(&mut [0; 1])?, 0, "the server closes");
    drop(idle);
    scene.end()
}
