//! Removal by prefix and the listing of keys, in the cache protocol and over HTTP.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::UdpSocket;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::http::{Response, exchange, get, wait_until_ready};
use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binary;

/// Enough items that removing them takes a hundred milliseconds or more.
const ITEMS: usize = 300_000;

/// The address of an admin listener, and the folder of its socket, which is removed with it.
struct Admin {
    address: Address,
    _folder: TempDir,
}

impl Deref for Admin {
    type Target = Address;

    fn deref(&self) -> &Address {
        &self.address
    }
}

/// Starts a server on a unix socket with an admin listener on another.
fn start(args: &[&str]) -> Result<(ServerUnderTest, Admin)> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("admin.sock");
    let option = format!("--admin-listen={}", socket.display());
    let args: Vec<&str> = [option.as_str()].iter().chain(args).copied().collect();
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &args)?;
    // The server opens it after the other one.
    let deadline = Instant::now() + Duration::from_secs(20);
    while Stream::connect(&Address::Unix(socket.clone())).is_err() {
        ensure!(Instant::now() < deadline, "no admin socket: {}", server.log());
        sleep(Duration::from_millis(5));
    }
    let admin = Admin { address: Address::Unix(socket), _folder: folder };
    wait_until_ready(&admin)?;
    Ok((server, admin))
}

/// Sends a request with a body.
fn send(admin: &Address, method: &str, path: &str, body: &str, headers: &str) -> Result<Response> {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    exchange(admin, request.as_bytes())
}

fn post(admin: &Address, body: &str) -> Result<Response> {
    send(admin, "POST", "/api/v1/delete-prefix", body, "")
}

fn parsed(response: &Response) -> Result<Value> {
    serde_json::from_str(&response.body).with_context(|| format!("{response:?}"))
}

/// Begins a removal and returns its number.
fn begin(admin: &Address, body: &str) -> Result<u64> {
    let response = post(admin, body)?;
    ensure!(response.status == 202, "{body}: {response:?}");
    parsed(&response)?["id"].as_u64().context("a number")
}

/// Waits for the end of a removal, and returns its last state. The progress must never decrease.
fn wait_for_end(admin: &Address, id: u64) -> Result<Value> {
    let (deadline, mut progress) = (Instant::now() + Duration::from_secs(60), 0.0);
    loop {
        let state = parsed(&get(admin, &format!("/api/v1/delete-prefix/{id}"), &[])?)?;
        let now = state["progress"].as_f64().context("progress")?;
        ensure!((progress..=1.0).contains(&now), "progress was {progress}: {state}");
        progress = now;
        if state["state"] != "running" {
            return Ok(state);
        }
        ensure!(Instant::now() < deadline, "the removal does not end: {state}");
        sleep(Duration::from_millis(2));
    }
}

/// Stores items with this key prefix and value under these numbers.
fn fill(stream: &mut Stream, prefix: &str, value: &str, numbers: &[usize]) -> Result<()> {
    for numbers in numbers.chunks(1000) {
        let line = |number| format!("{prefix}{number} 0 0 {} noreply\r\n{value}\r\n", value.len());
        let sets: String = numbers.iter().map(|number| "set ".to_owned() + &line(number)).collect();
        stream.write_all(sets.as_bytes())?;
    }
    stream.ask(b"mn\r\n", b"MN\r\n")?;
    Ok(())
}

/// Returns the value of each of these items.
fn values(stream: &mut Stream, prefix: &str, numbers: &[usize]) -> Result<Vec<Option<String>>> {
    let mut values = Vec::new();
    for numbers in numbers.chunks(1000) {
        let gets: String =
            numbers.iter().map(|number| format!("mg {prefix}{number} v\r\n")).collect();
        let answer = stream.ask((gets + "mn\r\n").as_bytes(), b"MN\r\n")?;
        let answer = String::from_utf8(answer)?;
        let mut lines = answer.split("\r\n");
        for _ in numbers {
            let value = match lines.next().context("a line")? {
                "EN" => None,
                _ => Some(lines.next().context("a value")?.to_owned()),
            };
            values.push(value);
        }
    }
    Ok(values)
}

