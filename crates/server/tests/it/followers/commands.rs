//! What each command tells near caches.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use larder_protocol::docs::example_requests;
use larder_protocol::follow::Message;
use larder_testkit::{ServerUnderTest, Transport, http};

use super::table::{Told, before, dialect, needs_lease, row_of};
use super::{Near, start};

pub(crate) const KEY: &[u8] = b"k:8";

/// Sends a request on a connection of its own, and waits until the server has executed it.
pub(crate) fn run(server: &ServerUnderTest, request: &[u8]) -> Result<Vec<u8>> {
    let mut client = server.connect()?;
    client.write_all(request)?;
    client.shutdown(Shutdown::Write)?;
    let mut response = Vec::new();
    client.read_to_end(&mut response)?;
    Ok(response)
}

/// Runs a request against an item that it can change, and checks the reports to a near cache.
fn check(server: &ServerUnderTest, near: &mut Near, request: &[u8], before: &str) -> Result<()> {
    let mut client = server.connect()?;
    client.ask(before.as_bytes(), b"MN\r\n")?;
    near.changes()?;
    for key in [KEY, b"other"] {
        ensure!(near.fetch(key)?.is_noted());
    }
    ensure!(near.changes()?.is_empty());
    let told = row_of(request).context("no command")?.told;
    let response = run(server, request)?;
    let expected = match told {
        Told::Nothing => vec![],
        Told::Key => vec![near.changed(KEY)],
        Told::EachItem => {
            let message = near.message()?;
            // The walk continues behind the item. Until its end, another removal is refused.
            while !run(server, b"stats delete_prefix\r\n")?.windows(4).any(|word| word == b"done") {
                sleep(Duration::from_millis(1));
            }
            vec![message]
        }
        Told::Everything => {
            run(server, b"debugtime 100\r\n")?;
            // A get makes the flush due.
            run(server, b"get k\r\n")?;
            vec![Message::Flushed]
        }
    };
    let found = match told {
        Told::EachItem => vec![near.changed(KEY)],
        _ => near.changes()?,
    };
    ensure!(
        found == expected,
        "{} after {before:?}, answered {}: {found:?} and not {expected:?}",
        request.escape_ascii(),
        response.escape_ascii()
    );
    Ok(())
}

/// Every command of the three dialects, in every form of the tables.
#[test]
fn each_command_tells_what_the_table_says() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=9", "-o", "debugtime"])?;
    let mut near = Near::follow_within(&server, 60_000)?;
    let mut seen = BTreeSet::new();
    for request in example_requests(KEY) {
        let bytes = &request.bytes[..];
        if needs_lease(bytes) {
            continue;
        }
        let Some(row) = row_of(bytes) else { continue };
        check(&server, &mut near, bytes, &before(bytes))?;
        if row.told != Told::Nothing {
            seen.insert(format!("{} {}", dialect(bytes), row.name));
        }
    }
    let expected = "binary arithmetic, binary delete, binary flush_all, binary gat, binary store, \
                    binary touch, meta arithmetic, meta delete, meta store, text arithmetic, \
                    text delete, text delete_prefix, text flush_all, text gat, text store, \
                    text touch";
    assert_eq!(seen.into_iter().collect::<Vec<_>>().join(", "), expected);
    Ok(())
}

/// Forms of meta commands that change an item, and the requests before each.
const META: &[(&str, &str)] = &[
    ("mg k:8 T30", "ms k:8 1\r\n8\r\n"),
    ("mg k:8 T30 v q", "ms k:8 1\r\n8\r\n"),
    // The item is created.
    ("mg k:8 N30 v", "md k:8\r\n"),
    ("mg k:8 N30 q", "md k:8\r\n"),
    // The recache token is taken.
    ("mg k:8 R30 v", "ms k:8 1 T20\r\n8\r\n"),
    ("md k:8 I T30", "ms k:8 1\r\n8\r\n"),
    ("md k:8 x", "ms k:8 1\r\n8\r\n"),
    ("md k:8 q", "ms k:8 1\r\n8\r\n"),
    ("md azo4 b", "ms k:8 1\r\n8\r\n"),
    ("ms k:8 1 I C1\r\n9", "ms k:8 1 E8\r\n8\r\n"),
    ("ms k:8 1 MA\r\n9", "ms k:8 1\r\n8\r\n"),
    ("ms k:8 1 MP\r\n9", "ms k:8 1\r\n8\r\n"),
    ("ms k:8 1 MR\r\n9", "ms k:8 1\r\n8\r\n"),
    ("ms k:8 1 ME\r\n9", "md k:8\r\n"),
    ("ms k:8 1 MA N30\r\n9", "md k:8\r\n"),
    ("ma k:8", "ms k:8 1\r\n8\r\n"),
    ("ma k:8 MD T30", "ms k:8 1\r\n8\r\n"),
    ("ma k:8 N0 J5", "md k:8\r\n"),
    // The key has no item: an item of it, which was evicted, may have been copied.
    ("md k:8", "md k:8\r\n"),
    ("ma k:8", "md k:8\r\n"),
    ("ms k:8 1 MR\r\n9", "md k:8\r\n"),
];

#[test]
fn meta_commands_tell_changes_of_all_kinds() -> Result<()> {
    let server = start(Transport::Unix, &["--followers=9", "-o", "debugtime"])?;
    let mut near = Near::follow_within(&server, 60_000)?;
    for (line, before) in META {
        check(&server, &mut near, format!("{line}\r\n").as_bytes(), &format!("{before}mn\r\n"))
            .with_context(|| line.to_string())?;
    }
    Ok(())
}

