//! Options of the binary: messages, exit codes, help.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::Result;
use larder_options::{LARDER_COMMIT, LARDER_VERSION, LARDERD_BUILD};
use larder_testkit::server::{command, is_root, memcached, run_to_end};
use larder_testkit::{ServerUnderTest, Transport};

use crate::binary;

fn run(binary: &Path, args: &[&str]) -> Result<Output> {
    run_to_end(command(binary).args(args))
}

fn run_larderd(args: &[&str]) -> Result<Output> {
    run(&binary(), args)
}

/// Command lines that memcached refuses.
const REFUSED: &[&str] = &[
    "--nothing",
    "--nothing=1",
    "-Q",
    "-vQ",
    "--l",
    "--daemon=3",
    "--port",
    "-c 0",
    "-c -1",
    "-t 0",
    "-R 0",
    "-f 1",
    "-n 0",
    "-p",
    "-p 70000",
    "-B udp",
    "-I 1023",
    "-I 2000000000",
    "-I 1000",
    "-I 33m",
    "-u no-such-user",
    "-l 192.0.2.1",
    "-l foo:bar",
    "-s /nothing/there/socket",
    "-S -B ascii",
    "-S -B auto",
    "-Y /users -B auto",
    "-Y /users -B binary",
    "-N 0",
    "-N 5",
    "-o nothing",
    "-o nothing=5",
    "-o hot_lru_pct=70,warm_lru_pct=70",
    "-o hot_lru_pct=0",
    "-o warm_lru_pct=80",
    "-o hot_max_factor=0",
    "-o warm_max_factor=-1",
    "-o temporary_ttl=5,no_lru_maintainer",
    "-o hashpower=11",
    "-o hashpower=33",
    "-o hashpower",
    "-o hash_algorithm=md5",
    "-o tail_repair_time=9",
    "-o slab_automove=3",
    "-o slab_automove_ratio=0",
    "-o slab_automove_ratio=1.5",
    "-o slab_automove_window=2",
    "-o slab_chunk_max=3",
    "-o slab_chunk_max=1000000",
    "-o slab_chunk_max=16384 -I 20000",
    "-o slab_sizes=10-20",
    "-o slab_sizes=100-100",
    "-o slab_sizes=100-105",
    "-o slab_sizes=200-100",
    "-o slab_sizes=100-2000000",
    "-o lru_crawler_sleep=1000001",
    "-o lru_crawler_tocrawl=x",
    "-o idle_timeout",
    "-o temporary_ttl",
    "-o watcher_logbuf_size=x",
    "-o read_buf_mem_limit=x",
];

/// The exit status shows what must be changed: 64 the options, 67 the user, 71 the system.
#[test]
fn command_lines_that_memcached_refuses_are_refused_with_a_foreseeable_exit_code() {
    let lines = REFUSED.iter().map(|line| line.split(' ').collect::<Vec<_>>());
    // Empty arguments cannot be written as a line.
    for args in lines.chain([vec!["-D", ""]]) {
        let larderd = run_larderd(&args).unwrap();
        let memcached = run(&memcached().unwrap(), &args).unwrap();
        assert_ne!(memcached.status.code(), Some(0), "{args:?}");
        let expected = match args[0] {
            "-u" => 67,
            "-l" if args[1] == "192.0.2.1" => 71,
            "-s" => 71,
            _ => 64,
        };
        assert_eq!(larderd.status.code(), Some(expected), "{args:?}: {larderd:?}");
    }
}

#[test]
fn every_source_of_a_wrong_option_ends_with_exit_code_64() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("larder.toml");
    std::fs::write(&file, "memory-limit = 64\n").unwrap();
    let config = format!("--config={}", file.display());
    let missing = format!("--config={}/none", folder.path().display());
    for (args, variable, words) in [
        (&[&*config][..], "1", "\"memory-limit\": no such option; did you mean memory_limit?"),
        (&[&missing], "1", "option --config: "),
        (&[], "x", "LARDER_THREADS: \"x\" is not a number"),
        (&["--memory-limt=1"], "1", "--memory-limt: no such option; did you mean --memory-limit?"),
        (&["--io=io_uring"], "1", "did you mean uring?"),
    ] {
        let larderd = binary();
        let output = run_to_end(command(&larderd).args(args).env("LARDER_THREADS", variable));
        let output = output.unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{args:?}: {message}");
        assert!(message.contains(words), "{args:?}: {message}");
    }
}

