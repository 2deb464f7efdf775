//! Items over HTTP: `/api/v1/cache/{key}`, compared with the cache protocol of the same server.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::Stream;
use larder_testkit::http;
use larder_testkit::http::{exchange, parse};

use crate::item_scene::{Cache, MIB, chunked, head, pattern};

#[test]
fn an_item_is_stored_read_and_removed() -> Result<()> {
    let cache = Cache::start(&[])?;
    assert_eq!(cache.get("k")?.status, 404);
    let stored = cache.put("k", &["X-Larder-Flags: 7"], b"value\r\n\0")?;
    assert_eq!((stored.status, stored.bytes.len()), (201, 0), "{stored:?}");
    assert_eq!(cache.wire("get k\r\n", "END\r\n")?, "VALUE k 7 8\r\nvalue\r\n\0\r\nEND\r\n");
    for method in ["GET", "HEAD"] {
        let found = cache.ask(method, "k", &[], b"")?;
        let value: &[u8] = if method == "GET" { b"value\r\n\0" } else { b"" };
        assert_eq!((found.status, found.bytes.as_slice()), (200, value), "{found:?}");
        for (name, value) in [
            ("content-length", "8"),
            ("content-type", "application/octet-stream"),
            ("x-larder-flags", "7"),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "sandbox"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            let given = found.headers.get(name).map(String::as_str);
            assert_eq!(given, Some(value), "{method}: {name} of {found:?}");
        }
        ensure!(!found.headers.contains_key("x-larder-ttl"), "it never expires: {found:?}");
    }
    cache.wire("set w 9 0 5\r\nhello\r\n", "STORED\r\n")?;
    let found = cache.get("w")?;
    assert_eq!((found.body.as_str(), found.headers["x-larder-flags"].as_str()), ("hello", "9"));
    assert_eq!(cache.ask("DELETE", "w", &[], b"")?.status, 200);
    assert_eq!(cache.ask("DELETE", "w", &[], b"")?.status, 404);
    assert_eq!(cache.ask("HEAD", "w", &[], b"")?.status, 404);
    assert_eq!(cache.wire("get w\r\n", "END\r\n")?, "END\r\n");
    let other = cache.ask("POST", "k", &[], b"")?;
    assert_eq!((other.status, other.headers["allow"].as_str()), (405, "GET, HEAD, PUT, DELETE"));
    assert_eq!(cache.put("empty", &[], b"")?.status, 201);
    let empty = cache.get("empty")?;
    assert_eq!((empty.status, empty.headers["content-length"].as_str()), (200, "0"));
    Ok(())
}

#[test]
fn the_ttl_comes_from_a_header_or_a_parameter_and_returns() -> Result<()> {
    let cache = Cache::start(&[])?;
    let max_age = "Cache-Control: max-age=100";
    for (path, headers) in [
        ("a", &[max_age][..]),
        ("b?ttl=100", &[]),
        ("c?ttl=100", &[max_age]),
        ("d?ttl=4000000", &[]),
    ] {
        let stored = cache.put(path, headers, b"v")?;
        ensure!(stored.status == 201, "{path} {headers:?}: {stored:?}");
    }
    for (key, ttl_secs) in [("a", 100), ("b", 100), ("c", 100), ("d", 4_000_000_i64)] {
        let shown: i64 = cache.get(key)?.headers["x-larder-ttl"].parse()?;
        ensure!((ttl_secs - 3..=ttl_secs).contains(&shown), "{key}: {shown} of {ttl_secs} s");
        let wire = cache.wire(&format!("mg {key} t\r\n"), "\r\n")?;
        let wire: i64 = wire.trim().trim_start_matches("HD t").parse()?;
        ensure!((shown - 2..=shown).contains(&wire), "{key}: {wire} on the wire, {shown} here");
    }
    for (path, headers, words) in [
        ("x?ttl=99", &[max_age][..], "differ"),
        ("x?ttl=0", &[], "1 to 2147483647"),
        ("x?time=1", &[], "ttl=SECONDS"),
        ("x", &["Cache-Control: max-age=soon"], "1 to 2147483647"),
        ("x", &["X-Larder-Flags: -1"], "X-Larder-Flags"),
        ("x", &["If-None-Match: *"], "not supported"),
        ("x", &["Content-Range: bytes 0-1/2"], "sent as a whole"),
    ] {
        let refused = cache.put(path, headers, b"v")?;
        let is_named = refused.status == 400 && refused.body.contains(words);
        ensure!(is_named, "{path} {headers:?}: {refused:?}");
    }
    assert_eq!(cache.get("x")?.status, 404, "a refused request has stored something");
    assert_eq!(cache.ask("DELETE", "a", &["If-Match: 1"], b"")?.status, 400);
    assert_eq!(cache.ask("GET", "a?ttl=5", &[], b"")?.status, 400);
    cache.put("short?ttl=1", &[], b"v")?;
    sleep(Duration::from_millis(2_100));
    assert_eq!(cache.get("short")?.status, 404, "a TTL of 1 s outlives 2.1 s");
    Ok(())
}

