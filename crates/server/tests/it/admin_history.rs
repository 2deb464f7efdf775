//! The last hour over HTTP, and the inspection of items by the page of keys.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::http;
use larder_testkit::http::{Response, exchange, get};
use larder_testkit::server::{Signal, free_address};
use larder_testkit::{Address, ServerUnderTest};
use serde_json::{Value, json};

use crate::binary;

fn start(args: &[&str]) -> Result<(ServerUnderTest, Address)> {
    http::start(&binary(), args)
}

fn parsed(response: &Response) -> Result<Value> {
    ensure!(response.status == 200, "{response:?}");
    serde_json::from_str(&response.body).with_context(|| format!("{response:?}"))
}

/// Waits until the history has at least this number of points.
fn history(admin: &Address, points: usize) -> Result<Value> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let document = parsed(&get(admin, "/api/v1/history", &[])?)?;
        if column(&document, "items")?.len() >= points {
            return Ok(document);
        }
        ensure!(Instant::now() < deadline, "{points} points do not come: {document}");
        sleep(Duration::from_millis(50));
    }
}

fn column<'a>(document: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    document["columns"][name].as_array().with_context(|| format!("{name}: {document}"))
}

#[test]
fn the_past_is_kept_while_nobody_looks() -> Result<()> {
    let probes = free_address()?;
    let (server, admin) = start(&["-m", "64", &format!("--admin-listen={probes},role=probe")])?;
    assert_eq!(get(&Address::Tcp(probes), "/api/v1/history", &[])?.status, 403);
    // A server has one point, without rates, from the time at which it begins to serve.
    let first = history(&admin, 1)?;
    assert_eq!(column(&first, "items")?, &[json!(0.0)]);
    assert_eq!(column(&first, "sets_per_sec")?, &[json!(null)]);
    assert_eq!(first["pid"], server.pid());
    assert_eq!((&first["interval_secs"], &first["points_max"]), (&json!(10), &json!(360)));

    let mut stream = server.connect()?;
    let sets: String = (0..400).map(|n| format!("set k{n} 0 0 1 noreply\r\nv\r\n")).collect();
    stream.ask(format!("{sets}mn\r\n").as_bytes(), b"MN\r\n")?;
    stream.ask(b"get k0\r\n", b"VALUE k0 0 1\r\nv\r\nEND\r\n")?;
    stream.ask(b"get k1\r\n", b"VALUE k1 0 1\r\nv\r\nEND\r\n")?;
    stream.ask(b"get absent\r\n", b"END\r\n")?;
    // The next point is recorded ten seconds after the previous one, without any request in
    // between.
    sleep(Duration::from_millis(9_500));
    let second = history(&admin, 2)?;
    let of = |name| -> Result<f64> {
        column(&second, name)?[1].as_f64().with_context(|| format!("{name}: {second}"))
    };
    assert_eq!(of("items")?, 400.0);
    assert_eq!(of("hit_ratio")?, 0.667);
    let sets_per_sec = of("sets_per_sec")?;
    ensure!((30.0..=41.0).contains(&sets_per_sec), "400 sets in 10 s: {sets_per_sec}");
    ensure!(of("received_bytes_per_sec")? > of("sent_bytes_per_sec")?, "{second}");
    ensure!(second["age_secs"].as_f64().is_some_and(|age| age < 10.0), "{second}");
    Ok(())
}

#[test]
fn a_process_that_stands_still_leaves_a_gap() -> Result<()> {
    let (server, admin) = start(&[])?;
    history(&admin, 1)?;
    server.signal(Signal::STOP)?;
    sleep(Duration::from_millis(21_000));
    server.signal(Signal::CONT)?;
    let document = history(&admin, 3)?;
    let items = column(&document, "items")?;
    assert_eq!((&items[0], &items[1], &items[2]), (&json!(0.0), &json!(null), &json!(0.0)));
    let rates = column(&document, "gets_per_sec")?;
    assert_eq!(rates[..3], [json!(null), json!(null), json!(null)], "{document}");
    Ok(())
}

