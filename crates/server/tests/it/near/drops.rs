//! Which copies a near cache drops when it passes a command to its origin (rules
//! `AnswerInvalidates` and `FlushInvalidates`). A proxy keeps the reports of changes from the near
//! cache, so that a copy disappears only because of a command's answer.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::spawn;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use larder_protocol::docs::example_requests;
use larder_testkit::server::free_address;
use larder_testkit::{Address, ServerUnderTest, http};

use super::{await_state, count, start_near};
use crate::binary;
use crate::followers::commands::{KEY, run};
use crate::followers::table::{Dropped, before, dialect, needs_lease, row_of};

/// Starts a proxy to an origin that passes everything but reports of changes. Its threads end with
/// the test process.
fn start_deaf(origin: SocketAddr) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    spawn(move || {
        for near in listener.incoming().flatten() {
            spawn(move || link(near, origin));
        }
    });
    Ok(address)
}

/// Connects a near cache to the origin.
fn link(mut near: TcpStream, origin: SocketAddr) -> Result<()> {
    let mut origin = TcpStream::connect(origin)?;
    let mut request = [0; 65536];
    let bytes = near.read(&mut request)?;
    let is_stream = request[..bytes].starts_with(b"larder_follow ");
    origin.write_all(&request[..bytes])?;
    let (answers, mut asks) = (origin.try_clone()?, near.try_clone()?);
    spawn(move || std::io::copy(&mut asks, &mut origin));
    let mut answers = BufReader::new(answers);
    if !is_stream {
        std::io::copy(&mut answers, &mut near)?;
        return Ok(());
    }
    let mut line = Vec::new();
    while answers.read_until(b'\n', &mut line)? > 0 {
        if !line.starts_with(b"C ") && line != b"F\r\n" {
            near.write_all(&line)?;
        }
        line.clear();
    }
    Ok(())
}

/// An origin, and a near cache that receives no reports.
struct Deaf {
    origin: ServerUnderTest,
    near: ServerUnderTest,
    /// The admin listener of the near cache.
    admin: Address,
}

/// The values of the item that requests change, and of another item, after the test has changed
/// them where the near cache is not told.
const NEWEST: &[u8] = b"VA 6\r\nnewest\r\n";

impl Deaf {
    fn start() -> Result<Self> {
        let address = free_address()?;
        let args = ["--followers=9", "-o", "debugtime", "-t", "1"];
        let origin = ServerUnderTest::start_at(&binary(), Address::Tcp(address), &args)?;
        let proxy = start_deaf(address)?;
        let admin_address = free_address()?;
        let admin = Address::Tcp(admin_address);
        let listen = format!("--admin-listen={admin_address}");
        // On a busy machine, no copy may become stale, and no answer too late.
        let near_args = [&*listen, "--near-max-stale=60s", "--origin-timeout=20s"];
        let near = start_near(&proxy.to_string(), &near_args)?;
        http::wait_until_ready(&admin)?;
        await_state(&near, "copies")?;
        Ok(Self { origin, near, admin })
    }

    /// Makes the near cache copy the item, or its absence, after these requests at the origin, and
    /// another item.
    fn prepare(&self, before: &str) -> Result<()> {
        run(&self.near, b"flush_all\r\n")?;
        run(&self.origin, format!("{before}ms other 1 q\r\n1\r\n").as_bytes())?;
        let kept = count(&self.near, "near_kept")?;
        run(&self.near, b"mg k:8 v\r\nmg other v\r\n")?;
        let deadline = Instant::now() + Duration::from_secs(5);
        while count(&self.near, "near_kept")? < kept + 2 {
            ensure!(Instant::now() < deadline, "the items are not copied");
        }
        Ok(())
    }

    /// Returns which copies the near cache has dropped since they were made.
    fn dropped(&self) -> Result<Dropped> {
        run(&self.origin, b"ms k:8 6\r\nnewest\r\nms other 6\r\nnewest\r\n")?;
        let mut is_dropped = [false; 2];
        for (is_dropped, key) in is_dropped.iter_mut().zip(["k:8", "other"]) {
            let answer = run(&self.near, format!("mg {key} v\r\n").as_bytes())?;
            ensure!(!answer.starts_with(b"SERVER_ERROR"), "{}", answer.escape_ascii());
            *is_dropped = answer == NEWEST;
        }
        Ok(match is_dropped {
            [false, false] => Dropped::Nothing,
            [true, false] => Dropped::Key,
            [true, true] => Dropped::Everything,
            [false, true] => bail!("the copy of another key is dropped"),
        })
    }