/// Requests that leave the item as it was.
const UNCHANGED: &[(&str, &str)] = &[
    ("add k:8 0 0 1\r\n9", "NOT_STORED\r\n"),
    ("cas k:8 0 0 1 77\r\n9", "EXISTS\r\n"),
    ("ms k:8 1 C77\r\n9", "EX\r\n"),
    ("md k:8 C77", "EX\r\n"),
    ("ma k:8 C77", "EX\r\n"),
    ("mg k:8 v R30", "VA 1\r\n8\r\n"),
    ("mg k:8 v N30", "VA 1\r\n8\r\n"),
    ("lease-set k:8 5 0 0 1\r\n9", "NOT_STORED\r\n"),
];

#[test]
fn a_request_that_changes_nothing_tells_nothing() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=9"])?;
    let mut near = Near::follow(&server)?;
    run(&server, b"ms k:8 1 E8\r\n8\r\n")?;
    near.fetch(KEY)?;
    for (request, response) in UNCHANGED {
        let found = run(&server, format!("{request}\r\n").as_bytes())?;
        ensure!(found == response.as_bytes(), "{request:?}: {}", found.escape_ascii());
        let changes = near.changes()?;
        ensure!(changes.is_empty(), "{request:?}: {changes:?}");
    }
    Ok(())
}

#[test]
fn a_lease_tells_when_its_value_is_stored() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=9"])?;
    let mut near = Near::follow(&server)?;
    let lease = String::from_utf8(run(&server, b"lease-get k:8\r\n")?)?;
    let token = lease.split(' ').nth(2).context(lease.clone())?;
    ensure!(near.fetch(KEY)?.is_noted() && near.changes()?.is_empty());
    run(&server, format!("lease-set k:8 {token} 0 0 1\r\n9\r\n").as_bytes())?;
    ensure!(near.changes()? == [near.changed(KEY)]);
    Ok(())
}

/// A client that gives up must not leave the old value with others.
#[test]
fn a_store_that_fails_and_removes_the_item_tells() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=9", "-m", "8", "-M", "-I", "1m"])?;
    let mut near = Near::follow(&server)?;
    let set =
        |key: &str, bytes: usize| format!("set {key} 0 0 {bytes}\r\n{}\r\n", "v".repeat(bytes));
    run(&server, set("k:8", 10).as_bytes())?;
    ensure!(near.fetch(KEY)?.is_noted());
    let found = run(&server, set("k:8", 2 << 20).as_bytes())?;
    ensure!(found == b"SERVER_ERROR object too large for cache\r\n", "{}", found.escape_ascii());
    ensure!(near.changes()? == [near.changed(KEY)], "too large");
    for bytes in [500, 100_000] {
        run(&server, set("k:8", 10).as_bytes())?;
        ensure!(near.fetch(KEY)?.is_noted());
        let is_full = (0..100_000).try_fold(false, |is_full, n| match is_full {
            true => Ok(true),
            false => Ok::<bool, anyhow::Error>(
                run(&server, set(&format!("fill{bytes}:{n}"), 900_000).as_bytes())?
                    .starts_with(b"SERVER_ERROR out of memory"),
            ),
        })?;
        ensure!(is_full);
        near.changes()?;
        ensure!(near.fetch(KEY)?.is_noted());
        let found = run(&server, set("k:8", 800_000).as_bytes())?;
        ensure!(found.starts_with(b"SERVER_ERROR out of memory"), "{}", found.escape_ascii());
        ensure!(near.fetch(KEY)?.value.is_empty(), "the old item is removed");
        ensure!(near.changes()? == [near.changed(KEY)], "out of memory");
        run(&server, b"flush_all\r\n")?;
    }
    Ok(())
}

#[test]
fn large_values_that_arrive_in_parts_tell_when_they_are_stored() -> Result<()> {
    for io in ["uring", "epoll"] {
        let server = start(Transport::Tcp, &["--followers=9", &format!("--io={io}")]);
        let Ok(server) = server else { continue };
        let mut near = Near::follow(&server)?;
        ensure!(near.fetch(KEY)?.is_noted());
        let value = "v".repeat(300_000);
        let mut client = server.connect()?;
        client.write_all(format!("set k:8 0 0 {}\r\n{}", value.len(), &value[1..]).as_bytes())?;
        ensure!(near.changes()?.is_empty());
        client.ask(b"v\r\n", b"STORED\r\n")?;
        ensure!(near.changes()? == [near.changed(KEY)]);
        let copy = near.fetch(KEY)?;
        ensure!(copy.value == value.as_bytes() && copy.is_noted());
    }
    Ok(())
}

#[test]
fn requests_over_http_tell() -> Result<()> {
    let (server, admin) = http::start(&crate::binary(), &["--followers=9"])?;
    let mut near = Near::follow(&server)?;
    let ask = |near: &mut Near, method: &str, path: &str, body: &str| -> Result<Vec<Message>> {
        ensure!(near.fetch(KEY)?.is_noted());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-Larder: 1\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let response = http::exchange(&admin, request.as_bytes())?;
        ensure!(response.status < 300, "{method} {path}: {response:?}");
        near.changes()
    };
    let changed = [near.changed(KEY)];
    ensure!(ask(&mut near, "PUT", "/api/v1/cache/k:8", "v")? == changed);
    ensure!(ask(&mut near, "GET", "/api/v1/cache/k:8", "")? == []);
    ensure!(ask(&mut near, "PUT", "/api/v1/cache/k:8", &"v".repeat(500_000))? == changed);
    ensure!(ask(&mut near, "DELETE", "/api/v1/cache/k:8", "")? == changed);
    Ok(())
}
