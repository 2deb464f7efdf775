//! When a near cache answers by copies, and when it asks the origin.

use std::io::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::proxy::{Flow, Flows, Proxy};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};

use super::{Chain, ask, await_state, count, get, hit, read_until, set, start_near};
use crate::binary;

#[test]
fn a_copy_answers_until_another_client_writes() -> Result<()> {
    let chain = Chain::start(&[])?;
    let (mut origin, mut near) = chain.connect()?;
    set(&mut origin, "k", "first")?;
    for _ in 0..10 {
        assert_eq!(get(&mut near, "k")?, hit("k", "first"));
    }
    assert_eq!(count(&chain.origin, "follower_fetches")?, 1);
    assert_eq!(count(&chain.near, "near_kept")?, 1);
    set(&mut origin, "k", "second")?;
    read_until(&mut near, "k", &hit("k", "second"))?;
    assert_eq!(count(&chain.near, "near_changes")?, 1);
    ask(&mut origin, "delete k\r\n", "\r\n")?;
    read_until(&mut near, "k", "END\r\n")
}

/// The value after a write through the near cache is never an older one, whatever the order of
/// reads and writes in one pipeline.
#[test]
fn own_writes_are_seen() -> Result<()> {
    let chain = Chain::start(&[])?;
    let mut near = chain.near.connect()?;
    for n in 0..200 {
        let requests = format!(
            "get k\r\nset k 0 0 3 noreply\r\n{n:03}\r\nget k\r\nincr k 1\r\nget k\r\nmn\r\n"
        );
        let answer = ask(&mut near, &requests, "MN\r\n")?;
        let next = n + 1;
        let expected = format!("VALUE k 0 3\r\n{n:03}\r\nEND\r\n{next}\r\n");
        ensure!(answer.contains(&expected), "{answer:?}");
        ensure!(answer.ends_with(&format!("{next:03}\r\nEND\r\nMN\r\n")) || n < 100, "{answer:?}");
    }
    Ok(())
}

#[test]
fn an_absent_key_is_remembered_until_it_is_stored() -> Result<()> {
    let chain = Chain::start(&[])?;
    let (mut origin, mut near) = chain.connect()?;
    for _ in 0..10 {
        assert_eq!(get(&mut near, "k")?, "END\r\n");
    }
    assert_eq!(count(&chain.origin, "follower_fetches")?, 1);
    assert_eq!(count(&chain.near, "near_absent_hits")?, 9);
    set(&mut origin, "k", "v")?;
    read_until(&mut near, "k", &hit("k", "v"))
}

#[test]
fn a_flush_at_the_origin_drops_all_copies() -> Result<()> {
    let chain = Chain::start(&[])?;
    let (mut origin, mut near) = chain.connect()?;
    let keys: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
    for key in &keys {
        set(&mut origin, key, "v")?;
        assert_eq!(get(&mut near, key)?, hit(key, "v"));
    }
    ask(&mut origin, "flush_all\r\n", "OK\r\n")?;
    for key in &keys {
        read_until(&mut near, key, "END\r\n")?;
    }
    Ok(())
}

#[test]
fn a_copy_expires_with_its_item() -> Result<()> {
    let chain = Chain::start(&[])?;
    let (mut origin, mut near) = chain.connect()?;
    ask(&mut origin, "set k 0 3 1\r\nv\r\n", "STORED\r\n")?;
    assert_eq!(get(&mut near, "k")?, hit("k", "v"));
    let begin = Instant::now();
    while get(&mut near, "k")? != "END\r\n" {
        ensure!(begin.elapsed() < Duration::from_secs(5), "the copy does not expire");
        sleep(Duration::from_millis(20));
    }
    ensure!(begin.elapsed() > Duration::from_secs(1), "after {:?}", begin.elapsed());
    Ok(())
}

/// A value above `--near-item-max` is read from the origin each time.
#[test]
fn long_values_are_not_copied() -> Result<()> {
    let chain = Chain::start(&["--near-item-max=100"])?;
    let (mut origin, mut near) = chain.connect()?;
    let (short, long) = ("s".repeat(100), "l".repeat(101));
    set(&mut origin, "short", &short)?;
    set(&mut origin, "long", &long)?;
    for _ in 0..3 {
        assert_eq!(get(&mut near, "short")?, hit("short", &short));
        assert_eq!(get(&mut near, "long")?, hit("long", &long));
    }
    assert_eq!(count(&chain.near, "near_kept")?, 1);
    Ok(())
}

/// Many keys in one line are fetched together, not one after the other.
#[test]
fn the_keys_of_a_line_are_fetched_together() -> Result<()> {
    let chain = Chain::over(Transport::Unix, &[], &[])?;
    let (mut origin, mut near) = chain.connect()?;
    let keys: Vec<String> = (0..50).map(|n| format!("k{n}")).collect();
    for key in &keys {
        set(&mut origin, key, "v")?;
    }
    let answer = get(&mut near, &keys.join(" "))?;
    assert_eq!(answer.matches("VALUE ").count(), keys.len());
    assert_eq!(count(&chain.near, "near_kept")?, keys.len() as u64);
    Ok(())
}

