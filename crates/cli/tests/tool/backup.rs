//! `larder export` of a running store is its backup.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, SystemTime};

use larder_dump::{Piece, Reader};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};

use crate::{binary, larder};

const STABLE: u32 = 14_500;
const BUSY: u32 = 200;

fn value(key: &str, turn: u32) -> Vec<u8> {
    let len = if turn % 97 == 1 { 40_000 } else { turn as usize * 31 % 4000 };
    format!("{turn} {key} ").into_bytes().into_iter().cycle().take(20 + len).collect()
}

fn deadline(number: u32) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    if number.is_multiple_of(3) {
        0
    } else {
        now / 100_000 * 100_000 + 3_000_000 + u64::from(number)
    }
}

fn set(stream: &mut Stream, key: &str, turn: u32, exptime: u64) {
    let value = value(key, turn);
    let head = format!("set {key} {turn} {exptime} {}\r\n", value.len());
    let answer = stream.ask(&[head.as_bytes(), &value, b"\r\n"].concat(), b"\r\n").unwrap();
    assert_eq!(answer, b"STORED\r\n", "{key}: {}", String::from_utf8_lossy(&answer));
}

fn start(path: &str) -> (ServerUnderTest, String) {
    let args = ["-m", "8", "--tier-path", path, "--tier-size", "384m", "--tier-mode", "store"];
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &args).unwrap();
    server.connect().unwrap().ask(b"version\r\n", b"\r\n").unwrap();
    let Address::Unix(path) = server.address().clone() else { panic!("a Unix socket") };
    (server, path.display().to_string())
}

/// Reads a complete dump. Returns the flags, deadline and value of each key.
fn read_dump(path: &str) -> BTreeMap<String, (u32, Option<u64>, Vec<u8>)> {
    let dump = std::fs::read(path).unwrap();
    let mut reader = Reader::new(&dump[..]).unwrap();
    let mut items = BTreeMap::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        let mut value = Vec::new();
        while let Piece::Bytes(bytes) = reader.next_piece().unwrap() {
            value.extend_from_slice(bytes);
        }
        let key = String::from_utf8(entry.key().to_vec()).unwrap();
        let earlier = items.insert(key, (entry.flags, entry.deadline_unix_secs, value));
        assert_eq!(earlier, None, "an item comes once");
    }
    items
}

/// Ends the threads of a test, even if it fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn write_on(server: &ServerUnderTest, is_over: &AtomicBool) {
    let mut stream = server.connect().unwrap();
    for turn in (2..).take_while(|_| !is_over.load(Relaxed)) {
        set(&mut stream, &format!("busy{}", turn * 7 % BUSY), turn, 0);
    }
}

#[test]
fn a_store_under_writes_is_exported_and_a_fresh_one_has_it_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (server, address) = start(&path("store"));
    let mut stream = server.connect().unwrap();
    (0..STABLE).for_each(|n| set(&mut stream, &format!("k{n}"), n, deadline(n)));
    (0..BUSY).for_each(|n| set(&mut stream, &format!("busy{n}"), 1, 0));
    let dump = path("items.dump");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&is_over);
        scope.spawn(|| write_on(&server, &is_over));
        larder(b"", &["export", "--quiet", "--server", &address, &dump]).printed();
    });
    let items = read_dump(&dump);
    for n in 0..STABLE {
        let key = format!("k{n}");
        let (flags, until, found) = &items[&key];
        let expected = Some(deadline(n)).filter(|deadline| *deadline > 0);
        // The time to live is in whole seconds.
        let differs = expected.zip(*until).map_or(0, |(one, other)| one.abs_diff(other));
        assert!(*flags == n && expected.is_some() == until.is_some() && differs < 3, "{key}");
        assert!(*found == value(&key, n), "the value of {key}");
    }
    for n in 0..BUSY {
        let key = format!("busy{n}");
        let (turn, _, found) = &items[&key];
        assert!(*found == value(&key, *turn), "{key} never had this value");
    }
    assert_eq!(items.len() as u32, STABLE + BUSY);
    let (fresh, address) = start(&path("fresh"));
    larder(b"", &["import", "--quiet", &dump, "--server", &address]).printed();
    let again = path("again.dump");
    thread::sleep(Duration::from_millis(10));
    larder(b"", &["export", "--quiet", "--server", &address, &again]).printed();
    let copy = read_dump(&again);
    assert_eq!(copy.len(), items.len());
    for (key, (flags, until, value)) in &items {
        let (copied, copied_until, copied_value) = &copy[key];
        assert!(flags == copied && value == copied_value, "{key}");
        let differs = until.zip(*copied_until).map_or(0, |(one, other)| one.abs_diff(other));
        assert!(until.is_some() == copied_until.is_some() && differs < 3, "{key}");
    }
    drop(fresh);
}
