//! `larder doctor`: each rule is provoked on a real server. The rules are about
//! larderd.

use std::path::Path;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use larder::Cache;
use larder_testkit::server::{Signal, memcached};
use larder_testkit::{MemoryGroup, ServerUnderTest, Stream, Transport};
use rustix::thread::disable_transparent_huge_pages;

use crate::{Fixture, Ran, binary, larder};

/// Runs `larder doctor FILE MORE`.
fn examine(file: &str, more: &[&str]) -> Ran {
    larder(b"", &[&["doctor", file], more].concat())
}

/// Runs `larder doctor --server ADDR MORE`.
pub(crate) fn examine_server(address: &str, more: &[&str]) -> Ran {
    larder(b"", &[&["doctor", "--server", address], more].concat())
}

/// Asserts that the doctor reports exactly this finding, and that its text contains `words`.
#[track_caller]
pub(crate) fn assert_finds(ran: &Ran, name: &str, words: &[&str]) {
    let said = String::from_utf8_lossy(&ran.stdout);
    assert_eq!((ran.exit_code, &*ran.stderr), (1, ""), "{said}");
    assert_eq!(said.lines().count(), 1, "more than one finding:\n{said}");
    assert!(said.starts_with(&format!("{name}: ")), "{name} is missing:\n{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is missing:\n{said}");
    }
}

/// Findings that every test server has: its memory is private, and small.
pub(crate) const OF_TESTS: &[&str] = &["--ignore", "restart", "--ignore", "no-huge-pages"];

pub(crate) fn set(stream: &mut Stream, key: &str, value_bytes: usize) {
    let request = format!("set {key} 0 0 {value_bytes}\r\n{}\r\n", "v".repeat(value_bytes));
    stream.ask(request.as_bytes(), b"\r\n").unwrap();
}

#[test]
fn a_healthy_server_under_load_has_no_finding() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = folder.path().join("cache").display().to_string();
    let fixture = Fixture::start_on(Transport::Unix, &["-m", "64", "-e", &file]);
    let address = fixture.address();
    let load = ["--seconds", "3", "--connections", "20", "--keys", "20000"];
    let load: Vec<String> = [&["bench", "--server", &address][..], &load]
        .concat()
        .into_iter()
        .map(String::from)
        .collect();
    let load = std::thread::spawn(move || {
        let args: Vec<&str> = load.iter().map(String::as_str).collect();
        larder(b"", &args)
    });
    sleep(Duration::from_secs(2));
    assert_eq!(examine_server(&address, &[]).printed(), b"nothing found\n", "under load");
    assert_eq!(examine(&file, &[]).printed(), b"nothing found\n", "its memory file");
    assert_eq!(load.join().unwrap().exit_code, 0, "the load failed");
    assert_eq!(examine_server(&address, &[]).printed(), b"nothing found\n", "after the load");
}

#[test]
fn a_memory_smaller_than_what_clients_read_is_found() {
    let fixture = Fixture::start_on(Transport::Unix, &["-m", "4"]);
    let mut stream = fixture.server.connect().unwrap();
    // Clients read twice as many items as fit, in random order, and store the missing ones.
    let mut random = 1_u64;
    for _ in 0..40_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let key = format!("key-{}", (random >> 33) % 8000);
        if stream.ask(format!("mg {key} s\r\n").as_bytes(), b"\r\n").unwrap() == b"EN\r\n" {
            set(&mut stream, &key, 1000);
        }
    }
    let ran = examine_server(&fixture.address(), OF_TESTS);
    assert_finds(&ran, "memory-small", &["stored again shortly after their eviction", "now 4 MiB"]);
}

