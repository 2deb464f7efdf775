//! Change streams and fetches.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_protocol::follow::{Fetched, Message};
use larder_testkit::stat::stat;
use larder_testkit::{ServerUnderTest, Transport};

use super::{Near, start};

fn ask(server: &ServerUnderTest, request: &str) -> Result<String> {
    let mut client = server.connect()?;
    Ok(String::from_utf8(client.ask(format!("{request}\r\n").as_bytes(), b"\r\n")?)?)
}

#[test]
fn a_near_cache_is_told_of_changes_of_items_that_it_has_fetched() -> Result<()> {
    for (transport, io) in
        [(Transport::Tcp, "auto"), (Transport::Unix, "auto"), (Transport::Tcp, "epoll")]
    {
        let server = start(transport, &["--followers=2", &format!("--io={io}")])?;
        let mut near = Near::follow(&server)?;
        let mut client = server.connect()?;
        client.ask(b"set k 5 0 1\r\nv\r\n", b"STORED\r\n")?;
        ensure!(near.changes()?.is_empty(), "nothing was fetched");
        let copy = near.fetch(b"k")?;
        ensure!(copy.value == b"v" && copy.is_noted(), "{copy:?}");
        ensure!(
            matches!(copy.fetched, Fetched::Value { flags: 5, ttl_ms: None, cas: 1.., .. }),
            "{copy:?}"
        );
        ensure!(near.changes()?.is_empty());
        client.ask(b"get k\r\n", b"END\r\n")?;
        ensure!(near.changes()?.is_empty(), "a read changes nothing");
        client.ask(b"set k 0 0 1\r\nw\r\nset k 0 0 1\r\nw\r\n", b"STORED\r\nSTORED\r\n")?;
        let changed = near.changed(b"k");
        ensure!(near.changes()? == [changed], "a change is told once");
        ensure!(near.fetch(b"k")?.value == b"w");
        client.ask(b"delete k\r\n", b"DELETED\r\n")?;
        ensure!(near.message()? == changed, "without being asked");
        ensure!(near.fetch(b"k")?.fetched == Fetched::Absent { is_noted: true });
        client.ask(b"add k 0 0 1\r\nx\r\n", b"STORED\r\n")?;
        ensure!(near.message()? == changed);
        client.ask(b"flush_all\r\n", b"OK\r\n")?;
        ensure!(near.message()? == Message::Flushed);
    }
    Ok(())
}

#[test]
fn without_the_option_the_commands_do_not_exist() -> Result<()> {
    let server = start(Transport::Tcp, &[])?;
    for line in [
        "larder_follow 1000",
        "larder_follow",
        "larder_follower 0",
        "larder_fetch k",
        "larder_fetch",
    ] {
        ensure!(ask(&server, line)? == "ERROR\r\n", "{line}");
    }
    let mut client = server.connect()?;
    let stats = String::from_utf8(client.ask(b"stats larder\r\n", b"END\r\n")?)?;
    ensure!(!stats.contains("follower"), "{stats}");
    Ok(())
}

#[test]
fn bad_arguments_are_refused_with_the_reason() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=2"])?;
    let long = "k".repeat(251);
    let usage = "CLIENT_ERROR usage: larder_follow <100 to 60000 milliseconds>\r\n";
    let token = "CLIENT_ERROR usage: larder_follower <32 hexadecimal digits>\r\n";
    let format = "CLIENT_ERROR bad command line format\r\n";
    for (line, expected) in [
        ("larder_follow", usage),
        ("larder_follow x", usage),
        ("larder_follow 99", usage),
        ("larder_follow 60001", usage),
        ("larder_follow 1000 1", usage),
        ("larder_follow -1", usage),
        ("larder_follower", token),
        ("larder_follower 00", token),
        ("larder_follower 0000000000000000000000000000000g", token),
        ("larder_follower 00000000000000000000000000000000 0", token),
        (
            "larder_follower 00000000000000000000000000000000",
            "CLIENT_ERROR no change stream has this token\r\n",
        ),
        ("larder_fetch", format),
        ("larder_fetch k x", format),
        ("larder_fetch k m", format),
        ("larder_fetch k m-1", format),
        ("larder_fetch k! b", format),
        (&format!("larder_fetch {long}"), format),
        ("larder_fetch k", "EN U\r\n"),
    ] {
        let found = ask(&server, line)?;
        ensure!(found == expected, "{line}: {found:?}");
    }
    let mut client = server.connect()?;
    client.ask(
        b"version\r\nlarder_follow 1000\r\n",
        b"\r\nCLIENT_ERROR cannot pipeline other commands before larder_follow\r\n",
    )?;
    Ok(())
}

