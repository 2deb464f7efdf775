//! `larder export` and `larder import`, between servers of both kinds and a memory file.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use larder::Cache;
use larder_dump::{Entry, Piece, Reader, Writer};
use larder_testkit::{ServerUnderTest, Stream, Transport, server};
use tempfile::TempDir;

use crate::{Fixture, larder};

/// An item: flags, deadline, value.
type Items = BTreeMap<Vec<u8>, (u32, Option<u64>, Vec<u8>)>;

fn dump_at(folder: &TempDir) -> String {
    folder.path().join("items.dump").display().to_string()
}

fn write_dump(path: &str, items: &Items) {
    let mut writer = Writer::new(Vec::new(), 7).unwrap();
    for (key, (flags, deadline_unix_secs, value)) in items {
        let (flags, deadline_unix_secs) = (*flags, *deadline_unix_secs);
        let value_bytes = value.len() as u32;
        let entry = Entry { key, flags, deadline_unix_secs, value_bytes };
        writer.item(&entry, value).unwrap();
    }
    std::fs::write(path, writer.finish().unwrap()).unwrap();
}

/// Reads a complete dump. Leaves out void items.
fn read_dump(path: &str) -> Items {
    let dump = std::fs::read(path).unwrap();
    let mut reader = Reader::new(&dump[..]).unwrap();
    let mut items = Items::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        let mut value = Vec::new();
        let is_whole = loop {
            match reader.next_piece().unwrap() {
                Piece::Bytes(bytes) => value.extend_from_slice(bytes),
                end => break end == Piece::End,
            }
        };
        let item = (entry.flags, entry.deadline_unix_secs, value);
        if is_whole {
            items.insert(entry.key().to_vec(), item);
        }
    }
    items
}

/// Stores items of all kinds: binary keys, flags, deadlines, empty and large values.
fn items(count: u32) -> Items {
    let now = now_unix_secs();
    let item = |number: u32| {
        let key = match number % 5 {
            0 => [&b"bin \r\n\0\xff"[..], &number.to_le_bytes()].concat(),
            _ => format!("user:{number}").into_bytes(),
        };
        let deadline = match number % 4 {
            0 => None,
            1 => Some(now + 3600),
            2 => Some(now + 2_592_000 + 86_400),
            _ => Some(now + 100_000 + u64::from(number)),
        };
        let value_bytes = match number % 1000 {
            7 => 300_000,
            8 => 0,
            small => small as usize % 300,
        };
        let value = (0..value_bytes).map(|at| (at as u32 * 31 + number) as u8).collect();
        (key, (number * 7, deadline, value))
    };
    (0..count).map(item).collect()
}

/// Asserts that the items are equal. A deadline may be some seconds off, because servers count
/// whole seconds, and each export and import may round once.
#[track_caller]
fn assert_equal(found: &Items, expected: &Items) {
    let missing = expected.keys().filter(|key| !found.contains_key(*key)).count();
    assert_eq!((found.len(), missing), (expected.len(), 0), "items found, items missing");
    for (key, (flags, deadline, value)) in expected {
        let (found_flags, found_deadline, found_value) = &found[key];
        let key = key.escape_ascii();
        assert_eq!(found_flags, flags, "flags of {key}");
        assert!(found_value == value, "the value of {key} is another");
        let is_near = match (found_deadline, deadline) {
            (Some(found), Some(expected)) => found.abs_diff(*expected) <= 5,
            (found, expected) => found == expected,
        };
        assert!(is_near, "the deadline of {key}: found {found_deadline:?}, expected {deadline:?}");
    }
}

fn now_unix_secs() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// Starts Debian's memcached, even if the other tests use another server.
fn memcached(args: &[&str]) -> Fixture {
    let binary = server::memcached().unwrap();
    Fixture { server: ServerUnderTest::start(&binary, Transport::Unix, args).unwrap() }
}

fn ask(fixture: &Fixture, request: &[u8], end: &[u8]) -> Vec<u8> {
    let mut stream: Stream = fixture.server.connect().unwrap();
    stream.ask(request, end).unwrap()
}

#[test]
fn a_hundred_thousand_items_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = dump_at(&folder);
    let expected = items(100_000);
    let fixture = Fixture::start_with(&["-m", "256"]);
    write_dump(&path, &expected);
    larder(b"", &["import", &path, "--server", &fixture.address(), "--quiet"]).printed();
    let again = folder.path().join("again").display().to_string();
    let ran = larder(b"", &["export", "--server", &fixture.address(), &again]);
    assert_eq!(ran.exit_code, 0, "{ran:?}");
    assert!(ran.stderr.contains("100000 items exported"), "{}", ran.stderr);
    assert_equal(&read_dump(&again), &expected);
}

