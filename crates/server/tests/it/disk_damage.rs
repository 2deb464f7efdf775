//! Records of a store that are damaged on the disk. A damaged item must not become a miss, and it
//! must not block a set, a delete, or a removal by prefix.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use larder_testkit::http::{exchange, get, start};
use larder_testkit::server::{Signal, command, run_to_end};
use larder_testkit::{Address, ServerUnderTest, Stream};
use tempfile::TempDir;

use crate::binary;

/// A store whose items were damaged while no process served.
struct Scene {
    folder: TempDir,
    server: ServerUnderTest,
    admin: Address,
}

/// The items of a new store.
const ITEMS: usize = 1000;

/// Bytes of a value. Memory has space for few of them; the disk contains all.
const VALUE_BYTES: usize = 12_000;

impl Scene {
    /// Damages the values of some keys, or with `in_key` the keys, after a clean stop.
    fn new(damaged: &[&str], in_key: bool) -> Result<Self> {
        let Self { folder, server, .. } = Self::undamaged()?;
        ensure!(server.stop(Signal::TERM)?.success(), "a clean stop");
        for key in damaged {
            damage(&log(&folder), key, in_key)?;
        }
        Self::start(folder, &[])
    }

    fn undamaged() -> Result<Self> {
        let scene = Self::start(tempfile::tempdir()?, &[])?;
        let mut stream = scene.server.connect()?;
        for number in 0..ITEMS {
            let set = format!("set key{number:04} 0 0 {VALUE_BYTES}\r\n");
            let answer = stream.ask((set + &value(number) + "\r\n").as_bytes(), b"\r\n")?;
            ensure!(answer == b"STORED\r\n", "{}", answer.escape_ascii());
        }
        drop(stream);
        Ok(scene)
    }

    fn start(folder: TempDir, more: &[&str]) -> Result<Self> {
        let (server, admin) = begin(&folder, more)?;
        Ok(Self { folder, server, admin })
    }

    /// Kills the server, as a crash would.
    fn kill(self) -> Result<TempDir> {
        self.server.stop(Signal::KILL)?;
        Ok(self.folder)
    }

    fn stat(&self, name: &str) -> Result<u64> {
        let mut stream = self.server.connect()?;
        let answer = String::from_utf8(stream.ask(b"stats larder\r\n", b"END\r\n")?)?;
        let line = answer.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        Ok(line.with_context(|| format!("{name} is not in {answer}"))?.parse()?)
    }

    /// Returns the numbers of the keys whose items are served, after checking their values, and of
    /// those that cannot be read.
    fn items(&self) -> Result<(Vec<usize>, Vec<usize>)> {
        let (mut there, mut unreadable) = (Vec::new(), Vec::new());
        let mut stream = self.server.connect()?;
        for number in 0..ITEMS {
            let get = format!("mg key{number:04} v\r\nmn\r\n");
            let answer = String::from_utf8(stream.ask(get.as_bytes(), b"MN\r\n")?)?;
            match &answer[..2] {
                "EN" => {}
                "SE" => unreadable.push(number),
                _ => {
                    let expected = format!("VA {VALUE_BYTES}\r\n{}\r\nMN\r\n", value(number));
                    ensure!(answer == expected, "key {number} has another value");
                    there.push(number);
                }
            }
        }
        Ok((there, unreadable))
    }

    /// Overwrites keys until the disk tier has reclaimed (rewritten or freed) everything that is
    /// currently in its log.
    fn churn(&self) -> Result<()> {
        let before = self.stat("tier_segments_reclaimed")?;
        let mut stream = self.server.connect()?;
        for number in 0..600 {
            let set = format!("set churn{} 0 0 900000\r\n{}\r\n", number % 5, "z".repeat(900_000));
            ensure!(stream.ask(set.as_bytes(), b"\r\n")? == b"STORED\r\n", "a full disk");
            if self.stat("tier_segments_reclaimed")? >= before + 16 {
                return Ok(());
            }
        }
        anyhow::bail!("reclaim has not met all segments")
    }