#[test]
fn a_token_belongs_to_its_stream_and_ends_with_it() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=2"])?;
    let mut near = Near::follow(&server)?;
    ensure!(near.fetch(b"k")?.is_noted());
    let Near { stream, mut data, terms, .. } = near;
    drop(stream);
    let until = Instant::now() + Duration::from_secs(20);
    let name = format!("larder_follower {:032x}", terms.token);
    while ask(&server, &name)? == "OK\r\n" {
        ensure!(Instant::now() < until, "the token stays");
    }
    // A connection that named the stream before.
    data.get_mut().write_all(b"larder_fetch k\r\n")?;
    ensure!(super::line(&mut data)? == "EN U");
    let other = Near::follow(&server)?;
    ensure!(other.terms.token != terms.token);
    ensure!((other.terms.epoch, other.terms.buckets_log2) == (terms.epoch, 20));
    Ok(())
}

#[test]
fn keys_of_all_lengths_and_bytes_are_fetched() -> Result<()> {
    let server = start(Transport::Unix, &["--followers=2"])?;
    let mut near = Near::follow(&server)?;
    let mut client = server.connect()?;
    let binary: Vec<u8> = (0..250).collect();
    let keys: [&[u8]; 5] = [b"k", &[b'k'; 250], b"a key\r\n", &binary, b"\0"];
    for key in keys {
        // Only the binary protocol stores all of these keys.
        let (extras, value) = ([0; 8], b"vv");
        let body_bytes = extras.len() + key.len() + value.len();
        let mut request = vec![0x80, 1, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
        request.extend_from_slice(&(body_bytes as u32).to_be_bytes());
        request.resize(24, 0);
        for part in [&extras[..], key, value] {
            request.extend_from_slice(part);
        }
        let mut store = || -> Result<()> {
            client.write_all(&request)?;
            let mut response = [0; 24];
            client.read_exact(&mut response)?;
            ensure!(response[6..8] == [0, 0], "{response:?}");
            Ok(())
        };
        store()?;
        let copy = near.fetch(key)?;
        ensure!(copy.value == value && copy.is_noted(), "{}: {copy:?}", key.escape_ascii());
        store()?;
        ensure!(near.changes()? == [near.changed(key)], "{}", key.escape_ascii());
    }
    Ok(())
}

#[test]
fn items_that_must_not_be_copied_are_not_returned() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=2"])?;
    let mut near = Near::follow(&server)?;
    let mut client = server.connect()?;
    let mut on = |request: &str| -> Result<()> {
        client.ask(format!("{request}\r\nmn\r\n").as_bytes(), b"MN\r\n")?;
        Ok(())
    };
    on("ms k 1\r\nv")?;
    on("md k I T30")?;
    for _ in 0..2 {
        ensure!(near.ask("larder_fetch k\r\n")? == "ST", "stale");
    }
    on("mg k v")?;
    ensure!(near.ask("larder_fetch k\r\n")? == "ST", "a client has the recache token");
    on("ms k 1 T20\r\nv")?;
    ensure!(near.fetch(b"k")?.value == b"v");
    on("mg k v R30")?;
    ensure!(near.ask("larder_fetch k\r\n")? == "ST", "a client brings a new value early");
    on("ms k 3\r\nvvv")?;
    ensure!(near.ask("larder_fetch k m2\r\n")? == "ST");
    ensure!(near.ask("larder_fetch k m3\r\n")?.starts_with("VA 3 f0 c"));
    super::line(&mut near.data)?;
    on(&format!("ms k 300000\r\n{}", "v".repeat(300_000)))?;
    ensure!(near.ask("larder_fetch k m2\r\n")? == "ST");
    ensure!(near.fetch(b"k")?.value.len() == 300_000);
    Ok(())
}