#[test]
fn items_move_from_memcached_and_to_memcached() {
    let folder = tempfile::tempdir().unwrap();
    let path = dump_at(&folder);
    let expected = items(2000);
    write_dump(&path, &expected);
    let (ours, theirs) = (Fixture::start(), memcached(&["-m", "64"]));
    larder(b"", &["import", &path, "--server", &theirs.address(), "--quiet"]).printed();
    for (from, to) in [(&theirs, &ours), (&ours, &theirs)] {
        larder(b"", &["export", "--server", &from.address(), &path, "--quiet"]).printed();
        ask(to, b"flush_all\r\n", b"OK\r\n");
        // The servers count whole seconds, so that they would also flush an item of this second.
        thread::sleep(Duration::from_millis(2100));
        larder(b"", &["import", &path, "--server", &to.address(), "--quiet"]).printed();
        larder(b"", &["export", "--server", &to.address(), &path, "--quiet"]).printed();
        assert_equal(&read_dump(&path), &expected);
    }
}

/// Runs `larder export -s FROM - | larder import - -s TO`. Returns the import's summary.
#[track_caller]
fn pipe(from: &Fixture, to: &Fixture) -> String {
    let mut export = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["export", "-s", &from.address(), "-", "--quiet"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let import = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["import", "-", "-s", &to.address()])
        .stdin(export.stdout.take().unwrap())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8(import.stderr).unwrap();
    assert!(export.wait().unwrap().success() && import.status.success(), "{said}");
    said
}

#[test]
fn a_neighbour_under_load_warms_a_server_with_values_that_it_had() {
    const KEYS: u32 = 20_000;
    let (neighbour, joining) = (Fixture::start(), Fixture::start());
    let mut stream = neighbour.server.connect().unwrap();
    let mut store_all = move |turn: u32| {
        for first in (0..KEYS).step_by(100) {
            let set = |key| format!("ms {key} 15\r\n{turn:06}-{key:08}\r\n");
            let requests: String = (first..first + 100).map(set).collect();
            let end = b"HD\r\n".repeat(100);
            assert_eq!(stream.ask(requests.as_bytes(), &end).unwrap(), end);
        }
    };
    store_all(0);
    let is_done = AtomicBool::new(false);
    let (turns, said) = thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut turn = 0;
            while !is_done.load(Relaxed) || turn == 0 {
                turn += 1;
                store_all(turn);
            }
            turn
        });
        let said = pipe(&neighbour, &joining);
        is_done.store(true, Relaxed);
        (load.join().unwrap(), said)
    });
    assert!(said.contains(&format!("{KEYS} items imported")), "{said}");
    let mut stream = joining.server.connect().unwrap();
    for key in 0..KEYS {
        let request = format!("mg {key} v\r\nmn\r\n");
        let answer = stream.ask(request.as_bytes(), b"MN\r\n").unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let value = answer.lines().nth(1).unwrap_or_else(|| panic!("{key} is missing"));
        let (turn, of) = value.split_once('-').unwrap();
        assert!(turn.parse::<u32>().unwrap() <= turns, "{key} has a value of the future: {value}");
        assert_eq!(of.parse(), Ok(key), "{key} has the value of another key");
    }
}

#[test]
fn a_pipe_warms_a_server_and_keeps_its_newer_items() {
    let (neighbour, joining) = (Fixture::start(), Fixture::start());
    neighbour.larder("set", &["both", "old"]).printed();
    neighbour.larder("set", &["one", "1", "--ttl", "100", "--flags", "5"]).printed();
    joining.larder("set", &["both", "new"]).printed();
    let said = pipe(&neighbour, &joining);
    assert!(said.contains("1 item imported"), "{said}");
    assert!(said.contains("; 1 already in the server and kept"), "{said}");
    assert_eq!(joining.larder("get", &["both"]).printed(), b"new");
    let ttl = ask(&joining, b"mg one t f v\r\n", b"1\r\n");
    assert!(ttl.starts_with(b"VA 1 t100 f5") || ttl.starts_with(b"VA 1 t99 f5"), "{ttl:?}");

    let folder = tempfile::tempdir().unwrap();
    let path = dump_at(&folder);
    larder(b"", &["export", "--server", &neighbour.address(), &path, "--quiet"]).printed();
    larder(b"", &["import", &path, "--server", &joining.address(), "--overwrite", "--quiet"])
        .printed();
    assert_eq!(joining.larder("get", &["both"]).printed(), b"old");
}