    /// Checks which copies a request drops.
    fn check(&self, request: &[u8], before: &str, expected: Dropped) -> Result<()> {
        self.prepare(before)?;
        let answer = run(&self.near, request)?;
        let dropped = self.dropped()?;
        ensure!(
            dropped == expected,
            "answered {}: the near cache drops {dropped:?} and not {expected:?}",
            answer.escape_ascii()
        );
        if dropped == Dropped::Everything {
            // The flush may be due later. A get makes it due.
            run(&self.origin, b"debugtime 100\r\n")?;
            run(&self.origin, b"get k\r\n")?;
        }
        Ok(())
    }
}

/// Every command of the three dialects, in every form of the tables.
#[test]
fn each_command_drops_what_the_table_says() -> Result<()> {
    let deaf = Deaf::start()?;
    let mut seen = BTreeSet::new();
    for request in example_requests(KEY) {
        let bytes = &request.bytes[..];
        if needs_lease(bytes) {
            continue;
        }
        let Some(row) = row_of(bytes) else { continue };
        deaf.check(bytes, &before(bytes), row.dropped)
            .with_context(|| bytes.escape_ascii().to_string())?;
        if row.dropped != Dropped::Nothing {
            seen.insert(format!("{} {}", dialect(bytes), row.name));
        }
    }
    let expected = "binary arithmetic, binary delete, binary flush_all, binary gat, binary store, \
                    binary touch, meta arithmetic, meta delete, meta inspect, meta store, \
                    text arithmetic, text delete, text delete_prefix, text flush_all, text gat, \
                    text inspect, text lease-get, text store, text touch";
    assert_eq!(seen.into_iter().collect::<Vec<_>>().join(", "), expected);
    Ok(())
}

/// Forms of meta commands, and commands that the origin refuses, with what each drops.
const FORMS: &[(&str, Dropped)] = &[
    ("mg k:8 v c f k s t O1 q", Dropped::Nothing),
    ("mg azo4 b v k", Dropped::Nothing),
    ("mg k:8 h", Dropped::Key),
    ("mg k:8 v l", Dropped::Key),
    ("mg k:8 T30", Dropped::Key),
    ("mg k:8 T30 v q", Dropped::Key),
    ("mg k:8 N30 v", Dropped::Key),
    ("mg k:8 R30 v", Dropped::Key),
    ("mg k:8 E5 v", Dropped::Key),
    ("mg k:8 C5 v", Dropped::Key),
    ("mg azo4 b h", Dropped::Key),
    ("me azo4 b", Dropped::Key),
    ("md k:8 I T30", Dropped::Key),
    ("md k:8 x q", Dropped::Key),
    ("ms k:8 1 C77\r\n9", Dropped::Key),
    ("ms k:8 1 ME\r\n9", Dropped::Key),
    ("ms azo4 1 b MA q\r\n9", Dropped::Key),
    ("ma k:8 MD N0 J5", Dropped::Key),
    ("add k:8 0 0 1\r\n9", Dropped::Key),
    ("cas k:8 0 0 1 77\r\n9", Dropped::Key),
    ("incr k:8 x", Dropped::Nothing),
    ("lease-set k:8 5 0 0 1\r\n9", Dropped::Key),
    // The value is too long by a byte: nothing is passed.
    ("set k:8 0 0 1\r\n99", Dropped::Nothing),
    ("flush_all -1", Dropped::Everything),
    ("flush_all noreply", Dropped::Everything),
    ("delete_prefix azo= b", Dropped::Everything),
];

#[test]
fn forms_of_commands_drop_what_they_may_change() -> Result<()> {
    let deaf = Deaf::start()?;
    for (request, dropped) in FORMS {
        deaf.check(format!("{request}\r\n").as_bytes(), "ms k:8 1 q\r\n8\r\nmn\r\n", *dropped)
            .with_context(|| request.to_string())?;
        let absent = format!("{request} of an absent item");
        deaf.check(format!("{request}\r\n").as_bytes(), "md k:8 q\r\nmn\r\n", *dropped)
            .context(absent)?;
    }
    let large = format!("set k:8 0 0 {}\r\n{}\r\n", 2 << 20, "v".repeat(2 << 20));
    deaf.check(large.as_bytes(), "ms k:8 1 q\r\n8\r\nmn\r\n", Dropped::Key).context("too large")
}