#[test]
fn a_fetch_counts_as_a_read_and_never_states_too_much_time() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=2"])?;
    let mut near = Near::follow(&server)?;
    let mut client = server.connect()?;
    client.ask(b"set k 0 2 1\r\nv\r\n", b"STORED\r\n")?;
    let until = Instant::now() + Duration::from_secs(20);
    let mut times = Vec::new();
    loop {
        let sent = Instant::now();
        let ttl = match near.fetch(b"k")?.fetched {
            Fetched::Value { ttl_ms: Some(ms), .. } => Duration::from_millis(ms),
            Fetched::Absent { .. } => break,
            other => bail!("{other:?}"),
        };
        times.push((sent, ttl));
        ensure!(sent < until, "the item does not expire");
        sleep(Duration::from_millis(7));
    }
    let ended = Instant::now();
    for (sent, ttl) in &times {
        ensure!(*sent + *ttl <= ended, "{ttl:?} at {:?} before the end", ended - *sent);
    }
    let (sent, ttl) = times[times.len() / 2];
    ensure!(sent + ttl + Duration::from_millis(500) > ended, "{ttl:?} is much too short");
    ensure!(stat(&mut client, "", "cmd_get")? == 0, "fetches are not gets");
    client.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    near.fetch(b"k")?;
    client.ask(b"mg k h t\r\n", b"HD h1 t-1\r\n")?;
    // A report of a read in a copy counts, too. It has no response.
    client.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    near.data.get_mut().ask(b"larder_read aw==\r\nmn\r\n", b"MN\r\n")?;
    client.ask(b"mg k h\r\n", b"HD h1\r\n")?;
    Ok(())
}