#[test]
fn a_memory_that_does_not_fit_the_cgroup_is_found() {
    let Some(group) = MemoryGroup::new(&binary(), "doctor", 200) else { return };
    let fixture = Fixture { server: group.start(&["-m", "64"]).unwrap() };
    let address = fixture.address();
    assert_eq!(examine_server(&address, OF_TESTS).printed(), b"nothing found\n");
    let mut stream = fixture.server.connect().unwrap();
    stream.ask(b"cache_memlimit 103\r\n", b"\r\n").unwrap();
    let words =
        ["103 MiB for items (-m) and up to 98 MiB", "than the 200 MiB", "-m to 102 or less"];
    assert_finds(&examine_server(&address, OF_TESTS), "memory-limit", &words);
    stream.ask(b"cache_memlimit 102\r\n", b"\r\n").unwrap();
    assert_eq!(examine_server(&address, OF_TESTS).printed(), b"nothing found\n");
    drop(fixture);

    let args = ["-m", "8", "-t", "2", "-o", "read_buf_mem_limit=200"];
    let fixture = Fixture { server: group.start(&args).unwrap() };
    let words = ["up to 226 MiB", "lower -c or -o read_buf_mem_limit, raise"];
    assert_finds(&examine_server(&fixture.address(), OF_TESTS), "memory-limit", &words);
}

/// The table of docs/tool.md has each finding, in the order of the error about an unknown one.
#[test]
fn the_documents_have_every_finding() {
    let ran = examine_server("./absent.sock", &["--ignore", "x"]);
    let (_, names) = ran.stderr.trim_end().rsplit_once("expected one of ").unwrap();
    let tool = include_str!("../../../../docs/tool.md");
    let section = tool.split("\n## ").find(|section| section.contains("larder doctor`\n")).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>().join(", "), names);
}

#[test]
fn refused_stores_are_found() {
    let fixture = Fixture::start_on(Transport::Unix, &["-m", "4", "-M"]);
    let mut stream = fixture.server.connect().unwrap();
    (0..6000).for_each(|number| set(&mut stream, &format!("key-{number}"), 1000));
    let ran = examine_server(&fixture.address(), OF_TESTS);
    assert_finds(&ran, "memory-refused", &["because memory was full", "start without -M"]);
}

#[test]
fn values_beyond_the_limit_are_found_also_on_memcached() {
    let theirs = ServerUnderTest::start(&memcached().unwrap(), Transport::Unix, &[]).unwrap();
    for fixture in [Fixture { server: theirs }, Fixture::start_on(Transport::Unix, &[])] {
        assert_eq!(examine_server(&fixture.address(), &[]).printed(), b"nothing found\n");
        set(&mut fixture.server.connect().unwrap(), "k", 2 << 20);
        let ran = examine_server(&fixture.address(), OF_TESTS);
        assert_finds(&ran, "value-too-large", &["1 store was", "-I, now 1048576 bytes"]);
    }
}

#[test]
fn connections_at_their_limit_are_found() {
    for (args, words) in [
        (&["-c", "4"][..], "connections were refused, because the limit -c"),
        (&["-c", "4", "-o", "no_maxconns_fast"], "had to wait"),
    ] {
        let fixture = Fixture::start_on(Transport::Unix, args);
        let open = || fixture.server.connect();
        let mut streams: Vec<_> = (0..8).map(|_| open().unwrap()).collect();
        sleep(Duration::from_millis(300));
        drop(streams.split_off(1));
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut ran = examine_server(&fixture.address(), OF_TESTS);
        while ran.exit_code == 2 && Instant::now() < deadline {
            ran = examine_server(&fixture.address(), OF_TESTS);
        }
        assert_finds(&ran, "connections-limit", &[words, "of 4 are open", "Raise -c"]);
    }
}

/// The value is larger than the buffers of a connection may be, so that the server cannot render
/// responses in parts.
#[test]
fn connections_closed_over_the_budget_are_found() {
    let args = ["-c", "4096", "-o", "read_buf_mem_limit=1"];
    let fixture = Fixture::start_on(Transport::Unix, &args);
    set(&mut fixture.server.connect().unwrap(), "k", 16_380);
    let request = format!("get{}\r\n", " k".repeat(4000));
    let ask = |_| {
        let mut stream = fixture.server.connect().unwrap();
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        stream
    };
    let holders: Vec<Stream> = (0..2000).map(ask).collect();
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut ran = examine_server(&fixture.address(), OF_TESTS);
    while ran.exit_code == 0 && Instant::now() < deadline {
        sleep(Duration::from_millis(500));
        ran = examine_server(&fixture.address(), OF_TESTS);
    }
    assert_finds(&ran, "buffers-limit", &["with unread answers", "do not read their answers"]);
    drop(holders);
}

