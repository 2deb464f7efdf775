//! Clients that request much and read late, slowly or never. The memory of all connections together
//! must stay within their shared budget and the allowance that each connection has in addition,
//! every client that reads must receive its whole response, and other clients must be served in the
//! meantime.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::scene::Scene;
use larder_testkit::stat::stat;
use larder_testkit::{Stream, Transport};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::binary;

const MIB: u64 = 1 << 20;

/// The budget of these tests, which a few connections can exceed.
const BUDGET: &str = "read_buf_mem_limit=4";
const BUDGET_BYTES: u64 = 4 * MIB;

/// Bytes that every connection may hold beyond the budget.
const ALLOWANCE_BYTES: u64 = 16 * 1024;

/// Code, stacks, buffers of the workers, and memory that the allocator keeps.
const CONSTANT_BYTES: u64 = 16 * MIB;

fn set(stream: &mut Stream, key: &str, value: &[u8]) -> Result<()> {
    let head = format!("set {key} 0 0 {}\r\n", value.len());
    stream.ask(&[head.as_bytes(), value, b"\r\n"].concat(), b"STORED\r\n")?;
    Ok(())
}

fn raise_descriptor_limit() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// Opens clients that each request the item `k` `keys` times and do not read.
fn ask_without_reading(scene: &Scene, clients: usize, keys: usize) -> Result<Vec<Stream>> {
    let request = [&b"get"[..], &b" k".repeat(keys), b"\r\n"].concat();
    let ask = |_| {
        let mut stream = scene.connect()?;
        // The server does not receive most of the line, which waits in the socket.
        stream.write_all(&request)?;
        Ok(stream)
    };
    (0..clients).map(ask).collect()
}

/// Reads the response to [`ask_without_reading`] and checks every byte of it.
fn read_answer(stream: &mut Stream, item: &[u8], keys: usize) -> Result<()> {
    let mut found = vec![0; item.len()];
    for number in 0..keys {
        stream.read_exact(&mut found).with_context(|| format!("item {number} of {keys}"))?;
        ensure!(found == item, "item {number} of {keys} is not the one that was asked for");
    }
    let mut end = [0; 5];
    stream.read_exact(&mut end)?;
    ensure!(&end == b"END\r\n", "{}", end.escape_ascii());
    Ok(())
}

