//! On SIGUSR2, a successor process takes over a server with a disk tier. No acknowledged change may
//! be lost, and clients notice nothing except a closed connection between requests.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use larder::Client;
use larder_testkit::server::Signal;
use larder_testkit::{Address, Stream};
use tempfile::TempDir;

use crate::upgrade_scene::{Scene, wait_until};

/// Starts a server with a new directory.
fn start(mode: &str) -> Result<(Scene, TempDir)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("tier").display().to_string();
    let args = ["-m", "64", "--tier-path", &path, "--tier-size", "64m", "--tier-mode", mode];
    Ok((Scene::tcp(&args)?, folder))
}

/// A client that counts in one key, and reconnects when the server closes the connection. Returns
/// the last number that was stored, and how often it connected.
fn count(address: &Address, stop: &AtomicBool, key: &str) -> Result<(u32, u32)> {
    let (mut stream, mut connects) = (Stream::connect(address)?, 1);
    let mut number = 0;
    while !stop.load(Relaxed) {
        let digits = (number + 1).to_string();
        let set = format!("set {key} 0 0 {}\r\n{digits}\r\n", digits.len());
        match stream.ask(set.as_bytes(), b"\r\n") {
            Ok(answer) if answer == b"STORED\r\n" => number += 1,
            Ok(answer) => bail!("{key} {number}: {}", answer.escape_ascii()),
            // The connection is closed. A get shows whether the set was executed.
            Err(error) if is_closed(&error) => {
                stream = Stream::connect(address)?;
                connects += 1;
                let found = get(&mut stream, key)?;
                ensure!(found == number || found == number + 1, "{key} is {found} after {number}");
                number = found;
            }
            Err(error) => return Err(error).context(key.to_owned()),
        }
    }
    Ok((number, connects))
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Returns the number in a key; 0 without an item. If a successor reads the directory for longer
/// than `--tier-wait-secs`, it responds with an error, and the client asks again.
fn get(stream: &mut Stream, key: &str) -> Result<u32> {
    let request = format!("get {key}\r\n");
    let mut found = stream.ask(request.as_bytes(), b"\r\n")?;
    while found.starts_with(b"SERVER_ERROR recovering") {
        sleep(Duration::from_millis(50));
        found = stream.ask(request.as_bytes(), b"\r\n")?;
    }
    if !found.ends_with(b"END\r\n") {
        found.extend(stream.ask(b"", b"END\r\n")?);
    }
    let found = String::from_utf8(found)?;
    let number = found.lines().nth(1).unwrap_or("0");
    number.parse().with_context(|| found.clone())
}

/// Starts an upgrade, and waits until the new process has the directory.
fn upgrade(scene: &mut Scene) -> Result<()> {
    let old = scene.pid()?;
    rustix::process::kill_process(old, Signal::USR2)?;
    wait_until("another process serves", || scene.pid().is_ok_and(|pid| pid != old))
        .with_context(|| scene.first.log())?;
    scene.wait_for_end(old)
}

#[test]
fn clients_lose_nothing_by_three_upgrades_of_a_store_or_a_cache() {
    for mode in ["store", "cache"] {
        let (mut scene, _folder) = start(mode).unwrap();
        let (stop, address) = (AtomicBool::new(false), scene.first.address().clone());
        let counted = thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|client| {
                    let (address, stop) = (&address, &stop);
                    scope.spawn(move || count(address, stop, &format!("key{client}")))
                })
                .collect();
            let upgraded = (0..3).try_for_each(|_| {
                sleep(Duration::from_millis(200));
                upgrade(&mut scene)
            });
            sleep(Duration::from_millis(200));
            stop.store(true, Relaxed);
            let counted: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
            upgraded.with_context(|| scene.first.log()).unwrap();
            counted
        });
        let mut stream = Stream::connect(&address).unwrap();
        for (client, counted) in counted.into_iter().enumerate() {
            let (number, connects) = counted.unwrap().unwrap();
            assert_eq!(get(&mut stream, &format!("key{client}")).unwrap(), number, "{mode}");
            assert!(number > 100 && connects == 4, "{mode}: {number} sets, {connects} connections");
        }
        assert_eq!(scene.said(", from its index"), 3, "{mode}: {}", scene.first.log());
    }
}

#[test]
fn a_local_reader_sees_no_old_value_after_an_upgrade() {
    let folder = tempfile::tempdir().unwrap();
    let tier = folder.path().join("tier").display().to_string();
    let tier = ["--tier-path", &tier, "--tier-size", "64m", "--tier-mode", "store"];
    let args = [&["-m", "64", "--local-readers", "same-uid"], &tier[..]].concat();
    let at = |folder: &Path| Ok(Address::Unix(folder.join("socket")));
    let mut scene = Scene::start(at, &args).unwrap();
    let Address::Unix(socket) = scene.first.address().clone() else { panic!("a unix socket") };
    let client = Client::connect(&socket).unwrap();
    client.set("k", "old", None).unwrap();
    let read = |value: &mut Vec<u8>| {
        value.clear();
        client.get_into("k", value).unwrap().is_some_and(|hit| hit.is_local)
    };
    let mut value = Vec::new();
    wait_until("the client reads the memory", || read(&mut value)).unwrap();
    upgrade(&mut scene).unwrap();
    let mut stream = scene.first.connect().unwrap();
    stream.ask(b"set k 0 0 3\r\nnew\r\n", b"STORED\r\n").unwrap();
    read(&mut value);
    assert_eq!(String::from_utf8_lossy(&value), "new", "the memory of the old process is not read");
}

#[test]
fn a_new_process_that_does_not_start_leaves_the_directory_to_the_old_one() {
    let (scene, _folder) = start("store").unwrap();
    let (pid, mut stream) = (scene.pid().unwrap(), scene.first.connect().unwrap());
    std::fs::remove_file(scene.path("larderd")).unwrap();
    scene.first.signal(Signal::USR2).unwrap();
    wait_until("the start fails", || scene.said("cannot start") == 1).unwrap();
    stream.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
    assert_eq!(scene.pid().unwrap(), pid);
}