#[test]
fn a_key_is_the_raw_path_decoded_once() -> Result<()> {
    let cache = Cache::start(&[])?;
    let long = "k".repeat(250);
    for (stored_as, read_as) in [
        ("a/b", "a%2Fb"),
        ("a%2fc", "a/c"),
        ("../settings", "%2e%2e/settings"),
        ("x/../y", "x%2F..%2Fy"),
        ("./z", "%2e/z"),
        ("//", "%2F%2F"),
        ("n%00l", "n%00l"),
        ("%ff%0d%0a", "%FF%0D%0A"),
        ("%2525", "%2525"),
        ("stats", "st%61ts"),
        (&long, &long),
    ] {
        assert_eq!(cache.put(stored_as, &[], stored_as.as_bytes())?.status, 201, "{stored_as}");
        let found = cache.get(read_as)?;
        assert_eq!((found.status, found.body.as_str()), (200, stored_as), "{read_as}");
    }
    // Keys that a layer would find if it normalized paths or decoded them twice.
    for key in ["y", "settings", "z", "n", "%25", "a"] {
        assert_eq!(cache.get(key)?.status, 404, "{key}");
    }
    for (key, words) in [
        ("", "the key is empty"),
        (&*"k".repeat(251), "251 bytes"),
        (&*format!("{}%41", "k".repeat(250)), "251 bytes"),
        ("a%4", "two hexadecimal digits"),
    ] {
        for method in ["GET", "PUT", "DELETE"] {
            let refused = cache.ask(method, key, &[], b"")?;
            let is_named = refused.status == 400 && refused.body.contains(words);
            ensure!(is_named, "{method} {key}: {refused:?}");
        }
    }
    Ok(())
}

#[test]
fn clear_is_a_command_only_as_it_is_spelled() -> Result<()> {
    let cache = Cache::start(&[])?;
    cache.put("clear", &[], b"an item")?;
    cache.put("other", &[], b"another")?;
    assert_eq!(cache.get("clear")?.body, "an item");
    assert_eq!(cache.ask("DELETE", "%63lear", &[], b"")?.status, 200);
    assert_eq!(cache.get("clear")?.status, 404);
    assert_eq!(cache.get("other")?.body, "another");
    assert_eq!(cache.ask("DELETE", "clear", &[], b"")?.status, 200);
    assert_eq!(cache.get("other")?.status, 404);
    assert_eq!(cache.stat("stats", "cmd_flush")?, 1);
    let kept = Cache::start(&["-F"])?;
    kept.put("k", &[], b"v")?;
    let refused = kept.ask("DELETE", "clear", &[], b"")?;
    ensure!(refused.status == 403 && refused.body.contains("-F"), "{refused:?}");
    assert_eq!(kept.get("k")?.body, "v", "-F");
    Ok(())
}