/// Many clients request a megabyte each and read it after a while. All of them must receive
/// everything.
fn late_readers_get_their_whole_answers(clients: usize, value: &[u8], keys: usize) -> Result<()> {
    raise_descriptor_limit()?;
    let scene = Scene::start_on(&binary(), Transport::Unix, &["-c", "15000", "-o", BUDGET])?;
    let mut writer = scene.connect()?;
    set(&mut writer, "k", value)?;
    let mut readers = ask_without_reading(&scene, clients, keys)?;
    sleep(Duration::from_secs(1));
    let held_bytes = BUDGET_BYTES + clients as u64 * ALLOWANCE_BYTES + CONSTANT_BYTES;
    scene.has_grown_at_most(held_bytes)?;

    let item = [format!("VALUE k 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat();
    for (number, reader) in readers.iter_mut().enumerate() {
        reader.set_timeout(Duration::from_secs(30))?;
        read_answer(reader, &item, keys).with_context(|| format!("reader {number}"))?;
    }
    ensure!(stat(&mut writer, "", "response_obj_oom")? == 0, "a connection was closed");
    scene.has_grown_at_most(held_bytes)?;
    drop((readers, writer));
    scene.end()
}

#[test]
fn hundreds_of_late_readers_of_small_values_get_their_whole_answers() -> Result<()> {
    late_readers_get_their_whole_answers(500, &[b'v'; 1000], 1000)
}

#[test]
fn hundreds_of_late_readers_of_10_kib_values_get_their_whole_answers() -> Result<()> {
    late_readers_get_their_whole_answers(300, &[b'v'; 10 << 10], 100)
}

/// The values are sent in pieces. Beyond the pin limit, the pieces are copies.
#[test]
fn hundreds_of_late_readers_of_large_values_get_their_whole_answers() -> Result<()> {
    late_readers_get_their_whole_answers(200, &[b'v'; 700_000], 3)
}

/// The target of docs/benchmarks.md; takes a minute and some GiB of socket buffers:
/// `make verify ONLY=readers`.
#[test]
#[ignore = "takes a minute and several GiB of kernel memory"]
fn ten_thousand_late_readers_of_five_megabytes_get_their_whole_answers() -> Result<()> {
    late_readers_get_their_whole_answers(10_000, &[b'v'; 1000], 5000)
}

#[test]
fn unfinished_lines_of_keys_take_no_memory_from_others() -> Result<()> {
    let scene = Scene::start(&binary(), &["-o", BUDGET])?;
    let mut reader = scene.connect()?;
    set(&mut reader, "k", b"v")?;
    let line = [&b"get"[..], &b" nothing".repeat(70_000)].concat();
    let mut holders = Vec::new();
    for _ in 0..66 {
        let mut holder = scene.connect()?;
        holder.write_all(&line)?;
        holders.push(holder);
    }
    sleep(Duration::from_secs(1));
    scene.has_grown_at_most(8 * MIB)?;
    let answer = reader.ask(&[&line[..], b" k\r\n"].concat(), b"END\r\n")?;
    assert_eq!(answer, b"VALUE k 0 1\r\nv\r\nEND\r\n");
    for holder in &mut holders {
        assert_eq!(holder.ask(b"\r\n", b"END\r\n")?, b"END\r\n");
    }
    drop((holders, reader));
    scene.end()
}

#[test]
fn a_client_that_reads_a_byte_at_a_time_is_served_to_the_end() -> Result<()> {
    let scene = Scene::start_on(&binary(), Transport::Unix, &["-o", BUDGET])?;
    let mut writer = scene.connect()?;
    set(&mut writer, "k", &[b'v'; 1000])?;
    let item = [&b"VALUE k 0 1000\r\n"[..], &[b'v'; 1000], b"\r\n"].concat();
    // In the meantime other clients use up the whole budget and more.
    let holders = ask_without_reading(&scene, 300, 1000)?;
    let mut slow = ask_without_reading(&scene, 1, 1000)?.remove(0);
    let mut answer = Vec::new();
    for _ in 0..20 {
        let mut byte = [0];
        slow.read_exact(&mut byte)?;
        answer.extend(byte);
        sleep(Duration::from_millis(100));
    }
    let mut rest = vec![0; 1000 * item.len() + 5 - answer.len()];
    slow.read_exact(&mut rest)?;
    answer.extend(rest);
    assert!(answer == [item.repeat(1000), b"END\r\n".to_vec()].concat());
    drop((holders, slow, writer));
    scene.end()
}

/// Sends every request with a long response, and does not read.
#[test]
fn clients_that_request_everything_and_never_read_stay_within_their_share() -> Result<()> {
    let scene = Scene::start_on(&binary(), Transport::Unix, &["-c", "4096", "-o", BUDGET])?;
    let mut writer = scene.connect()?;
    for number in 0..2000 {
        set(&mut writer, &format!("{number}:k"), &[b'v'; 1000])?;
    }
    let mut clients = Vec::new();
    for request in [
        "stats conns\r\n",
        "stats\r\n",
        "stats settings\r\n",
        "stats items\r\n",
        "stats slabs\r\n",
        "stats cachedump 12 0\r\n",
        "lru_crawler metadump all\r\n",
        "lru_crawler mgdump all\r\n",
        "mg 1:k v\r\n",
        "gat 0 1:k 2:k 3:k\r\n",
        "watch fetchers mutations connevents\r\n",
        "version\r\n",
    ] {
        for _ in 0..20 {
            let mut client = scene.connect()?;
            client.set_timeout(Duration::from_millis(20))?;
            for _ in 0..10_000 {
                // The write fails as soon as the server no longer receives.
                if client.write_all(request.repeat(10).as_bytes()).is_err() {
                    break;
                }
            }
            clients.push(client);
        }
    }
    scene.has_grown_at_most(
        BUDGET_BYTES + clients.len() as u64 * ALLOWANCE_BYTES + CONSTANT_BYTES,
    )?;
    drop((clients, writer));
    scene.end()
}

/// Sends requests one after the other for `time`, and fails unless five are answered. On a busy
/// machine this may take five times as long.
fn asks_for(scene: &Scene, time: Duration) -> Result<()> {
    let mut stream = scene.connect()?;
    let (begun, mut asked) = (Instant::now(), 0);
    while begun.elapsed() < time || asked < 5 {
        ensure!(begun.elapsed() < time * 5, "a client was answered {asked} times");
        stream.ask(b"version\r\n", b"\r\n")?;
        asked += 1;
    }
    Ok(())
}

/// More connections than a ring has buffers, each of which always has more input.
#[test]
fn clients_that_send_without_pause_do_not_starve_others() -> Result<()> {
    const SENDERS: usize = 1500;
    raise_descriptor_limit()?;
    let scene = Scene::start(&binary(), &["-t", "1", "-c", "4096"])?;
    let mut senders = (0..SENDERS).map(|_| scene.connect()).collect::<Result<Vec<_>>>()?;
    // Long requests with short responses, so that a socket contains enough of them for many
    // buffers.
    let request = [&b"get"[..], &b" nothing".repeat(150), b"\r\n"].concat();
    let requests = request.repeat(50);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for part in senders.chunks_mut(SENDERS / 4) {
            scope.spawn(|| {
                let (mut answers, part) = (vec![0; 64 << 10], part);
                for sender in part.iter() {
                    sender.limit_buffers(64 << 10).expect("a socket has buffers");
                    sender.set_timeout(Duration::from_micros(1)).expect("a socket has a timeout");
                }
                while !is_over.load(Relaxed) {
                    for sender in part.iter_mut() {
                        // Both block while the other side is slower.
                        let _ = sender.write_all(&requests);
                        let _ = sender.read(&mut answers);
                    }
                }
            });
        }
        let asked = asks_for(&scene, Duration::from_secs(6));
        is_over.store(true, Relaxed);
        asked
    })?;
    drop(senders);
    scene.end()
}