    /// Waits until the log contains a text.
    fn logs(&self, words: &str) -> Result<()> {
        for _ in 0..500 {
            if self.server.log().contains(words) {
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
        anyhow::bail!("{words:?} is not in the log: {}", self.server.log())
    }

    fn ready(&self) -> Result<(u16, String)> {
        let answer = get(&self.admin, "/ready", &[])?;
        Ok((answer.status, answer.body))
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

/// Returns the options of a server, without its addresses.
fn options(folder: &TempDir) -> Vec<String> {
    let path = folder.path().join("tier").display().to_string();
    let rest = ["--tier-size", "64m", "--tier-mode", "store", "--durability", "sync"];
    let all = [&["-m", "8", "-t", "1", "--tier-path", &path][..], &rest].concat();
    all.into_iter().map(str::to_owned).collect()
}

fn begin(folder: &TempDir, more: &[&str]) -> Result<(ServerUnderTest, Address)> {
    let options = options(folder);
    let options = options.iter().map(String::as_str).chain(more.iter().copied());
    start(&binary(), &options.collect::<Vec<_>>())
}

/// Starts a server that must fail, and returns its message.
fn refused(folder: &TempDir) -> Result<String> {
    let socket = folder.path().join("refused");
    let output = run_to_end(command(&binary()).args(options(folder)).arg("-s").arg(socket))?;
    ensure!(!output.status.success(), "it has started and stopped");
    Ok(String::from_utf8(output.stderr)?)
}

fn log(folder: &TempDir) -> PathBuf {
    folder.path().join("tier").join("log")
}

fn value(number: usize) -> String {
    format!("{number:04}").repeat(VALUE_BYTES / 4)
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
    scene.logs("the disk did not return ").unwrap();
    assert_eq!(ask("set key0001 0 0 3\r\nnew\r\n"), "STORED\r\n");
    assert_eq!(ask("mg key0001 s\r\n"), "HD s3\r\n");
    assert_eq!(ask("delete key0002\r\n"), "DELETED\r\n");
    assert_eq!(ask("get key0002\r\n"), "END\r\n");
    assert_eq!(ask("md key0003\r\n"), "HD\r\n");
    assert_eq!(ask("mg key0003\r\n"), "EN\r\n");
    assert_eq!(ask("ms key0004 1\r\nx\r\n"), "HD\r\n");
    assert_eq!(ask("mg key0004 s\r\n"), "HD s1\r\n");
    // The outcome of these requests depends on the item, which cannot be read.
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

/// The key is damaged, so the record may belong to this key or to another one with the same hash.
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

/// Reclaim skips the damage, and no other data depends on the damaged segment any more.
#[test]
fn a_damaged_item_stays_unreadable_past_reclaim_a_stop_and_a_kill() {
    let mut scene = Scene::new(&["key0500"], false).unwrap();
    for number in 0..100 {
        assert_eq!(scene.ask(&format!("delete key{number:04}\r\n")).unwrap(), "DELETED\r\n");
    }
    scene.churn().unwrap();
    scene.logs("the disk is damaged in 1 segment; 1 item lost").unwrap();
    let expected: Vec<_> = (100..ITEMS).filter(|number| *number != 500).collect();
    for end in [Signal::KILL, Signal::TERM, Signal::KILL] {
        assert_eq!(scene.items().unwrap(), (expected.clone(), vec![500]), "before {end:?}");
        assert_eq!(scene.stat("tier_items_lost").unwrap(), 1);
        let (status, body) = scene.ready().unwrap();
        assert!(status == 200 && body.contains("degraded: 1 item"), "{status}: {body}");
        scene.server.stop(end).unwrap();
        scene = Scene::start(scene.folder, &[]).unwrap();
    }
    assert_eq!(scene.ask("delete key0500\r\n").unwrap(), "DELETED\r\n");
    assert_eq!(scene.items().unwrap(), (expected, vec![]));
    let scene = Scene::start(scene.kill().unwrap(), &[]).unwrap();
    let (status, body) = scene.ready().unwrap();
    assert!(status == 200 && !body.contains("degraded"), "{status}: {body}");
}

#[test]
fn a_removal_by_prefix_takes_items_that_reclaim_has_found_damaged() {
    let scene = Scene::new(&["key0500"], false).unwrap();
    scene.churn().unwrap();
    assert_eq!(scene.stat("tier_items_lost").unwrap(), 1);
    assert!(scene.ask("delete_prefix key05\r\n").unwrap().starts_with("OK "));
    for _ in 0..500 {
        if scene.stat("tier_items_lost").unwrap() == 0 {
            break;
        }
        sleep(Duration::from_millis(20));
    }
    assert_eq!(scene.stat("tier_items_lost").unwrap(), 0, "the item has the prefix");
    assert_eq!(scene.ask("get key0500\r\n").unwrap(), "END\r\n");
}

/// After a crash the log is read. It does not show which item the damaged record belonged to.
#[test]
fn a_store_that_is_damaged_at_a_crash_starts_once_its_loss_is_accepted() {
    let scene = Scene::undamaged().unwrap();
    for number in 0..20 {
        assert_eq!(scene.ask(&format!("delete key{number:04}\r\n")).unwrap(), "DELETED\r\n");
    }
    let folder = scene.kill().unwrap();
    // In the last segment: a start reads the summaries of full segments, not their records.
    damage(&log(&folder), "key0800", false).unwrap();
    let refused = refused(&folder).unwrap();
    for words in ["the log is damaged at", "records at most", "--tier-accept-loss"] {
        assert!(refused.contains(words), "{words:?} is not in {refused}");
    }
    let scene = Scene::start(folder, &["--tier-accept-loss"]).unwrap();
    let log = scene.server.log();
    for words in ["damaged: segment ", "780 items that may have been out of date"] {
        assert!(log.contains(words), "{words:?} is not in {log}");
    }
    let (status, body) = scene.ready().unwrap();
    assert!(status == 200 && body.contains("degraded"), "{status}: {body}");
    // Items after the damage exist, and no deleted item has come back.
    let expected: Vec<_> = (801..ITEMS).collect();
    assert_eq!(scene.items().unwrap(), (expected.clone(), vec![]));
    let scene = Scene::start(scene.kill().unwrap(), &[]).unwrap();
    assert_eq!(scene.items().unwrap(), (expected, vec![]));
    let (status, body) = scene.ready().unwrap();
    assert!(status == 200 && !body.contains("degraded"), "{status}: {body}");
}

#[test]
fn a_start_that_need_not_accept_a_loss_says_so() {
    let scene = Scene::start(tempfile::tempdir().unwrap(), &["--tier-accept-loss"]).unwrap();
    let log = scene.server.log();
    assert!(log.contains("leave --tier-accept-loss out"), "{log}");
}