/// 64 subscriptions have a slot each, others share one. The server tells all of them.
#[test]
fn subscriptions_that_share_a_slot_are_all_told_and_there_is_a_limit() -> Result<()> {
    let server = start(Transport::Unix, &["--followers=66"])?;
    let mut nears = (0..66).map(|_| Near::follow(&server)).collect::<Result<Vec<_>>>()?;
    let refused = ask(&server, "larder_follow 1000")?;
    ensure!(refused.starts_with("SERVER_ERROR --followers near caches follow"), "{refused:?}");
    let mut client = server.connect()?;
    ensure!(stat(&mut client, "larder", "followers")? == 66);
    for near in &mut nears {
        near.fetch(b"k")?;
    }
    client.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    for near in &mut nears {
        ensure!(near.changes()? == [near.changed(b"k")]);
    }
    // The 65th has the slot of another one, so the server also tells it of these items.
    let first = &mut nears[0];
    first.fetch(b"only")?;
    client.ask(b"set only 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    let told = nears.iter_mut().map(Near::changes).collect::<Result<Vec<_>>>()?;
    let count = told.iter().filter(|changes| !changes.is_empty()).count();
    ensure!(!told[0].is_empty() && count == 2, "{count} are told");
    nears.truncate(65);
    let until = Instant::now() + Duration::from_secs(20);
    while Near::follow(&server).is_err() {
        ensure!(Instant::now() < until, "the place of an ended stream stays taken");
    }
    Ok(())
}

#[test]
fn a_removal_by_prefix_tells_each_item_that_it_removes() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=2"])?;
    let mut near = Near::follow(&server)?;
    let mut client = server.connect()?;
    for n in 0..2000 {
        client.ask(format!("set user:{n} 0 0 1\r\nv\r\n").as_bytes(), b"STORED\r\n")?;
    }
    client.ask(b"set kept 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    let keys: Vec<String> = (0..2000).step_by(7).map(|n| format!("user:{n}")).collect();
    for key in keys.iter().map(String::as_str).chain(["kept"]) {
        near.fetch(key.as_bytes())?;
    }
    client.ask(b"delete_prefix user:\r\n", b"\r\n")?;
    let order = |message: &Message| match message {
        Message::Changed(bucket) => *bucket,
        _ => u32::MAX,
    };
    let mut expected: Vec<_> = keys.iter().map(|key| near.changed(key.as_bytes())).collect();
    expected.sort_by_key(order);
    // The first change of a bucket ends the interest in it. Two keys share one in 4 % of the runs.
    expected.dedup();
    let mut found = Vec::new();
    while found.len() < expected.len() {
        found.push(near.message()?);
    }
    found.sort_by_key(order);
    ensure!(found == expected && near.changes()?.is_empty());
    Ok(())
}

#[test]
fn a_delayed_flush_tells_when_it_takes_effect_although_no_client_comes() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=2"])?;
    let mut near = Near::follow(&server)?;
    let mut client = server.connect()?;
    client.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    near.fetch(b"k")?;
    let began = Instant::now();
    client.ask(b"flush_all 2\r\n", b"OK\r\n")?;
    ensure!(near.changes()?.is_empty(), "it has no effect yet");
    ensure!(near.message()? == Message::Flushed);
    let after = began.elapsed();
    ensure!((1..5).contains(&after.as_secs()), "{after:?}");
    ensure!(near.fetch(b"k")?.fetched == Fetched::Absent { is_noted: true });
    Ok(())
}

/// The thread that finds the flush due tells it before the response to `alive`.
#[test]
fn a_flush_that_is_due_is_told_before_alive_is_answered() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=2", "-o", "debugtime"])?;
    let mut near = Near::follow(&server)?;
    let mut client = server.connect()?;
    for _ in 0..50 {
        client.ask(b"flush_all 1000\r\n", b"OK\r\n")?;
        ensure!(near.changes()?.is_empty());
        client.ask(b"debugtime 1001\r\n", b"OK\r\n")?;
        ensure!(near.changes()? == [Message::Flushed]);
    }
    Ok(())
}

#[test]
fn eviction_and_expiry_tell_nothing() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=2", "-m", "8", "-o", "debugtime"])?;
    let mut near = Near::follow(&server)?;
    let mut client = server.connect()?;
    client.ask(b"set k 0 10 1\r\nv\r\nset e 0 0 1\r\nv\r\n", b"STORED\r\nSTORED\r\n")?;
    near.fetch(b"k")?;
    near.fetch(b"e")?;
    client.ask(b"debugtime 20\r\n", b"OK\r\n")?;
    client.ask(b"get k\r\n", b"END\r\n")?;
    let value = "v".repeat(10_000);
    // The fetch of `e` counts as a read, so the others are read, too.
    for n in 0..2000 {
        client.ask(format!("set fill{n} 0 0 10000\r\n{value}\r\n").as_bytes(), b"STORED\r\n")?;
        client.ask(format!("get fill{n}\r\n").as_bytes(), b"END\r\n")?;
    }
    ensure!(client.ask(b"get e\r\n", b"END\r\n")? == b"END\r\n", "it is evicted");
    ensure!(near.changes()?.is_empty());
    // A client that learns that an item is gone must not find a copy of it.
    client.ask(b"delete e\r\n", b"NOT_FOUND\r\n")?;
    ensure!(near.changes()? == [near.changed(b"e")]);
    Ok(())
}