/// A single value that is longer than the allowance is rendered completely, so the budget can be
/// exceeded here, and connections must be closed.
#[test]
fn over_budget_the_idle_client_that_holds_most_is_closed_first() -> Result<()> {
    let scene =
        Scene::start_on(&binary(), Transport::Unix, &["-c", "4096", "-o", "read_buf_mem_limit=1"])?;
    let mut writer = scene.connect()?;
    set(&mut writer, "k", &[b'v'; 16_380])?;
    let item = [&b"VALUE k 0 16380\r\n"[..], &[b'v'; 16_380], b"\r\n"].concat();
    let mut reader = ask_without_reading(&scene, 1, 400)?.remove(0);
    let reading = thread::spawn(move || {
        let (mut answer, end) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        while !answer.ends_with(b"END\r\n") {
            ensure!(Instant::now() < end, "only {} bytes have come", answer.len());
            let mut part = [0; 16 << 10];
            let bytes = reader.read(&mut part)?;
            ensure!(bytes > 0, "the reader was cut off after {} bytes", answer.len());
            answer.extend(&part[..bytes]);
            sleep(Duration::from_millis(10));
        }
        Ok(answer)
    });
    let holders = ask_without_reading(&scene, 2000, 4000)?;
    sleep(Duration::from_secs(4));
    let closed = stat(&mut writer, "", "response_obj_oom")?;
    ensure!(closed > 0, "no client was closed");
    ensure!(closed < 2000, "all clients were closed");
    let log = scene.server.log();
    ensure!(log.contains("bytes of buffers"), "the log does not mention it: {log}");
    let answer = reading.join().expect("the reader does not panic")?;
    ensure!(answer == [item.repeat(400), b"END\r\n".to_vec()].concat(), "the answer is wrong");
    drop((holders, writer));
    scene.end()
}