#[test]
fn reading_needs_the_role_read_and_writing_full() -> Result<()> {
    const READ: &str = "read-0123456789-0123456789-012345";
    const FULL: &str = "full-0123456789-0123456789-012345";
    let folder = tempfile::tempdir()?;
    let (users, tokens) = (folder.path().join("users"), folder.path().join("tokens"));
    fs::write(&users, "a:b\n")?;
    fs::write(&tokens, format!("read {READ}\nfull {FULL}\n"))?;
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600))?;
    let option = format!("--admin-token-file={}", tokens.display());
    let cache = Cache::start(&["-Y", &users.display().to_string(), &option])?;
    let (read, full) =
        (format!("Authorization: Bearer {READ}"), format!("Authorization: Bearer {FULL}"));
    let evil = "Origin: http://evil.example";
    for (method, key, headers, status) in [
        ("PUT", "k", &[full.as_str()][..], 201),
        ("PUT", "k", &[&read], 403),
        ("PUT", "k", &[], 401),
        ("PUT", "k", &[&full, evil], 403),
        ("GET", "k", &[&read], 200),
        ("HEAD", "k", &[&read], 200),
        ("GET", "k", &[], 401),
        ("GET", "k/../../role", &[], 401),
        ("GET", "k", &[&read, evil], 403),
        ("DELETE", "k", &[&read], 403),
        ("DELETE", "k", &[], 401),
        ("DELETE", "clear", &[&read], 403),
        ("DELETE", "clear", &[], 401),
        ("POST", "k", &[&read], 403),
        ("GET", "k", &[&full], 200),
        ("DELETE", "k", &[&full], 200),
    ] {
        let response = cache.ask(method, key, headers, b"")?;
        ensure!(response.status == status, "{method} {key} {headers:?}: {response:?}");
    }
    let stats = |headers| http::get(&cache.admin, "/api/v1/stats", headers);
    assert_eq!((stats(&[])?.status, stats(&[&read])?.status), (401, 200));
    Ok(())
}

#[test]
fn requests_count_as_commands() -> Result<()> {
    let cache = Cache::start(&["-o", "no_lru_crawler"])?;
    cache.put("a:k", &[], b"value")?;
    cache.put("a:k", &[], b"value")?;
    cache.get("a:k")?;
    cache.ask("HEAD", "a:k", &[], b"")?;
    cache.get("a:none")?;
    cache.put("large", &[], &pattern(100_000))?;
    cache.get("large")?;
    cache.ask("DELETE", "a:k", &[], b"")?;
    cache.ask("DELETE", "a:k", &[], b"")?;
    cache.put("big", &[], &vec![b'x'; 2 * MIB])?;
    for (name, count) in [
        ("cmd_get", 4),
        ("get_hits", 3),
        ("get_misses", 1),
        ("cmd_set", 3),
        ("delete_hits", 1),
        ("delete_misses", 1),
        ("store_too_large", 1),
        ("total_items", 3),
        ("curr_items", 1),
    ] {
        assert_eq!(cache.stat("stats", name)?, count, "{name}");
    }
    let slabs = cache.wire("stats slabs\r\n", "END\r\n")?;
    let sum = |name: &str| -> u64 {
        let rows = slabs.lines().filter_map(|row| row.split_once(&format!(":{name} ")));
        rows.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
    };
    assert_eq!((sum("get_hits"), sum("cmd_set"), sum("delete_hits")), (3, 3, 1), "{slabs}");
    let document = http::get(&cache.admin, "/api/v1/stats", &[])?;
    assert_eq!(document.headers["content-type"], "application/json");
    for member in [
        "\"hits\":3",
        "\"misses\":1",
        "\"delete_hits\":1",
        "\"delete_misses\":1",
        "\"collisions\":0",
        "\"cmd_set\":3",
        "\"version\":\"",
        "\"rusage_user\":0.",
    ] {
        ensure!(document.body.contains(member), "no {member} in {}", document.body);
    }
    cache.wire("stats detail on\r\n", "OK\r\n")?;
    cache.put("p:1", &[], b"v")?;
    cache.get("p:1")?;
    cache.get("p:2")?;
    cache.ask("DELETE", "p:1", &[], b"")?;
    let detail = cache.wire("stats detail dump\r\n", "END\r\n")?;
    ensure!(detail.contains("PREFIX p get 2 hit 1 set 1 del 1"), "{detail}");
    Ok(())
}