/// Other lines end a stream. Lines may arrive in pieces.
#[test]
fn a_stream_accepts_only_lines_alive() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=9"])?;
    let mut near = Near::follow(&server)?;
    for piece in ["al", "ive", " 1", "7", "\r", "\nalive 18\nal"] {
        near.stream.get_mut().write_all(piece.as_bytes())?;
        sleep(Duration::from_millis(20));
    }
    ensure!(near.message()? == Message::Heard(17) && near.message()? == Message::Heard(18));
    let long = "alive 1".to_owned() + &"0".repeat(100);
    for line in ["ive x\r\n", "get k\r\n", "alive\r\n", "alive -1\r\n", "\r\n", &long] {
        let mut near = Near::follow(&server)?;
        near.stream.get_mut().write_all(line.as_bytes())?;
        let mut last = String::new();
        near.stream.read_to_string(&mut last)?;
        let expected = "CLIENT_ERROR a change stream accepts only the line alive <n>\r\n";
        ensure!(last == expected, "{line:?}: {last:?}");
    }
    Ok(())
}

#[test]
fn a_near_cache_that_is_silent_loses_its_stream() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=1"])?;
    let mut silent = Near::follow_within(&server, 100)?;
    for n in 0..30 {
        silent.stream.get_mut().write_all(format!("alive {n}\r\n").as_bytes())?;
        ensure!(silent.message()? == Message::Heard(n));
        sleep(Duration::from_millis(50));
    }
    let began = Instant::now();
    let mut rest = String::new();
    silent.stream.read_to_string(&mut rest)?;
    ensure!(rest.is_empty(), "{rest:?}");
    ensure!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    Near::follow(&server)?;
    Ok(())
}

/// The server answers floods of `alive` in order, and other clients do not wait.
#[test]
fn a_flood_of_alive_is_answered_as_fast_as_it_is_read() -> Result<()> {
    const COUNT: u64 = 300_000;
    let server = start(Transport::Tcp, &["--followers=2", "-t", "1"])?;
    let near = Near::follow(&server)?;
    let mut writer = near.stream.get_ref().try_clone()?;
    let mut client = server.connect()?;
    let before = server.rss_bytes()?;
    scope(|scope| {
        let flood = scope.spawn(move || -> Result<()> {
            for first in (0..COUNT).step_by(1000) {
                let lines: String =
                    (first..first + 1000).map(|n| format!("alive {n}\r\n")).collect();
                writer.write_all(lines.as_bytes())?;
            }
            Ok(())
        });
        // The near cache does not read the responses yet.
        sleep(Duration::from_millis(300));
        let began = Instant::now();
        client.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
        ensure!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        let grown = server.rss_bytes()?.saturating_sub(before);
        ensure!(grown < 8 << 20, "{grown} bytes");
        let mut near = near;
        for n in 0..COUNT {
            ensure!(near.message()? == Message::Heard(n));
        }
        flood.join().ok().context("the flood panicked")?
    })
}