/// The operations on items of the HTTP API, each with its body and the status of its response.
const HTTP: &[(&str, &str, u16, Dropped)] = &[
    ("GET /api/v1/cache/k:8", "", 200, Dropped::Key),
    ("HEAD /api/v1/cache/k:8", "", 200, Dropped::Key),
    ("PUT /api/v1/cache/k:8", "9", 201, Dropped::Key),
    ("DELETE /api/v1/cache/k:8", "", 200, Dropped::Key),
    ("GET /api/v1/item/azo4", "", 200, Dropped::Key),
    ("DELETE /api/v1/item/azo4", "", 200, Dropped::Key),
    ("DELETE /api/v1/cache/clear", "", 200, Dropped::Everything),
    ("POST /api/v1/clear", "", 200, Dropped::Everything),
    ("POST /api/v1/delete-prefix", r#"{"prefix":"k"}"#, 403, Dropped::Nothing),
    ("GET /api/v1/delete-prefix/1", "", 404, Dropped::Nothing),
    ("DELETE /api/v1/delete-prefix/1", "", 404, Dropped::Nothing),
    ("GET /api/v1/keys", "", 200, Dropped::Nothing),
    ("GET /api/v1/hot", "", 200, Dropped::Nothing),
    ("GET /api/v1/slow", "", 200, Dropped::Nothing),
    ("GET /api/v1/prefixes", "", 200, Dropped::Nothing),
    ("GET /api/v1/stats", "", 200, Dropped::Nothing),
    ("GET /api/v1/status", "", 200, Dropped::Nothing),
    ("GET /api/v1/settings", "", 200, Dropped::Nothing),
    ("GET /api/v1/history", "", 200, Dropped::Nothing),
    ("GET /api/v1/configuration", "", 200, Dropped::Nothing),
    ("GET /api/v1/role", "", 200, Dropped::Nothing),
    ("GET /api/v1/drain", "", 200, Dropped::Nothing),
    ("POST /api/v1/drain", "", 200, Dropped::Nothing),
    ("DELETE /api/v1/drain", "", 200, Dropped::Nothing),
    ("POST /api/v1/kill", r#"{"connection":4000}"#, 200, Dropped::Nothing),
    ("POST /api/v1/memory-limit", r#"{"megabytes":63}"#, 200, Dropped::Nothing),
];

#[test]
fn requests_over_http_drop_what_they_may_change() -> Result<()> {
    let deaf = Deaf::start()?;
    for (request, body, status, expected) in HTTP {
        deaf.prepare("ms k:8 1 q\r\n8\r\n")?;
        let bytes = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nX-Larder: 1\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let response = http::exchange(&deaf.admin, bytes.as_bytes()).context(*request)?;
        ensure!(response.status == *status, "{request}: {response:?}");
        let dropped = deaf.dropped()?;
        ensure!(dropped == *expected, "{request}: drops {dropped:?} and not {expected:?}");
    }
    Ok(())
}

/// The paths of docs/http.md under `/api/v1` are in the table.
#[test]
fn the_table_has_every_operation_over_http() -> Result<()> {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md");
    let docs = std::fs::read_to_string(docs)?;
    let mut paths = BTreeSet::new();
    for row in docs.lines().filter(|line| line.starts_with("| `")) {
        let cell = row.trim_start_matches("| ").split(" | ").next().unwrap_or_default();
        let path = cell
            .split_whitespace()
            .map(|word| word.trim_matches(['`', ',']))
            .find_map(|word| word.strip_prefix("/api/v1/"));
        paths.extend(path.map(|path| path.split(['{', '?']).next().unwrap_or_default().to_owned()));
    }
    ensure!(paths.len() > 15, "{paths:?}");
    for path in paths {
        let is_known =
            HTTP.iter().any(|(request, ..)| request.contains(&format!("/api/v1/{path}")));
        ensure!(is_known, "the table lacks /api/v1/{path}");
    }
    Ok(())
}
