//! Options as the binary takes them: messages, exit codes, help.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::Result;
use larder_testkit::server::{command, is_root, larderd, memcached, run_to_end};

fn run(binary: &Path, args: &[&str]) -> Result<Output> {
    run_to_end(command(binary).args(args))
}

fn run_larderd(args: &[&str]) -> Result<Output> {
    run(&larderd(env!("CARGO_BIN_EXE_larderd")), args)
}

#[test]
fn what_memcached_refuses_is_refused_with_its_exit_code() {
    for args in [
        &["--nothing"][..],
        &["-c", "0"],
        &["-c", "-1"],
        &["-t", "0"],
        &["-R", "0"],
        &["-f", "1"],
        &["-n", "0"],
        &["-D", ""],
        &["-p"],
        &["-p", "70000"],
        &["-B", "udp"],
        &["-I", "1023"],
        &["-I", "2000000000"],
        &["-u", "no-such-user"],
        &["-l", "192.0.2.1"],
        &["-s", "/nothing/there/socket"],
        &["-o", "nothing"],
        &["-o", "hot_lru_pct=70,warm_lru_pct=70"],
    ] {
        let larderd = run_larderd(args).unwrap();
        let memcached = run(&memcached().unwrap(), args).unwrap();
        assert_eq!(larderd.status.code(), memcached.status.code(), "{args:?}: {larderd:?}");
        assert_ne!(larderd.status.code(), Some(0), "{args:?}");
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
        (&["-Z"], &["-Z", "TLS"]),
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
        return;
    }
    let larderd = larderd(env!("CARGO_BIN_EXE_larderd"));
    let output = run_to_end(&mut Command::new(larderd)).unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("-u"), "{output:?}");
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
        "-o, --extended",
    ] {
        assert!(help.contains(name), "{name} is missing: {help}");
    }
}