#[test]
fn a_small_memory_starts_with_a_largest_item_of_half_of_it() {
    let binary = binary();
    for (memory, item) in [("1", 512 << 10), ("2", 1 << 20), ("4", 1 << 20), ("8", 1 << 20)] {
        let args = ["-m", memory];
        let server = ServerUnderTest::start(&binary, Transport::Unix, &args).unwrap();
        let mut stream = server.connect().unwrap();
        let rows = stream.ask(b"stats settings\r\n", b"END\r\n").unwrap();
        let row = format!("STAT item_size_max {item}\r\n");
        assert!(String::from_utf8_lossy(&rows).contains(&row), "-m {memory}: {row}");
        let value = vec![b'x'; item - 1000];
        let set = [format!("set k 0 0 {}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat();
        stream.ask(&set, b"STORED\r\n").unwrap();
        let got = stream.ask(b"get k\r\n", b"END\r\n").unwrap();
        assert!(got.len() > value.len(), "-m {memory}: {} bytes", got.len());
    }
}

#[test]
fn a_refusal_is_one_line_that_names_the_option_the_value_and_what_is_allowed() {
    for (args, parts) in [
        (&["-p", "x"][..], &["-p", "\"x\"", "65535"][..]),
        (&["-t", "0"], &["-t", "\"0\"", "1"]),
        (&["-m", "much"], &["-m", "\"much\"", "MiB"]),
        (&["-I", "5"], &["-I", "\"5\"", "1024"]),
        (&["--port=x"], &["-p", "\"x\"", "65535"]),
        (&["-S", "-B", "auto"], &["-S", "-B binary"]),
        (&["-Y", "/users", "-B", "binary"], &["-Y", "-B ascii"]),
        (&["-Z"], &["-Z", "ssl_chain_cert"]),
        (
            &["-Z", "-o", "ssl_chain_cert=/nothing,ssl_key=/nothing"],
            &["ssl_chain_cert", "/nothing"],
        ),
        (&["-o", "nothing=5"], &["nothing"]),
        (&["-c"], &["-c", "argument"]),
    ] {
        let output = run_larderd(args).unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(message.lines().count(), 1, "{args:?}: {message}");
        for part in parts {
            assert!(message.contains(part), "{args:?} should name {part}: {message}");
        }
        assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    }
}

#[test]
fn root_has_to_name_a_user() {
    if !is_root() {
        return larder_testkit::skip("needs root");
    }
    for binary in [binary(), memcached().unwrap()] {
        let output = run_to_end(&mut Command::new(binary)).unwrap();
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("-u"), "{output:?}");
    }
}

/// Returns the rows of `stats settings`.
fn settings(binary: &Path, args: &[&str]) -> Result<Vec<(String, String)>> {
    let server = ServerUnderTest::start(binary, Transport::Tcp, args)?;
    let answer = server.connect()?.ask(b"stats settings\r\n", b"END\r\n")?;
    let rows = String::from_utf8(answer)?;
    let row = |line: &str| -> Option<(String, String)> {
        let (name, text) = line.strip_prefix("STAT ")?.split_once(' ')?;
        Some((name.to_owned(), text.to_owned()))
    };
    Ok(rows.lines().filter_map(row).collect())
}

/// Rows that may differ: each start has a different port, and one row has another default in
/// 1.6.45.
const NOT_COMPARED: [&str; 2] = ["tcpport", "slab_automove_window"];

#[test]
fn settings_are_shown_as_memcached_shows_them() {
    for line in [
        "-C",
        "-m 100 -c 300 -t 3 -R 7 -b 99 -a 0770 -M -A -F -X",
        "-f 1.5 -n 100 -D / -I 2m",
        "-I 512k -o slab_chunk_max=16384",
        "-I 1024 -o slab_chunk_max=1024",
        "-o no_modern",
        "-o no_modern,lru_maintainer,lru_crawler -I 2m",
        "-o no_chunked_items,no_slab_reassign,no_slab_automove,no_maxconns_fast,no_lru_crawler",
        "-o slab_automove,slab_automove_ratio=0.5,slab_automove_window=20,slab_automove=2",
        "-o idle_timeout=50,track_sizes,temporary_ttl=20,hashpower=17,hash_algorithm=xxh3",
        "-o hot_lru_pct=30,warm_lru_pct=50,hot_max_factor=0.3,warm_max_factor=1.255",
        "-o lru_crawler_sleep=10,lru_crawler_tocrawl=7,tail_repair_time=60",
        // Not below 48, because 1.6.18 also takes the second one for slab_sizes.
        "-o watcher_logbuf_size=32,worker_logbuf_size=100",
        "-B ascii -o slab_sizes=96-200-300",
        "-B auto -L -vv",
        "-W -k -r -l 127.0.0.2",
        "--verbose=1 --memory-lim 80 --conn-limit=30 --threads=2",
        // Arguments may begin with blanks, written as ~ here.
        "-m ~80 --threads=~3 -c~30 -f ~1.5 -o idle_timeout=~5,hot_max_factor=~0.5",
        "stray -R5 -- -t 2",
    ] {
        let args: Vec<_> = line.split(' ').map(|word| word.replace('~', " ")).collect();
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let larderd = settings(&binary(), &args).unwrap();
        let memcached = settings(&memcached().unwrap(), &args).unwrap();
        let named = |name: &str| memcached.iter().any(|(other, _)| other == name);
        let compared = |rows: &[(String, String)]| -> Vec<String> {
            let rows = rows.iter().filter(|(name, _)| named(name));
            let rows = rows.filter(|(name, _)| !NOT_COMPARED.contains(&name.as_str()));
            rows.map(|(name, text)| format!("{name} {text}")).collect()
        };
        let (larderd, memcached) = (compared(&larderd), compared(&memcached));
        assert_eq!(larderd.len(), memcached.len(), "{line}: {memcached:?}");
        for (larderd, memcached) in larderd.iter().zip(&memcached) {
            assert_eq!(larderd, memcached, "{line}");
        }
    }
}

#[test]
fn options_without_effect_are_accepted_with_a_warning_each() {
    let binary = binary();
    let args = ["-N", "2", "-o", "tail_repair_time=20,ext_threads=2,modern,relaxed_privileges"];
    let server = ServerUnderTest::start(&binary, Transport::Unix, &args).unwrap();
    let warnings = server.log();
    assert_eq!(warnings.lines().count(), 3, "{warnings}");
    for option in ["-N", "-o tail_repair_time", "-o ext_threads"] {
        assert!(warnings.contains(&format!("option {option}: it has no effect")), "{warnings}");
    }
}

#[test]
fn the_configuration_is_printed_with_where_each_value_was_given() {
    let output = run_larderd(&["--print-config", "-m", "128"]).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for line in ["memory_limit = 128  # command line", "threads = 4  # default"] {
        assert!(text.lines().any(|printed| printed == line), "{line}: {text}");
    }
}

#[test]
fn help_and_version_begin_with_the_version_of_memcached() {
    for args in [["-h"], ["--help"], ["-V"], ["--version"], ["-i"]] {
        let output = run_larderd(&args).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.lines().next(), Some("memcached 1.6.45"), "{args:?}");
    }
}