#[test]
fn workers_on_epoll_are_found() {
    let has_uring = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    if has_uring.is_ok_and(|setting| setting.trim() == "0") {
        let fixture = Fixture::start_on(Transport::Unix, &["--io=epoll"]);
        let ran = examine_server(&fixture.address(), OF_TESTS);
        assert_finds(&ran, "no-io-uring", &["use epoll", "start without --io=epoll"]);
    }
}

/// A test locks this while it starts a server whose huge pages it examines, because another test
/// turns huge pages off for servers that start at the same time.
pub(crate) static HUGE_PAGES: Mutex<()> = Mutex::new(());

#[test]
fn memory_without_huge_pages_is_found() {
    // The server inherits the setting. Servers of other tests may inherit it too, but those tests
    // ignore the finding.
    let start = HUGE_PAGES.lock();
    disable_transparent_huge_pages(true).unwrap();
    let fixture = Fixture::start_on(Transport::Unix, &["-m", "128"]);
    disable_transparent_huge_pages(false).unwrap();
    drop(start);
    let mut stream = fixture.server.connect().unwrap();
    (0..100).for_each(|number| set(&mut stream, &format!("key-{number}"), 500_000));
    let ran = examine_server(&fixture.address(), &["--ignore", "restart"]);
    assert_finds(&ran, "no-huge-pages", &["MiB of memory have no huge pages", "with prctl"]);
}

#[test]
fn items_that_a_restart_loses_are_found() {
    let fixture = Fixture::start_on(Transport::Unix, &[]);
    assert_eq!(examine_server(&fixture.address(), &[]).printed(), b"nothing found\n");
    fixture.larder("set", &["k", "v"]).printed();
    assert_finds(&examine_server(&fixture.address(), &[]), "restart", &["(1 item):", "-e FILE"]);
}

#[test]
fn a_memory_file_of_killed_processes_or_of_another_boot_is_found() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("cache");
    let file = path.display().to_string();
    let fixture = Fixture::start_on(Transport::Unix, &["-m", "4", "-e", &file]);
    fixture.larder("set", &["k", "v"]).printed();
    fixture.server.stop(Signal::KILL).unwrap();
    assert_finds(&examine(&file, &[]), "file-killed", &["1 process was killed", "fsck"]);
    std::fs::remove_file(&path).unwrap();
    let cache = Cache::builder().memory_bytes(4 << 20).shared(&path).open().unwrap();
    cache.set("k", "v", None).unwrap();
    drop(cache);
    assert_eq!(examine(&file, &[]).printed(), b"nothing found\n");
    pretend_another_boot(&path);
    assert_finds(&examine(&file, &[]), "file-old", &["Its 1 item can", "larder export"]);
}

/// Changes the boot id in the file, as if the system had been started since.
fn pretend_another_boot(path: &Path) {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let number = u128::from_str_radix(&boot.trim().replace('-', ""), 16).unwrap();
    let mut region = std::fs::read(path).unwrap();
    let forms = [number.to_le_bytes(), number.to_be_bytes()];
    let found = region.windows(16).position(|bytes| forms.iter().any(|form| form == bytes));
    region[found.expect("the region has the boot id")] ^= 1;
    std::fs::write(path, region).unwrap();
}

#[test]
fn what_cannot_be_examined_is_an_error() {
    examine_server("./absent.sock", &[]).failed(2, "cannot connect to");
    examine("absent", &[])
        .failed(2, "there is no file or directory absent, and it is not the address");
    examine("/etc/hostname", &[])
        .failed(2, "name a file that larderd -e or a program of this release");
    examine_server("./absent.sock", &["--ignore", "x"]).failed(2, "expected one of memory-small, ");
}
