//! Messages for bad input: what was wrong, what was expected, and the exit status.

use crate::{Fixture, larder};

/// Arguments with wrong usage, and a part of the expected message.
const BAD_USAGE: &[(&[&str], &str)] = &[
    (&["get", "a b"], "\"a b\": the key contains a space, expected 250 bytes at most"),
    (&["set", "k", "v", "--ttl", "abc"], "expected a whole number from 1 to 4294967295"),
    (&["set", "k", "v", "--flags", "-"], "expected a whole number from 0 to 4294967295"),
    (
        &["set", "k", "v", "--cas", "x"],
        "expected the token that larder get --cas prints, as 42 or cas=42",
    ),
    (&["drain", "--wait", "abc"], "expected a whole number from 0 to 4294967295"),
    (&["bench", "--seconds", "0.1"], "expected a whole number from 1 to 86400"),
    (&["bench", "--ttl", "abc"], "expected a whole number from 0 to 4294967295"),
    (&["bench", "--rate", "x"], "expected requests per second"),
    (&["keys", "--limit", "0"], "expected a whole number from 1 to"),
    (&["hot", "--limit", "x"], "expected a whole number from 1 to"),
    (&["export", "x", "y", "--rate", "x"], "expected a whole number from 1 to"),
    (&["replay", "--trace", "x", "--memory", "1x"], "a number with k, m or g after it"),
    (&["inspect", "/nosuch"], "there is no file or directory /nosuch: check the path"),
    (&["inspect", "/etc/hostname"], "name a file that larderd -e or a program of this release"),
    (&["fsck", "nofile"], "there is no file or directory nofile: check the path"),
    (&["doctor", "nofile"], "there is no file or directory nofile"),
    (&["import", "/nosuch"], "cannot read /nosuch: No such file"),
    (&["import", "/etc/hostname"], "not a dump of larder export"),
    (&["ping", "-s", "::1"], "an IPv6 address must be in brackets: [::1]:PORT"),
    (&["ping", "-s", "localhost:x"], "expected a number from 1 to 65535"),
    (&["ping", "-s", "no-such-host.invalid"], "the path of a Unix socket begins with / or ./"),
    (&["keys", "--server", "localhost"], "expected host:port"),
    (&["stats", "detail"], "needs one argument, on, off or dump"),
    (&["stats", "cachedump", "1"], "needs two numbers"),
    (&["stats", "settings", "x"], "stats settings takes no argument, found \"x\""),
    (&["ping", "--tls", "--tls-ca", "/etc/hostname"], "there is no certificate in this file"),
];

/// Text that appears only in Rust's debug output.
const DEBUG_FORMS: &[&str] =
    &["(\"", "Some(", "None", "Os {", " { ", "Error(", "invalid digit", "ParseIntError", "::"];

#[test]
fn bad_usage_gets_a_message_in_words() {
    for (args, words) in BAD_USAGE {
        let ran = larder(b"", args);
        ran.failed(2, words);
        let said = ran.stderr.replace("[::1]", "").replace("::1", "");
        for form in DEBUG_FORMS {
            assert!(!said.contains(form), "{args:?}: {form:?} in {said}");
        }
    }
}

/// The help of every subcommand lists its exit codes.
#[test]
fn the_help_of_each_subcommand_has_its_exit_statuses() {
    for subcommand in [
        "get", "set", "delete", "stats", "inspect", "fsck", "export", "import", "doctor", "top",
        "keys", "hot", "drain", "kill", "passwd", "bench",
    ] {
        let help = String::from_utf8(larder(b"", &[subcommand, "--help"]).printed()).unwrap();
        let statuses = help.split("Exit code:").nth(1).unwrap_or_default();
        assert!(statuses.contains("0 ") && statuses.contains(" 2 "), "{subcommand}: {help}");
    }
}

#[test]
fn a_set_fails_with_1_by_its_condition_and_with_2_by_an_error() {
    let fixture = Fixture::start();
    fixture.larder("set", &["k", "v"]).printed();
    fixture.larder("set", &["k", "v", "--add"]).failed(1, "the key has an item already");
    let large = vec![b'v'; 2 << 20];
    let ran = fixture.larder_reading(&large, "set", &["k"]);
    ran.failed(2, "larger than the option -I of the server: raise it, or store less");
}

#[test]
fn set_takes_the_token_as_get_prints_it() {
    let fixture = Fixture::start();
    fixture.larder("set", &["k", "v"]).printed();
    let shown = String::from_utf8(fixture.larder("get", &["k", "--cas"]).printed()).unwrap();
    let token = shown.split('\t').nth(1).unwrap();
    assert!(token.starts_with("cas="), "{shown}");
    fixture.larder("set", &["k", "new", "--cas", token]).printed();
    fixture.larder("set", &["k", "newer", "--cas", token]).failed(1, "another cas token");
}

#[test]
fn every_section_of_the_statistics_can_be_asked_for() {
    let fixture = Fixture::start();
    let stats = |args: &[&str]| String::from_utf8(fixture.larder("stats", args).printed()).unwrap();
    assert!(stats(&["conns"]).contains("addr"), "the connection of the tool itself");
    stats(&["hotkeys"]);
    stats(&["prefixes"]);
    stats(&["delete_prefix"]);
    assert_eq!(stats(&["detail", "on"]), "");
    fixture.larder("set", &["user:1", "v"]).printed();
    assert!(stats(&["detail", "dump"]).starts_with("PREFIX user get 0"));
    stats(&["detail", "off"]);
    assert!(stats(&["cachedump", "1", "0"]).contains("ITEM user:1 "));
}