fn all() -> Vec<usize> {
    (0..ITEMS).collect()
}

/// Clients store all the time. Items stored after the request must stay, and items stored before it
/// must be removed. Returns how many stores happened before the end of the removal.
fn hammered(args: &[&str], may_lose_new: bool) -> Result<()> {
    let (server, admin) = start(args)?;
    let mut stream = server.connect()?;
    let (even, odd): (Vec<usize>, Vec<usize>) = all().into_iter().partition(|n| n % 2 == 0);
    fill(&mut stream, "p:", "old", &all())?;
    fill(&mut stream, "q:", "old", &odd[..1000])?;
    let kept = values(&mut stream, "q:", &odd[..1000])?;
    let id = begin(&admin, r#"{"prefix":"p:"}"#)?;
    let is_over = AtomicBool::new(false);
    let during = thread::scope(|scope| -> Result<usize> {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (even, server, is_over) = (&even, &server, &is_over);
                scope.spawn(move || -> Result<usize> {
                    let mut stream = server.connect()?;
                    let mut during = 0;
                    let half = &even[writer * even.len() / 2..][..even.len() / 2];
                    for numbers in half.chunks(100) {
                        fill(&mut stream, "p:", "new", numbers)?;
                        during += if is_over.load(Relaxed) { 0 } else { numbers.len() };
                    }
                    Ok(during)
                })
            })
            .collect();
        let state = wait_for_end(&admin, id);
        is_over.store(true, Relaxed);
        let during = writers.into_iter().map(|writer| writer.join().expect("no panic"));
        let during = during.sum::<Result<usize>>()?;
        let state = state?;
        ensure!(state["state"] == "done" && state["progress"] == 1.0, "{state}");
        Ok(during)
    })?;
    ensure!(during > 1000, "only {during} stores during the removal");
    let left = values(&mut stream, "p:", &odd)?.into_iter().flatten().count();
    ensure!(left == 0, "{left} items stored before the request are left");
    let new = values(&mut stream, "p:", &even)?;
    let old = new.iter().flatten().filter(|value| *value != "new").count();
    ensure!(old == 0, "{old} items have the value from before the request");
    let lost = new.iter().filter(|value| value.is_none()).count();
    ensure!(may_lose_new || lost == 0, "{lost} items stored after the request are gone");
    let others = values(&mut stream, "q:", &odd[..1000])?;
    ensure!(may_lose_new || others == kept, "items without the prefix are gone");
    Ok(())
}

#[test]
fn what_is_stored_after_the_request_stays_and_what_was_stored_before_goes() -> Result<()> {
    hammered(&["-m", "256"], false)
}

#[test]
fn so_it_is_without_cas_tokens() -> Result<()> {
    hammered(&["-m", "256", "-C"], false)
}

/// Eviction moves items to other places in the meantime.
#[test]
fn so_it_is_in_a_memory_that_is_too_small() -> Result<()> {
    hammered(&["-m", "12"], true)?;
    hammered(&["-m", "12", "-C"], true)
}