#[test]
fn watchers_and_leases_see_requests() -> Result<()> {
    let cache = Cache::start(&[])?;
    let mut watcher = cache.server.connect()?;
    watcher.ask(b"watch fetchers mutations deletions\r\n", b"OK\r\n")?;
    cache.put("k?ttl=100", &[], b"value")?;
    cache.get("k")?;
    cache.ask("DELETE", "k", &[], b"")?;
    let mut seen = String::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !seen.contains("type=deleted") {
        ensure!(Instant::now() < deadline, "no deletion in {seen}");
        let mut piece = [0; 4096];
        let count = watcher.read(&mut piece)?;
        seen += &String::from_utf8_lossy(&piece[..count]);
    }
    for words in
        ["type=item_store key=k status=stored cmd=set ttl=100", "item_get key=k status=found"]
    {
        ensure!(seen.contains(words), "no {words:?} in {seen}");
    }
    // A removal ends the lease of a client that is about to store an older value.
    let answer = cache.wire("lease-get l\r\n", "END\r\n")?;
    let token = answer.split(' ').nth(2).context("a token")?.to_owned();
    assert_eq!(cache.ask("DELETE", "l", &[], b"")?.status, 404);
    cache.wire(&format!("lease-set l {token} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n")?;
    let answer = cache.wire("lease-get l\r\n", "END\r\n")?;
    let token = answer.split(' ').nth(2).context("a token")?.to_owned();
    cache.wire(&format!("lease-set l {token} 0 0 1\r\nx\r\n"), "STORED\r\n")?;
    Ok(())
}

#[test]
fn limits_are_judged_before_and_while_a_body_arrives() -> Result<()> {
    let cache = Cache::start(&["-I", "2m"])?;
    cache.put("old", &[], b"old")?;
    // The announced length decides, and no 100 Continue invites the body.
    let long = head("PUT", "k", &["Content-Length: 3000000", "Expect: 100-continue"]);
    let refused = exchange(&cache.admin, &long)?;
    ensure!(refused.status == 413 && refused.body.contains("-I"), "{refused:?}");
    let absurd = head("PUT", "k", &["Content-Length: 18446744073709551615"]);
    let refused = exchange(&cache.admin, &absurd)?;
    ensure!([400, 413, 431].contains(&refused.status), "{refused:?}");
    // Without an announced length, the bytes that arrive are counted.
    let chunk = pattern(100_000);
    let stored = exchange(&cache.admin, &chunked("c", &[b"ab", b"c"]))?;
    ensure!(stored.status == 201 && cache.get("c")?.body == "abc", "{stored:?}");
    let stored = exchange(&cache.admin, &chunked("d", &[&chunk[..], &chunk]))?;
    ensure!(
        stored.status == 201 && cache.get("d")?.bytes == [chunk.clone(), chunk.clone()].concat()
    );
    let refused = exchange(&cache.admin, &chunked("old", &[&chunk[..]; 12]))?;
    ensure!(refused.status == 411 && refused.body.contains("Content-Length"), "{refused:?}");
    assert_eq!(cache.get("old")?.body, "old", "after a refusal of the form");
    let small = Cache::start(&["-I", "100k"])?;
    let refused = exchange(&small.admin, &chunked("k", &[&chunk[..], &chunk]))?;
    ensure!(refused.status == 413, "{refused:?}");
    let invited = head("PUT", "e", &["Content-Length: 3", "Expect: 100-continue"]);
    let mut stream = Stream::connect(&cache.admin)?;
    stream.ask(&invited, b"HTTP/1.1 100 Continue\r\n\r\n")?;
    let stored = stream.ask(b"xyz", b"\r\n\r\n")?;
    ensure!(parse(&stored)?.status == 201, "{}", stored.escape_ascii());
    Ok(())
}

#[test]
fn items_need_no_privileges_and_writes_are_logged() -> Result<()> {
    let cache = Cache::start(&["-o", "drop_privileges", "-I", "4000k"])?;
    let value = pattern(3 * MIB);
    assert_eq!(cache.put("a%1b/k", &[], &value)?.status, 201, "{}", cache.server.log());
    ensure!(cache.get("a%1b/k")?.bytes == value, "other bytes: {}", cache.server.log());
    let stored = exchange(&cache.admin, &chunked("c", &[&value[..500_000]]))?;
    assert_eq!(stored.status, 201, "{}", cache.server.log());
    assert_eq!(cache.ask("DELETE", "a%1b/k", &[], b"")?.status, 200);
    assert_eq!(cache.ask("DELETE", "clear", &[], b"")?.status, 200);
    let log = cache.server.log();
    for words in ["admin: PUT /api/v1/cache/a%1b/k by ", "admin: DELETE /api/v1/cache/clear by "] {
        ensure!(log.contains(words), "no {words:?} in {log}");
    }
    ensure!(!log.contains("DELETE /api/v1/cache/a"), "a line for each single key: {log}");
    ensure!(!log.contains("GET /api"), "{log}");
    Ok(())
}
