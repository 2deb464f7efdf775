//! The subcommands get, set, delete, stats and ping.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::{Fixture, larder};

#[test]
fn one_key_prints_its_value_byte_for_byte() {
    let fixture = Fixture::start();
    for value in [&b"hello"[..], b"", b"two\r\nlines\n", &[0, 255, 13, 10]] {
        assert_eq!(fixture.larder_reading(value, "set", &["k"]).printed(), b"");
        assert_eq!(fixture.larder("get", &["k"]).printed(), value);
    }
    fixture.larder("set", &["k", "-5"]).printed();
    assert_eq!(fixture.larder("get", &["k"]).printed(), b"-5");
    fixture.larder_reading(b"from stdin", "set", &["k", "-"]).printed();
    assert_eq!(fixture.larder("get", &["k"]).printed(), b"from stdin");
}

#[test]
fn a_value_of_megabytes_arrives_unchanged() {
    let fixture = Fixture::start_with(&["-m", "64", "-I", "8m"]);
    let value: Vec<u8> = (0..3_000_001u32).map(|index| (index / 7 + index) as u8).collect();
    fixture.larder_reading(&value, "set", &["big"]).printed();
    assert!(fixture.larder("get", &["big"]).printed() == value);
}

#[test]
fn several_keys_print_a_line_each_and_name_the_missing_ones() {
    let fixture = Fixture::start();
    fixture.larder("set", &["a", "1"]).printed();
    fixture.larder("set", &["b", "2"]).printed();
    assert_eq!(fixture.larder("get", &["a", "b"]).printed(), b"a\t1\nb\t2\n");

    let ran = fixture.larder("get", &["x", "a", "y", "b", "z"]);
    let address = fixture.address();
    let missing: String = ["x", "y", "z"]
        .iter()
        .map(|key| format!("larder: {address} has no item \"{key}\"\n"))
        .collect();
    assert_eq!((ran.exit_code, &*ran.stdout), (1, &b"a\t1\nb\t2\n"[..]));
    assert_eq!(ran.stderr.replace("unix:", ""), missing);
    fixture.larder("get", &["x"]).failed(1, "has no item \"x\"");
}

#[test]
fn get_shows_flags_and_the_cas_token_by_option() {
    let fixture = Fixture::start();
    fixture.larder("set", &["k", "v", "--flags", "4294967295"]).printed();
    assert_eq!(fixture.larder("get", &["k", "--flags"]).printed(), b"k\tflags=4294967295\tv\n");
    let shown = String::from_utf8(fixture.larder("get", &["k", "--cas"]).printed()).unwrap();
    let cas = shown.strip_prefix("k\tcas=").and_then(|rest| rest.strip_suffix("\tv\n")).unwrap();

    fixture.larder("set", &["k", "new", "--cas", cas]).printed();
    fixture.larder("set", &["k", "newer", "--cas", cas]).failed(1, "another cas token");
    fixture.larder("set", &["other", "x", "--cas", cas]).failed(1, "the key has no item");
    assert_eq!(fixture.larder("get", &["k"]).printed(), b"new");
}

#[test]
fn a_set_whose_condition_fails_names_the_reason() {
    let fixture = Fixture::start();
    fixture.larder("set", &["k", "b", "--replace"]).failed(1, "\"k\" not stored");
    fixture.larder("set", &["k", "b", "--append"]).failed(1, "the key has no item");
    fixture.larder("set", &["k", "b", "--add"]).printed();
    fixture.larder("set", &["k", "x", "--add"]).failed(1, "the key has an item already");
    fixture.larder("set", &["k", "a", "--prepend"]).printed();
    fixture.larder("set", &["k", "c", "--append"]).printed();
    assert_eq!(fixture.larder("get", &["k"]).printed(), b"abc");
    fixture.larder("set", &["k", "x", "--add", "--replace"]).failed(2, "cannot be used with");
}

#[test]
fn an_item_lives_for_its_ttl() {
    let fixture = Fixture::start();
    fixture.larder("set", &["short", "v", "--ttl", "1"]).printed();
    fixture.larder("set", &["months", "v", "--ttl", "5000000"]).printed();
    thread::sleep(Duration::from_millis(2100));
    fixture.larder("get", &["short"]).failed(1, "no item");
    assert_eq!(fixture.larder("get", &["months"]).printed(), b"v");
    fixture.larder("set", &["k", "v", "--ttl", "0"]).failed(2, "--ttl <SECS>");
}