#[test]
fn an_export_counts_no_use_and_leaves_out_stale_items() {
    let folder = tempfile::tempdir().unwrap();
    let path = dump_at(&folder);
    let fixture = Fixture::start();
    fixture.larder("set", &["unread", "1"]).printed();
    fixture.larder("set", &["stale", "1"]).printed();
    ask(&fixture, b"md stale I T60\r\n", b"HD\r\n");
    ask(&fixture, b"mg loading N30 v\r\n", b"W\r\n\r\n");
    let ran = larder(b"", &["export", "--server", &fixture.address(), &path]);
    assert!(ran.stderr.contains("; 2 stale or being loaded, left out"), "{ran:?}");
    assert_eq!(read_dump(&path).into_keys().collect::<Vec<_>>(), [b"unread"]);
    let listed = ask(&fixture, b"lru_crawler metadump all\r\n", b"END\r\n");
    let listed = String::from_utf8(listed).unwrap();
    let line = listed.lines().find(|line| line.starts_with("key=unread")).unwrap();
    assert!(line.contains("fetch=no"), "the export counts as a use: {line}");
}

#[test]
fn a_prefix_and_a_rate_limit_the_export() {
    let folder = tempfile::tempdir().unwrap();
    let path = dump_at(&folder);
    let fixture = Fixture::start();
    let all = items(100);
    write_dump(&path, &all);
    larder(b"", &["import", &path, "--server", &fixture.address(), "--quiet"]).printed();
    let started = Instant::now();
    let rate = ["--prefix", "user:", "--rate", "40", "--quiet"];
    larder(b"", &[&["export", "--server", &fixture.address(), &path], &rate[..]].concat())
        .printed();
    let took = started.elapsed().as_secs_f64();
    let found = read_dump(&path);
    assert!(found.len() == 80 && found.keys().all(|key| key.starts_with(b"user:")));
    assert!((1.8..6.0).contains(&took), "80 items at 40 items/s took {took:.1} s, expected 2 s");
}

#[test]
fn a_memory_file_is_exported_without_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = dump_at(&folder);
    let file = folder.path().join("cache");
    let cache = Cache::builder().memory_bytes(16 << 20).shared(&file).open().unwrap();
    cache.set("plain", "value", Some(Duration::from_secs(600))).unwrap();
    cache.set([0, 255, b' '], vec![7; 700_000], None).unwrap();
    let file = file.display().to_string();
    let mut in_use = Some(cache);
    for state in ["in use", "not in use"] {
        larder(b"", &["export", &file, &path, "--quiet"]).printed();
        let found = read_dump(&path);
        assert_eq!(found.len(), 2, "{state}");
        assert_eq!(found[&[0, 255, b' '][..]], (0, None, vec![7; 700_000]), "{state}");
        let (_, deadline, value) = &found[&b"plain"[..]];
        assert_eq!(value, b"value", "{state}");
        assert!(deadline.unwrap().abs_diff(now_unix_secs() + 600) <= 2, "{deadline:?}");
        drop(in_use.take());
    }
}

#[test]
fn what_a_server_does_not_take_is_counted_and_fails_the_import() {
    let folder = tempfile::tempdir().unwrap();
    let path = dump_at(&folder);
    let now = now_unix_secs();
    // Neither server takes this key: in base64 it has 336 bytes. memcached 1.6.18 would then
    // execute the value.
    let long_binary = vec![b' '; 250];
    let items: Items = [
        (b"fits".to_vec(), (0, None, b"1".to_vec())),
        (b"large".to_vec(), (0, None, vec![b'x'; 2 << 20])),
        (b"expired".to_vec(), (0, Some(now - 1), b"1".to_vec())),
        (long_binary, (0, None, b"flush_all\r\nset injected 0 0 1\r\n1".to_vec())),
        (b"last".to_vec(), (0, Some(u64::MAX), b"1".to_vec())),
    ]
    .into();
    write_dump(&path, &items);
    for fixture in [Fixture::start(), memcached(&[])] {
        let ran = larder(b"", &["import", &path, "--server", &fixture.address()]);
        ran.failed(1, "; 1 expired; 1 too large for the server (-I); 1 refused");
        ran.failed(1, "refused: \\x20\\x20");
        ran.failed(1, "2 items imported");
        assert_eq!(fixture.larder("get", &["fits"]).printed(), b"1");
        assert_eq!(fixture.larder("get", &["last"]).printed(), b"1");
        assert_eq!(fixture.larder("get", &["injected"]).exit_code, 1);
    }
}