#[test]
fn one_removal_runs_at_a_time_and_the_wire_shows_it() -> Result<()> {
    let (server, admin) = start(&["-m", "256"])?;
    let mut stream = server.connect()?;
    fill(&mut stream, "a:", "v", &all())?;
    let both = b"delete_prefix a:\r\ndelete_prefix b:\r\nstats delete_prefix\r\n";
    let answer = String::from_utf8(stream.ask(both, b"END\r\n")?)?;
    let mut lines = answer.split("\r\n");
    let head: Vec<&str> = lines.by_ref().take(5).collect();
    let expected =
        ["OK 1", "SERVER_ERROR busy", "STAT id 1", "STAT prefix a%3A", "STAT state running"];
    assert_eq!(head, expected, "{answer}");
    let names = lines.filter_map(|line| line.split(' ').nth(1)).collect::<Vec<_>>();
    assert_eq!(names, ["removed", "progress", "secs"]);
    assert_eq!(post(&admin, r#"{"prefix":"b:"}"#)?.status, 409);
    let state = wait_for_end(&admin, 1)?;
    assert_eq!((&state["prefix"], &state["removed"]), (&json!("a:"), &json!(ITEMS)));
    ensure!(state["secs"].as_f64().is_some_and(|secs| secs > 0.0), "{state}");
    let shown = String::from_utf8(stream.ask(b"stats delete_prefix\r\n", b"END\r\n")?)?;
    ensure!(shown.contains("STAT state done\r\n"), "{shown}");
    ensure!(shown.contains(&format!("STAT removed {ITEMS}\r\n")), "{shown}");
    ensure!(shown.contains("STAT progress 1.000\r\n"), "{shown}");
    // The next removal may begin now.
    assert_eq!(stream.ask(b"delete_prefix b:\r\n", b"\r\n")?, b"OK 2\r\n");
    assert_eq!(wait_for_end(&admin, 2)?["removed"], 0);
    assert_eq!(wait_for_end(&admin, 1)?["state"], "done", "the one before is remembered");
    Ok(())
}

#[test]
fn a_removal_can_be_cancelled() -> Result<()> {
    let (server, admin) = start(&["-m", "256"])?;
    let mut stream = server.connect()?;
    fill(&mut stream, "a:", "v", &all())?;
    let body = r#"{"prefix":"a:"}"#;
    // On one connection, so that the second request arrives while the removal runs.
    let both = format!(
        "POST /api/v1/delete-prefix HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}\
         DELETE /api/v1/delete-prefix/1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let first = exchange(&admin, both.as_bytes())?;
    ensure!(first.status == 202 && first.body.contains("HTTP/1.1 200"), "{first:?}");
    let state = wait_for_end(&admin, 1)?;
    assert_eq!(state["state"], "cancelled");
    let removed = state["removed"].as_u64().context("removed")? as usize;
    ensure!(removed < ITEMS && state["progress"].as_f64() < Some(1.0), "{state}");
    let left = values(&mut stream, "a:", &all())?.into_iter().flatten().count();
    assert_eq!(left, ITEMS - removed, "what it reports is not what it removed");
    let again = begin(&admin, body)?;
    assert_eq!(wait_for_end(&admin, again)?["removed"], left, "the next one removes the rest");
    let late = send(&admin, "DELETE", &format!("/api/v1/delete-prefix/{again}"), "", "")?;
    assert_eq!(parsed(&late)?["state"], "done", "a removal that has ended stays as it ended");
    Ok(())
}

#[test]
fn a_removal_does_not_survive_its_server() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = format!("-e{}", folder.path().join("memory").display());
    let (server, _) = start(&["-m", "256", &file])?;
    let mut stream = server.connect()?;
    fill(&mut stream, "a:", "v", &all())?;
    assert_eq!(stream.ask(b"delete_prefix a:\r\n", b"\r\n")?, b"OK 1\r\n");
    let status = server.stop(Signal::TERM)?;
    ensure!(status.success(), "{status:?}");
    let (server, admin) = start(&["-m", "256", &file])?;
    assert_eq!(get(&admin, "/api/v1/delete-prefix/1", &[])?.status, 404);
    let mut stream = server.connect()?;
    assert_eq!(stream.ask(b"stats delete_prefix\r\n", b"END\r\n")?, b"END\r\n");
    let left = values(&mut stream, "a:", &all())?.into_iter().flatten().count();
    ensure!(left > 0, "the whole removal was over before the server ended");
    sleep(Duration::from_millis(300));
    let later = values(&mut stream, "a:", &all())?.into_iter().flatten().count();
    assert_eq!(later, left, "the removal went on");
    Ok(())
}

#[test]
fn roles_and_options_decide_who_may_remove_and_list() -> Result<()> {
    const READ: &str = "read-0123456789-0123456789-012345";
    let tokens = tempfile::NamedTempFile::new()?;
    std::fs::write(tokens.path(), format!("read {READ}\n"))?;
    let option = format!("--admin-token-file={}", tokens.path().display());
    let (_server, admin) = start(&["-F", "-X", &option])?;
    let (body, token) = (r#"{"prefix":"a"}"#, format!("Authorization: Bearer {READ}\r\n"));
    for (method, path, role, expected) in [
        ("POST", "/api/v1/delete-prefix", "", "-F"),
        ("POST", "/api/v1/delete-prefix", token.as_str(), "role"),
        ("DELETE", "/api/v1/delete-prefix/1", &token, "role"),
        ("GET", "/api/v1/keys", "", "-X"),
        ("GET", "/api/v1/keys", &token, "-X"),
    ] {
        let response = send(&admin, method, path, body, role)?;
        ensure!(response.status == 403 && response.body.contains(expected), "{response:?}");
    }
    assert_eq!(send(&admin, "GET", "/api/v1/delete-prefix/1", "", &token)?.status, 404);
    // Without a token, a listener that is not trusted does neither.
    let admin = free_address()?;
    let option = format!("--admin-listen={admin}");
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &[&option])?;
    let admin = Address::Tcp(admin);
    wait_until_ready(&admin)?;
    for (method, path) in [
        ("POST", "/api/v1/delete-prefix"),
        ("GET", "/api/v1/delete-prefix/1"),
        ("DELETE", "/api/v1/delete-prefix/1"),
        ("GET", "/api/v1/keys"),
    ] {
        let response = send(&admin, method, path, body, "")?;
        ensure!(response.status == 401, "{method} {path}: {response:?}");
    }
    drop(server);
    Ok(())
}

#[test]
fn with_x_a_removal_is_shown_without_its_prefix() -> Result<()> {
    let (server, admin) = start(&["-X"])?;
    let id = begin(&admin, r#"{"prefix":"secret:"}"#)?;
    let state = wait_for_end(&admin, id)?;
    ensure!(state["state"] == "done" && !state.to_string().contains("secret"), "{state}");
    let shown = server.connect()?.ask(b"stats delete_prefix\r\n", b"END\r\n")?;
    let shown = String::from_utf8(shown)?;
    ensure!(shown.starts_with("STAT id 1\r\nSTAT state done\r\n"), "{shown}");
    Ok(())
}

#[test]
fn a_login_comes_first_and_a_datagram_cannot_remove() -> Result<()> {
    let users = tempfile::NamedTempFile::new()?;
    std::fs::write(users.path(), "user:password\n")?;
    let option = format!("-Y{}", users.path().display());
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &[&option])?;
    let answer = server.connect()?.ask(b"delete_prefix a\r\n", b"\r\n")?;
    assert_eq!(answer, b"CLIENT_ERROR unauthenticated\r\n");

    let port = free_address()?.port().to_string();
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &["-U", &port])?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.send_to(b"\0\x07\0\0\0\x01\0\0delete_prefix a\r\n", format!("127.0.0.1:{port}"))?;
    let mut answer = [0; 200];
    let bytes = socket.recv(&mut answer)?;
    assert_eq!(&answer[8..bytes], b"CLIENT_ERROR delete_prefix needs TCP or a unix socket\r\n");
    assert_eq!(server.connect()?.ask(b"stats delete_prefix\r\n", b"END\r\n")?, b"END\r\n");
    Ok(())
}

#[test]
fn bad_requests_are_refused_with_a_reason() -> Result<()> {
    let (server, admin) = start(&[])?;
    let long = format!("{{\"prefix\":\"{}\"}}", "k".repeat(251));
    let huge = format!("{{\"prefix\":\"{}\"}}", "k".repeat(70_000));
    for (body, status, words) in [
        ("", 400, "not a JSON object"),
        ("{", 400, "not a JSON object"),
        ("[]", 400, "not a JSON object"),
        ("{\"prefix\":\"\u{0}\"}", 400, "not a JSON object"),
        ("{}", 400, "expected"),
        (r#"{"prefix":7}"#, 400, "expected"),
        (r#"{"prefix":"a","more":1}"#, 400, "expected"),
        (r#"{"prefix":""}"#, 400, "/api/v1/clear"),
        (r#"{"prefix_base64":""}"#, 400, "/api/v1/clear"),
        (r#"{"prefix_base64":"x"}"#, 400, "base64"),
        (&long, 400, "longer than a key"),
        (&huge, 413, "too large"),
    ] {
        let response = post(&admin, body)?;
        let shown = &body[..body.len().min(60)];
        ensure!(
            response.status == status && response.body.contains(words),
            "{shown:?}: {response:?}"
        );
    }
    // A body without an announced length is counted as it arrives.
    let chunk = format!("1000\r\n{}\r\n", "k".repeat(4096));
    let chunked = "POST /api/v1/delete-prefix HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Transfer-Encoding: chunked\r\n\r\n";
    let endless = exchange(&admin, (chunked.to_owned() + &chunk.repeat(40)).as_bytes())?;
    ensure!(endless.status == 413, "{endless:?}");
    let body = "10\r\n{\"prefix\":\"abc\"}\r\n0\r\n\r\n";
    let accepted = exchange(&admin, (chunked.to_owned() + body).as_bytes())?;
    ensure!(accepted.status == 202, "{accepted:?}");
    for (path, status) in [
        ("/api/v1/delete-prefix/", 404),
        ("/api/v1/delete-prefix/x", 400),
        ("/api/v1/delete-prefix/-1", 400),
        ("/api/v1/delete-prefix/99", 404),
        ("/api/v1/keys?limit=0", 400),
        ("/api/v1/keys?cursor=AAAA", 400),
        ("/api/v1/keys?nonsense=1", 400),
    ] {
        assert_eq!(get(&admin, path, &[])?.status, status, "{path}");
    }
    ensure!(!server.log().contains("panicked"), "{}", server.log());
    Ok(())
}

/// Returns the rows of all pages, and the number of pages.
fn listed(admin: &Address, query: &str, rows_max: usize) -> Result<(Vec<Value>, usize)> {
    listed_from(admin, query, rows_max, String::new())
}

/// Same as [`listed`], but starts at a given page.
fn listed_from(
    admin: &Address,
    query: &str,
    rows_max: usize,
    mut cursor: String,
) -> Result<(Vec<Value>, usize)> {
    let (mut rows, mut pages) = (Vec::new(), 0);
    loop {
        let path = format!("/api/v1/keys?limit={rows_max}{query}{cursor}");
        let response = get(admin, &path, &[])?;
        ensure!(response.status == 200, "{path}: {response:?}");
        let page = parsed(&response)?;
        let keys = page["keys"].as_array().context("keys")?;
        ensure!(keys.len() <= rows_max, "{} rows", keys.len());
        rows.extend(keys.iter().cloned());
        pages += 1;
        match page["cursor"].as_str() {
            None => return Ok((rows, pages)),
            Some(next) => cursor = format!("&cursor={next}"),
        }
    }
}

#[test]
fn keys_are_listed_page_by_page_with_what_is_known_of_them() -> Result<()> {
    let (server, admin) = start(&["-m", "64"])?;
    let mut stream = server.connect()?;
    let numbers: Vec<usize> = (0..1000).collect();
    fill(&mut stream, "a:", "v", &numbers)?;
    fill(&mut stream, "b:", "v", &numbers)?;
    stream.ask(b"set b:ttl 0 1000 5\r\nvalue\r\n", b"STORED\r\n")?;
    let (rows, pages) = listed(&admin, "&prefix=a%3A", 7)?;
    let keys: BTreeSet<&str> = rows.iter().filter_map(|row| row["key"].as_str()).collect();
    let expected: BTreeSet<String> = numbers.iter().map(|number| format!("a:{number}")).collect();
    assert!(keys.iter().eq(expected.iter()), "{} of 1000 keys", keys.len());
    ensure!(rows.len() == 1000 && pages > 1000 / 7, "{} rows, {pages} pages", rows.len());
    let (rows, _) = listed(&admin, "&prefix=b:t", 1)?;
    let [row] = &rows[..] else { anyhow::bail!("{rows:?}") };
    ensure!(row["bytes"] == 5 && row["key"] == "b:ttl", "{row}");
    ensure!(row["ttl_secs"].as_u64().is_some_and(|secs| (980..=1000).contains(&secs)), "{row}");
    ensure!(row["idle_secs"].as_u64().is_some_and(|secs| secs < 20), "{row}");
    let (rows, _) = listed(&admin, "&prefix=a:7", 1000)?;
    ensure!(rows.len() == 111 && rows.iter().all(|row| row["ttl_secs"].is_null()), "{rows:?}");
    assert_eq!(listed(&admin, "&prefix=none", 1000)?.0.len(), 0);
    Ok(())
}

/// A page examines only a part of the index, so it may have no rows but a cursor nevertheless. A
/// cursor is still valid after the index has grown.
#[test]
fn a_page_is_bounded_in_work_and_its_cursor_survives_growth() -> Result<()> {
    let (server, admin) = start(&["-m", "256"])?;
    let mut stream = server.connect()?;
    let numbers: Vec<usize> = (0..1000).collect();
    fill(&mut stream, "few:", "v", &numbers)?;
    fill(&mut stream, "many:", "v", &all()[..100_000])?;
    let page = parsed(&get(&admin, "/api/v1/keys?prefix=few:&limit=1000", &[])?)?;
    let first = page["keys"].as_array().context("keys")?.clone();
    let cursor = page["cursor"].as_str().context("all of the index in a page")?.to_owned();
    ensure!(first.len() < 1000, "{} rows", first.len());
    fill(&mut stream, "more:", "v", &all())?;
    let (rest, pages) = listed_from(&admin, "&prefix=few:", 1000, format!("&cursor={cursor}"))?;
    let keys: BTreeSet<&str> =
        first.iter().chain(&rest).filter_map(|row| row["key"].as_str()).collect();
    assert_eq!(keys.len(), 1000, "keys are missing after {pages} more pages");
    let (none, pages) = listed(&admin, "&prefix=none", 1000)?;
    ensure!(none.is_empty() && pages > 5, "{pages} pages without a row");
    // Another server does not accept the cursor.
    let (_other, admin) = start(&[])?;
    assert_eq!(get(&admin, &format!("/api/v1/keys?cursor={cursor}"), &[])?.status, 400);
    Ok(())
}

#[test]
fn binary_keys_are_listed_and_removed_in_base64() -> Result<()> {
    let (server, admin) = start(&[])?;
    let mut stream = server.connect()?;
    // FF 00 61, FF 00 62 and FF 01.
    for key in ["/wBh", "/wBi", "/wE="] {
        stream.ask(format!("ms {key} 1 b\r\nv\r\n").as_bytes(), b"HD\r\n")?;
    }
    let keys = |rows: Vec<Value>| -> BTreeSet<String> {
        rows.iter().filter_map(|row| row["key_base64"].as_str().map(str::to_owned)).collect()
    };
    let (rows, _) = listed(&admin, "&prefix=%ff%00", 10)?;
    assert_eq!(keys(rows), ["/wBh", "/wBi"].map(str::to_owned).into());
    let (rows, _) = listed(&admin, "&prefix_base64=/wE%3D", 10)?;
    assert_eq!(keys(rows), ["/wE=".to_owned()].into());
    let id = begin(&admin, r#"{"prefix_base64":"/wA="}"#)?;
    let state = wait_for_end(&admin, id)?;
    ensure!(state["removed"] == 2 && state["prefix_base64"] == "/wA=", "{state}");
    assert_eq!(stream.ask(b"delete_prefix /wE= b\r\n", b"\r\n")?, b"OK 2\r\n");
    assert_eq!(wait_for_end(&admin, 2)?["removed"], 1);
    Ok(())
}