#[test]
fn delete_removes_items_and_names_the_missing_keys() {
    let fixture = Fixture::start();
    fixture.larder("set", &["a", "1"]).printed();
    fixture.larder("set", &["b", "2"]).printed();
    fixture.larder("delete", &["a", "x", "b"]).failed(1, "has no item \"x\"");
    fixture.larder("get", &["a", "b"]).failed(1, "has no item \"b\"");
}

#[test]
fn stats_prints_a_table_or_the_raw_lines() {
    let fixture = Fixture::start();
    let table = String::from_utf8(fixture.larder("stats", &[]).printed()).unwrap();
    let column = table.find("pid").and_then(|_| table.lines().next()?.rfind("  ")).unwrap() + 2;
    assert!(table.lines().all(|line| line.as_bytes()[column - 1] == b' '), "{table}");
    let raw = String::from_utf8(fixture.larder("stats", &["--raw"]).printed()).unwrap();
    assert!(raw.lines().all(|line| line.starts_with("STAT ")), "{raw}");
    assert!(raw.contains("\nSTAT cmd_get 0\n"), "{raw}");
    let settings = String::from_utf8(fixture.larder("stats", &["settings"]).printed()).unwrap();
    assert!(settings.contains("maxbytes"), "{settings}");

    fixture.larder("get", &["k"]).failed(1, "no item");
    let get_misses = || {
        let raw = String::from_utf8(fixture.larder("stats", &["--raw"]).printed()).unwrap();
        raw.lines().find_map(|line| line.strip_prefix("STAT get_misses ")?.parse::<u64>().ok())
    };
    assert_eq!(get_misses(), Some(1));
    fixture.larder("stats", &["reset"]).printed();
    assert_eq!(get_misses(), Some(0));
    fixture.larder("stats", &["nonsense"]).failed(2, "possible values: general, settings");
}

#[test]
fn ping_shows_the_version_and_a_time() {
    let shown = String::from_utf8(Fixture::start().larder("ping", &[]).printed()).unwrap();
    assert!(shown.contains(": version 1.6."), "{shown}");
    assert!(shown.ends_with(" ms\n"), "{shown}");
}

#[test]
fn ping_waits_for_a_server_that_starts_later() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        let (mut client, _) = TcpListener::bind(address).unwrap().accept().unwrap();
        for _ in 0..3 {
            let mut asked = [0; 9];
            client.read_exact(&mut asked).unwrap();
            assert_eq!(&asked, b"version\r\n");
            client.write_all(b"VERSION 1.6.45\r\n").unwrap();
        }
    });
    let address = address.to_string();
    let shown = larder(b"", &["ping", "--wait", "10", "-s", &address]).printed();
    assert!(shown.starts_with(format!("{address}: version 1.6.45, ").as_bytes()));
    server.join().unwrap();
    larder(b"", &["ping", "-s", &address]).failed(2, "cannot connect");
    larder(b"", &["ping", "--wait", "1", "-s", &address]).failed(2, "cannot connect");
}

#[test]
fn an_invalid_key_is_refused_before_anything_is_sent() {
    let absent = "--server=./absent.sock";
    let long = "k".repeat(251);
    for (key, said) in [
        ("", "the key is empty, expected 1 to 250 bytes"),
        (&*long, "the key has 251 bytes, expected 1 to 250"),
        ("a b", "\"a b\": the key contains a space, expected 250 bytes at most"),
        ("a\r\nflush_all", "\"a\\r\\nflush_all\": the key contains a carriage return"),
    ] {
        larder(b"", &["get", absent, "ok", key]).failed(2, said);
        larder(b"", &["set", absent, key, "v"]).failed(2, said);
        larder(b"", &["delete", absent, "ok", key]).failed(2, said);
    }
}

#[test]
fn a_refused_value_is_an_error_in_the_server_s_words() {
    let fixture = Fixture::start();
    let value = vec![b'v'; 2 << 20];
    let ran = fixture.larder_reading(&value, "set", &["k"]);
    ran.failed(2, "SERVER_ERROR object too large for cache");
}

#[test]
fn a_closed_output_is_no_error() {
    use std::process::{Command, Stdio};
    let fixture = Fixture::start();
    let mut tool = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(["stats", "--server", &fixture.address()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(tool.stdout.take());
    let output = tool.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}