#[test]
fn the_second_line_of_the_version_tells_the_build_and_stats_tell_the_same() {
    let output = run_larderd(&["-V"]).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let build = format!("larder {LARDERD_BUILD}");
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), [&*build]);
    let begin = format!("larder {LARDER_VERSION} (commit {LARDER_COMMIT}, ");
    assert!(build.starts_with(&begin), "{build}: expected {begin}…");
    let date = build[begin.len()..].split(',').next().unwrap_or_default();
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    assert!(date == "unknown" || (date.len(), digits) == (10, 8), "{date}: not a date");
    assert!(build.contains(", features io_uring "), "{build}: io_uring is missing");
    assert!(LARDER_COMMIT == "unknown" || LARDER_COMMIT.len() >= 7, "{LARDER_COMMIT}");
}

#[test]
fn help_names_every_option_that_memcached_has_and_that_matters_here() {
    let help = run_larderd(&["-h"]).unwrap();
    let help = String::from_utf8_lossy(&help.stdout);
    for name in [
        "-p, --port",
        "-s, --unix-socket",
        "-a, --unix-mask",
        "-l, --listen",
        "-d, --daemon",
        "-u, --user",
        "-m, --memory-limit",
        "-M, --disable-evictions",
        "-c, --conn-limit",
        "-t, --threads",
        "-I, --max-item-size",
        "-C, --disable-cas",
        "-F, --disable-flush-all",
        "-P, --pidfile",
        "-R, --max-reqs-per-event",
        "-b, --listen-backlog",
        "-S, --enable-sasl",
        "-Y, --auth-file",
        "-W, --disable-watch",
        "-o, --extended",
    ] {
        assert!(help.contains(name), "{name} is missing: {help}");
    }
    // Test suites detect features by these rows.
    for name in ["ext_path", "proxy_config", "no_drop_privileges"] {
        assert!(!help.contains(name), "{name}: {help}");
    }
}