/// The memory of a near cache that is full stays within `-m`, and its answers stay right.
#[test]
fn a_full_near_cache_evicts_copies() -> Result<()> {
    let chain = Chain::over(Transport::Tcp, &["-m", "256"], &["-m", "8"])?;
    let (mut origin, mut near) = chain.connect()?;
    let value = "v".repeat(1000);
    let keys = 0..20_000;
    for batch in keys.clone().collect::<Vec<_>>().chunks(100) {
        let sets = batch.iter().map(|n| format!("set k{n} 0 0 1000 noreply\r\n{value}\r\n"));
        ask(&mut origin, &(sets.collect::<String>() + "mn\r\n"), "MN\r\n")?;
    }
    for batch in keys.collect::<Vec<_>>().chunks(50) {
        let names: Vec<String> = batch.iter().map(|n| format!("k{n}")).collect();
        let answer = get(&mut near, &names.join(" "))?;
        ensure!(answer.matches("VALUE ").count() == batch.len(), "{batch:?}");
    }
    let listed = count(&chain.near, "near_listed_bytes")?;
    let listed_max = count(&chain.near, "near_listed_bytes_max")?;
    ensure!(listed_max == 2 << 20 && listed <= listed_max, "{listed} of {listed_max} bytes");
    let stats = ask(&mut near, "stats\r\n", "END\r\n")?;
    let items = stats.lines().find_map(|row| row.strip_prefix("STAT curr_items "));
    let items: u64 = items.unwrap_or_default().parse()?;
    ensure!((1000..7000).contains(&items), "{items} copies in 6 MiB");
    // The lists forget what was evicted: they have room for 20,000 keys, and fewer are copies.
    ensure!(listed < 3 * items * 60, "{listed} bytes for {items} copies");
    Ok(())
}

/// Reads of copies are reported to the origin, so that it does not evict the items: by a connection
/// that the near cache opens when there is something to report. Another test shows what a report
/// does.
#[test]
fn reads_of_copies_are_reported() -> Result<()> {
    let origin = ServerUnderTest::start(&binary(), Transport::Tcp, &["--followers=1"])?;
    let Address::Tcp(address) = origin.address() else { bail!("not TCP") };
    let proxy = Proxy::start(*address)?;
    let near = start_near(&proxy.address().to_string(), &[])?;
    await_state(&near, "copies")?;
    set(&mut origin.connect()?, "k", "v")?;
    let mut near = near.connect()?;
    assert_eq!(get(&mut near, "k")?, hit("k", "v"));
    sleep(Duration::from_millis(300));
    let (links, deadline) = (proxy.links().len(), Instant::now() + Duration::from_secs(5));
    // One in 16 reads is reported, at most every 100 ms, and the first ones open the connection.
    loop {
        near.ask("get k\r\n".repeat(16).as_bytes(), &hit("k", "v").into_bytes())?;
        near.ask(b"mn\r\n", b"MN\r\n")?;
        if proxy.links().get(links).is_some_and(|reports| reports.bytes() > 100) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "nothing is reported");
        sleep(Duration::from_millis(20));
    }
}

/// A write detaches the flight of another reader. Its answer, which arrives while the next flight
/// is under way, must not detach that one too: with a constant latency each flight would detach its
/// successor, and the key would never be copied.
#[test]
fn a_key_that_is_always_read_is_copied_soon_after_a_write() -> Result<()> {
    let origin = ServerUnderTest::start(&binary(), Transport::Tcp, &["--followers=1"])?;
    let Address::Tcp(address) = origin.address() else { bail!("not TCP") };
    let proxy = Proxy::start(*address)?;
    let near = start_near(&proxy.address().to_string(), &["--origin-timeout=1s"])?;
    await_state(&near, "copies")?;
    set(&mut origin.connect()?, "hot", "1")?;
    let delay = Duration::from_millis(20);
    proxy.set(&Flows::both(Flow::Delay(delay)));

    let [mut writer, mut first, mut second] = [near.connect()?, near.connect()?, near.connect()?];
    writer.write_all(b"set hot 0 0 1\r\n2\r\n")?;
    sleep(delay);
    first.write_all(b"get hot\r\n")?;
    assert_eq!(writer.ask(b"", b"\r\n")?, b"STORED\r\n");
    // The flight of the first reader is detached now, and that of the second one is not.
    second.write_all(b"get hot\r\n")?;
    // The first reader asked before the write had ended, so it may still receive the old value.
    let concurrent = first.ask(b"", b"END\r\n")?;
    let either = ["1", "2"].map(|value| hit("hot", value).into_bytes());
    ensure!(either.contains(&concurrent), "{}", concurrent.escape_ascii());
    first.write_all(b"get hot\r\n")?;
    for _ in 0..20 {
        for reader in [&mut second, &mut first] {
            assert_eq!(reader.ask(b"", b"END\r\n")?, hit("hot", "2").as_bytes());
            reader.write_all(b"get hot\r\n")?;
        }
    }
    let fetches = count(&near, "near_fetches")?;
    ensure!(count(&near, "near_kept")? >= 1, "no value was kept of {fetches} fetches");
    ensure!(fetches <= 4, "{fetches} fetches for one write");
    Ok(())
}

#[test]
fn keys_that_are_fetched_together_do_not_hide_that_there_were_no_copies() -> Result<()> {
    let chain = Chain::start(&[])?;
    let (mut origin, mut near) = chain.connect()?;
    for key in ["a", "b", "c", "d"] {
        set(&mut origin, key, "v")?;
    }
    for hits in [0, 4] {
        ask(&mut near, "get a b c d\r\n", "END\r\n")?;
        let found = general_count(&mut near, "get_hits")? - count(&chain.near, "near_ahead")?;
        assert_eq!(found, hits);
    }
    assert_eq!(general_count(&mut near, "cmd_get")?, 8);
    Ok(())
}

/// Returns a row of `stats`.
fn general_count(stream: &mut Stream, name: &str) -> Result<u64> {
    let stats = ask(stream, "stats\r\n", "END\r\n")?;
    let row = stats.lines().find_map(|row| row.strip_prefix(&format!("STAT {name} ")));
    Ok(row.context("no such row")?.parse()?)
}