#[test]
fn a_dump_that_is_cut_off_or_no_dump_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = dump_at(&folder);
    let fixture = Fixture::start();
    let address = fixture.address();
    let items = Items::from([
        (b"a".to_vec(), (0, None, b"whole".to_vec())),
        (b"b".to_vec(), (0, None, vec![7; 500_000])),
    ]);
    write_dump(&path, &items);
    let dump = std::fs::read(&path).unwrap();
    let ran = larder(&dump[..400_000], &["import", "-", "--server", &address]);
    ran.failed(2, "stdin: the dump ends at byte 400000 without the rest of a block");
    assert!(ran.stderr.contains("1 item imported"), "{}", ran.stderr);
    assert_eq!(fixture.larder("get", &["a"]).printed(), b"whole");
    assert_eq!(fixture.larder("get", &["b"]).exit_code, 1);
    larder(b"GIF89a", &["import", "-", "--server", &address])
        .failed(2, "this is not a dump of larder export: it begins with");
    larder(b"", &["import", "/nowhere/dump", "--server", &address])
        .failed(2, "cannot read /nowhere/dump");
}

#[test]
fn an_export_that_fails_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = dump_at(&folder);
    let absent = folder.path().join("socket").display().to_string();
    larder(b"", &["export", "--server", &absent, &path]).failed(2, "cannot connect to");
    larder(b"", &["export", "absent", &path])
        .failed(2, "there is no file or directory absent, and it is no");
    let fixture = Fixture::start_with(&["-X"]);
    larder(b"", &["export", "--server", &fixture.address(), &path]).failed(2, "started with -X");
    assert!(!Path::new(&path).exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a part of a dump is left");
}

#[test]
fn a_server_without_the_meta_protocol_gets_no_value() {
    // A server of another protocol treats each line as a command.
    let address = crate::start_server(|mut stream| {
        let mut buffer = [0; 4096];
        while let Ok(1..) = stream.read(&mut buffer) {
            if stream.write_all(b"ERROR\r\nERROR\r\n").is_err() {
                return;
            }
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let path = dump_at(&folder);
    write_dump(&path, &items(1));
    larder(b"", &["import", &path, "--server", &address])
        .failed(2, "does not store by the meta protocol");
    larder(b"", &["export", "--server", &address, &path]).failed(2, "does not list keys: ERROR");
}

/// A server that evicts a value while it sends this value closes the connection.
#[test]
fn an_item_whose_value_breaks_off_is_left_out_and_the_export_goes_on() {
    let address = crate::start_server(|mut stream| {
        let (mut request, mut asked) = ([0; 4096], Vec::new());
        while !asked.ends_with(b"\n") {
            let bytes = stream.read(&mut request).unwrap();
            asked.extend_from_slice(&request[..bytes]);
        }
        let answer: &[u8] = match &asked[..] {
            b"mg broken v f t u\r\nmg whole v f t u\r\n" => b"VA 100 f0 t-1\r\nonly a part",
            b"mg whole v f t u\r\n" => b"VA 2 f7 t-1\r\nok\r\n",
            _ if asked.starts_with(b"lru_crawler") => {
                b"OK\r\nkey=broken exp=-1\nkey=whole exp=-1\nEND\r\n"
            }
            _ => b"STAT curr_items 2\r\nEND\r\n",
        };
        stream.write_all(answer).unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let path = dump_at(&folder);
    let ran = larder(b"", &["export", "--server", &address, &path]);
    ran.failed(1, "1 item exported");
    ran.failed(1, "; 1 not read to the end");
    assert_eq!(read_dump(&path), Items::from([(b"whole".to_vec(), (7, None, b"ok".to_vec()))]));
}

#[test]
fn a_void_item_of_a_dump_is_not_stored() {
    let mut writer = Writer::new(Vec::new(), 7).unwrap();
    let entry = |key| Entry { key, flags: 0, deadline_unix_secs: None, value_bytes: 500_000 };
    let value = vec![b'v'; 500_000];
    writer.item(&entry(b"before"), &value).unwrap();
    writer.begin(&entry(b"broken")).unwrap();
    writer.push(&value[..300_000]).unwrap();
    writer.abandon().unwrap();
    writer.item(&entry(b"behind"), &value).unwrap();
    let dump = writer.finish().unwrap();
    let fixture = Fixture::start();
    let ran = larder(&dump, &["import", "-", "--server", &fixture.address()]);
    assert_eq!(ran.exit_code, 0, "{ran:?}");
    assert!(ran.stderr.contains("2 items imported"), "{}", ran.stderr);
    assert!(ran.stderr.contains("; 1 without a complete value"), "{}", ran.stderr);
    for (key, exit_code) in [("before", 0), ("broken", 1), ("behind", 0)] {
        assert_eq!(fixture.larder("get", &[key]).exit_code, exit_code, "{key}");
    }
}