fn delete(admin: &Address, path: &str, headers: &str) -> Result<Response> {
    let request =
        format!("DELETE {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    exchange(admin, request.as_bytes())
}

#[test]
fn an_item_is_looked_at_without_a_get_and_removed_by_its_exact_key() -> Result<()> {
    let reader = free_address()?;
    let (server, admin) = start(&["-m", "64", &format!("--admin-listen={reader},role=read")])?;
    let reader = Address::Tcp(reader);
    let mut stream = server.connect()?;
    for key in ["clear", "..", ".", "other"] {
        let set = format!("set {key} 7 100 5\r\nh\u{e9}ll\r\n");
        stream.ask(set.as_bytes(), b"STORED\r\n")?;
    }
    // ".." in base64.
    let looked = parsed(&get(&reader, "/api/v1/item/Li4?bytes=2", &[])?)?;
    assert_eq!((&looked["key"], &looked["bytes"]), (&json!(".."), &json!(5)));
    assert_eq!(looked["value"], json!("h"), "half of a character is left out");
    assert_eq!((&looked["flags"], &looked["value_bytes"]), (&json!(7), &json!(1)));
    ensure!(looked["ttl_secs"].as_u64().is_some_and(|secs| (90..=100).contains(&secs)), "{looked}");
    let stats = parsed(&get(&admin, "/api/v1/stats", &[])?)?;
    assert_eq!((&stats["cmd_get"], &stats["get_hits"]), (&json!(0), &json!(0)), "{stats}");
    stream.ask(b"mg .. h\r\n", b"HD h0\r\n").context("an inspection is not a read")?;

    assert_eq!(delete(&reader, "/api/v1/item/Li4", "")?.status, 403);
    assert_eq!(delete(&admin, "/api/v1/item/Li4", "If-Match: x\r\n")?.status, 400);
    assert_eq!(delete(&admin, "/api/v1/item/Li4", "")?.status, 200);
    assert_eq!(delete(&admin, "/api/v1/item/Li4", "")?.status, 404);
    // "clear" is an item here, not the command.
    assert_eq!(delete(&admin, "/api/v1/item/Y2xlYXI", "")?.status, 200);
    stream.ask(b"mg . k\r\n", b"HD k.\r\n")?;
    stream.ask(b"mg other k\r\n", b"HD kother\r\n")?;
    assert_eq!(get(&admin, "/api/v1/item/Li4", &[])?.status, 404);
    for bad in ["", "!", "Li4?bytes=65537", "Li4?x=1"] {
        let refused = get(&admin, &format!("/api/v1/item/{bad}"), &[])?;
        let expected = if bad.is_empty() { 404 } else { 400 };
        assert_eq!(refused.status, expected, "{bad}: {refused:?}");
    }
    Ok(())
}

#[test]
fn a_large_value_is_shown_by_its_beginning() -> Result<()> {
    let (server, admin) = start(&["-m", "64", "-I", "16m"])?;
    let mut stream = server.connect()?;
    let value = vec![b'a'; 10 << 20];
    let set = [b"set large 0 0 10485760\r\n", value.as_slice(), b"\r\n"].concat();
    stream.ask(&set, b"STORED\r\n")?;
    stream.ask(b"set bytes 0 0 3\r\n\xff\x00\xfe\r\n", b"STORED\r\n")?;
    let large = get(&admin, "/api/v1/item/bGFyZ2U?bytes=65536", &[])?;
    let looked = parsed(&large)?;
    assert_eq!(looked["bytes"], json!(10 << 20));
    assert_eq!(looked["value"].as_str().map(str::len), Some(65536));
    let looked = parsed(&get(&admin, "/api/v1/item/Ynl0ZXM", &[])?)?;
    assert_eq!((&looked["value_base64"], &looked["value"]), (&json!("/wD+"), &json!(null)));
    Ok(())
}