/// A near cache that does not read costs little memory, others do not wait for it, and it reads
/// later that everything may have changed.
#[test]
fn a_near_cache_that_does_not_read_is_told_everything_later() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=3", "-t", "2"])?;
    let (stream, data) = (server.connect()?, server.connect()?);
    stream.limit_buffers(4096)?;
    let mut slow = Near::on(stream, data, 60_000)?;
    let mut fast = Near::follow(&server)?;
    let mut client = server.connect()?;
    let before = server.rss_bytes()?;
    let rounds = 100_000;
    for first in (0..rounds).step_by(500) {
        let keys: Vec<String> = (first..first + 500).map(|n| format!("k{n}")).collect();
        for near in [&mut slow, &mut fast] {
            let fetches: String =
                keys.iter().map(|key| format!("larder_fetch {key}\r\n")).collect();
            near.data.get_mut().write_all(fetches.as_bytes())?;
            for _ in &keys {
                ensure!(super::line(&mut near.data)? == "EN");
            }
        }
        let sets: String = keys.iter().map(|key| format!("ms {key} 1\r\nv\r\n")).collect();
        client.ask(sets.as_bytes(), "HD\r\n".repeat(500).as_bytes())?;
        let changes = fast.changes()?;
        ensure!(changes.len() >= 490 && !changes.contains(&Message::Flushed), "{}", changes.len());
    }
    let grown = server.rss_bytes()?.saturating_sub(before);
    ensure!(grown < 48 << 20, "{grown} bytes, with the items");
    let changes = slow.changes()?;
    let flushes = changes.iter().filter(|change| **change == Message::Flushed).count();
    ensure!(flushes > 0 && changes.len() < rounds / 2, "{flushes} of {}", changes.len());
    ensure!(stat(&mut client, "larder", "follower_overflows")? == flushes as u64);
    // From now on it reads changes as usual.
    slow.fetch(b"k0")?;
    client.ask(b"set k0 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    ensure!(slow.changes()? == [slow.changed(b"k0")]);
    Ok(())
}

/// A near cache that drops changed copies has no old value after the response to its signal.
#[test]
fn a_stream_is_right_under_four_writers() -> Result<()> {
    const KEYS: usize = 8;
    let server = start(Transport::Unix, &["--followers=4", "-t", "4"])?;
    let over = AtomicBool::new(false);
    scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (server, over) = (&server, &over);
                scope.spawn(move || -> Result<u64> {
                    let mut client = server.connect()?;
                    let mut number = 0u64;
                    while !over.load(Relaxed) {
                        let key = number as usize % KEYS;
                        let value = format!("{number:020}");
                        let set = format!("set w{writer}:{key} 0 0 20\r\n{value}\r\n");
                        client.ask(set.as_bytes(), b"STORED\r\n")?;
                        number += 1;
                    }
                    Ok(number)
                })
            })
            .collect();
        let followed = follow_writers(&server, KEYS);
        over.store(true, Relaxed);
        for writer in writers {
            let written = writer.join().ok().context("a writer panicked")??;
            ensure!(written > 100, "{written}");
        }
        followed
    })
}

/// Keeps copies as a near cache does, and compares them with the items after each signal.
fn follow_writers(server: &ServerUnderTest, keys: usize) -> Result<()> {
    let names: Vec<String> =
        (0..4).flat_map(|writer| (0..keys).map(move |key| format!("w{writer}:{key}"))).collect();
    let mut near = Near::follow(server)?;
    let mut client = server.connect()?;
    let mut copies: Vec<Option<Vec<u8>>> = vec![None; names.len()];
    let (mut kept, until) = (0, Instant::now() + Duration::from_secs(3));
    while Instant::now() < until {
        for (name, copy) in names.iter().zip(&mut copies) {
            if copy.is_none() {
                *copy = Some(near.fetch(name.as_bytes())?.value);
            }
        }
        // Items that the origin has before the signal.
        let mut items = Vec::new();
        for name in &names {
            let found = client.ask(format!("mg {name} v\r\n").as_bytes(), b"\r\n")?;
            let value = match found.starts_with(b"VA") {
                true => found.split(|byte| *byte == b'\n').nth(1).map(<[u8]>::trim_ascii_end),
                false => Some(&b""[..]),
            };
            items.push(value.context("a value")?.to_vec());
        }
        for change in near.changes()? {
            for (name, copy) in names.iter().zip(&mut copies) {
                if change == Message::Flushed || change == near.changed(name.as_bytes()) {
                    *copy = None;
                }
            }
        }
        for (copy, item) in copies.iter().zip(&items) {
            if let Some(copy) = copy {
                ensure!(copy >= item, "a copy {copy:?} is older than {item:?}");
                kept += 1;
            }
        }
    }
    println!("{kept} copies were current");
    Ok(())
}
