//! Records of a store that are damaged on the disk: what cannot be read is neither a miss nor in
//! the way of a set, a delete, or a removal by prefix.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, larderd};
use larder_testkit::{Address, ServerUnderTest, Stream};
use tempfile::TempDir;

#[allow(dead_code, reason = "other tests need more of it")]
mod http;

use http::{exchange, get, start};

fn binary() -> PathBuf {
    larderd(env!("CARGO_BIN_EXE_larderd"))
}

/// A store whose items were damaged while no process served.
struct Scene {
    _folder: TempDir,
    server: ServerUnderTest,
    admin: Address,
}

/// Bytes of a value: memory has room for few of them, and the disk has all.
const VALUE_BYTES: usize = 12_000;

impl Scene {
    /// Damages the values of some keys, or with `in_key` the keys.
    fn new(damaged: &[&str], in_key: bool) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let tier = folder.path().join("tier");
        let path = tier.to_str().context("a path in UTF-8")?;
        let args = ["-m", "8", "-t", "1", "--tier-path", path, "--tier-size", "64m"];
        let args = [&args[..], &["--tier-mode", "store", "--durability", "sync"]].concat();
        let (server, _) = start(&binary(), &args)?;
        let mut stream = server.connect()?;
        for number in 0..1000 {
            let set = format!("set key{number:04} 0 0 {VALUE_BYTES}\r\n");
            let value = format!("{number:04}").repeat(VALUE_BYTES / 4);
            let answer = stream.ask((set + &value + "\r\n").as_bytes(), b"\r\n")?;
            ensure!(answer == b"STORED\r\n", "{}", answer.escape_ascii());
        }
        ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
        for key in damaged {
            damage(&tier.join("log"), key, in_key)?;
        }
        let (server, admin) = start(&binary(), &args)?;
        Ok(Self { _folder: folder, server, admin })
    }

    fn ask(&self, request: &str) -> Result<String> {
        let mut stream = self.server.connect()?;
        Ok(String::from_utf8(stream.ask(request.as_bytes(), b"\r\n")?)?)
    }

    fn http(&self, method: &str, key: &str, body: &str) -> Result<u16> {
        let head = format!("{method} /api/v1/cache/{key} HTTP/1.1\r\nHost: localhost\r\n");
        let rest = format!("Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        Ok(exchange(&self.admin, (head + &rest).as_bytes())?.status)
    }
}

/// Flips a bit of the record of a key.
fn damage(log: &Path, key: &str, in_key: bool) -> Result<()> {
    let bytes = std::fs::read(log)?;
    let found = bytes.windows(key.len()).position(|window| window == key.as_bytes());
    let at = found.with_context(|| format!("{key} is not in the log"))?;
    let at = if in_key { at + 3 } else { at + key.len() + 100 };
    File::options().write(true).open(log)?.write_all_at(&[bytes[at] ^ 1], at as u64)?;
    Ok(())
}

#[test]
fn a_damaged_item_can_be_set_and_deleted_and_is_no_miss() {
    let damaged = ["key0001", "key0002", "key0003", "key0004", "key0005", "key0006"];
    let scene = Scene::new(&damaged, false).unwrap();
    let ask = |request: &str| scene.ask(request).unwrap();
    for key in &damaged {
        let answer = ask(&format!("get {key}\r\n"));
        assert!(answer.starts_with("SERVER_ERROR "), "{key}: {answer}");
    }
    assert_eq!(ask("set key0001 0 0 3\r\nnew\r\n"), "STORED\r\n");
    assert_eq!(ask("mg key0001 s\r\n"), "HD s3\r\n");
    assert_eq!(ask("delete key0002\r\n"), "DELETED\r\n");
    assert_eq!(ask("get key0002\r\n"), "END\r\n");
    assert_eq!(ask("md key0003\r\n"), "HD\r\n");
    assert_eq!(ask("mg key0003\r\n"), "EN\r\n");
    assert_eq!(ask("ms key0004 1\r\nx\r\n"), "HD\r\n");
    assert_eq!(ask("mg key0004 s\r\n"), "HD s1\r\n");
    // Whether these take effect depends on the item, which cannot be read.
    for request in ["add key0005 0 0 1\r\nx\r\n", "touch key0005 10\r\n", "incr key0005 1\r\n"] {
        let answer = ask(request);
        assert!(answer.starts_with("SERVER_ERROR "), "{request}: {answer}");
    }
    assert_eq!(ask("mg key0007 s\r\n"), "HD s12000\r\n");
}

#[test]
fn http_tells_a_damaged_item_from_a_missing_one() {
    let scene = Scene::new(&["key0001", "key0002"], false).unwrap();
    let http = |method: &str, key: &str| scene.http(method, key, "").unwrap();
    assert_eq!(http("GET", "key0001"), 503);
    assert_eq!(http("HEAD", "key0001"), 503);
    assert_eq!(http("GET", "missing"), 404);
    let answer = get(&scene.admin, "/api/v1/cache/key0001", &[]).unwrap();
    assert!(answer.body.contains("disk"), "the reason: {}", answer.body);
    assert_eq!(scene.http("PUT", "key0001", "new").unwrap(), 201);
    assert_eq!(http("GET", "key0001"), 200);
    assert_eq!(http("DELETE", "key0002"), 200);
    assert_eq!(http("GET", "key0002"), 404);
}

#[test]
fn a_removal_by_prefix_takes_damaged_items_with_it() {
    let scene = Scene::new(&["key0001", "key0013"], false).unwrap();
    assert!(scene.ask("delete_prefix key000\r\n").unwrap().starts_with("OK "));
    let mut left = String::new();
    for _ in 0..100 {
        left = scene.ask("get key0001\r\n").unwrap();
        if left == "END\r\n" {
            break;
        }
        sleep(Duration::from_millis(20));
    }
    assert_eq!(left, "END\r\n", "it has the prefix");
    let other = scene.ask("get key0013\r\n").unwrap();
    assert!(other.starts_with("SERVER_ERROR "), "it has another one: {other}");
}

/// The key is damaged, so the record may be the key's or another one's of the same hash.
#[test]
fn a_record_with_a_damaged_key_is_replaced_by_the_next_one() {
    let scene = Scene::new(&["key0001", "key0002"], true).unwrap();
    let ask = |request: &str| scene.ask(request).unwrap();
    assert!(ask("get key0001\r\n").starts_with("SERVER_ERROR "));
    assert_eq!(ask("set key0001 0 0 3\r\nnew\r\n"), "STORED\r\n");
    assert_eq!(ask("mg key0001 s\r\n"), "HD s3\r\n");
    assert_eq!(ask("delete key0002\r\n"), "DELETED\r\n");
    assert_eq!(ask("get key0002\r\n"), "END\r\n");
}

#[test]
fn a_get_of_a_connection_goes_on_behind_a_damaged_item() {
    let scene = Scene::new(&["key0001"], false).unwrap();
    let mut stream: Stream = scene.server.connect().unwrap();
    let answer = stream.ask(b"get key0001\r\n", b"\r\n").unwrap();
    assert!(answer.starts_with(b"SERVER_ERROR "), "{}", answer.escape_ascii());
    assert_eq!(stream.ask(b"mg key0002 s\r\n", b"\r\n").unwrap(), b"HD s12000\r\n");
}
