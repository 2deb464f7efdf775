//! `larder passwd`, and logins with the lines that it prints.

use std::fs::write;
use std::process::Command;

use larder_testkit::{ServerUnderTest, Transport};

use crate::{Fixture, binary, larder};

fn line(password: &str, args: &[&str]) -> String {
    let printed = larder(password.as_bytes(), &[&["passwd"], args].concat()).printed();
    String::from_utf8(printed).unwrap()
}

#[test]
fn a_user_logs_in_with_the_password_of_its_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let shop = line("sesame\n", &["shop", "--rights", "write", "--prefix", "shop:"]);
    let ops = line("open", &["ops", "--rights", "admin", "--rate", "1000"]);
    write(file.path(), format!("users = [\n{shop}{ops}]\n")).unwrap();
    let args = ["--users", file.path().to_str().unwrap()];
    let fixture =
        Fixture { server: ServerUnderTest::start(&binary(), Transport::Unix, &args).unwrap() };
    let ask = |password: &str, args: &[&str]| {
        let address = fixture.address();
        Command::new(env!("CARGO_BIN_EXE_larder"))
            .args([args, &["--user", "shop", "--server", &address]].concat())
            .env("LARDER_PASSWORD", password)
            .output()
            .unwrap()
    };
    assert!(ask("sesame", &["set", "shop:1", "v"]).status.success());
    let refused = ask("sesame", &["set", "other", "v"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{words}");
    assert!(words.contains("not permitted: the key has none of the prefixes"), "{words}");
    assert_eq!(ask("wrong", &["get", "shop:1"]).status.code(), Some(2));
}

#[test]
fn a_password_with_a_space_is_hashed_with_a_warning() {
    let ran = larder(b"open up\n", &["passwd", "ops"]);
    assert_eq!(ran.exit_code, 0, "{ran:?}");
    assert!(ran.stderr.contains("a space: clients can use it by SASL"), "{}", ran.stderr);
}

#[test]
fn a_token_is_printed_once_and_its_line_has_the_hash() {
    let ran = larder(b"", &["passwd", "prometheus", "--token", "--rights", "read"]);
    let token = ran.stderr.lines().last().unwrap();
    let line = String::from_utf8(ran.stdout).unwrap();
    assert_eq!((ran.exit_code, token.len()), (0, 64), "{line}");
    assert!(line.contains("token = \"sha256:") && !line.contains(token), "{line}");
}

#[test]
fn a_password_or_a_name_that_larderd_refuses_is_refused() {
    for (stdin, name, words) in [
        (&b""[..], "a", "a password has 1 to 1024 bytes"),
        (b"\n", "a", "a password has 1 to 1024 bytes"),
        (&[b'x'; 1025], "a", "a password has 1 to 1024 bytes"),
        (b"x", "a b", "expected ASCII characters without spaces"),
        (b"x", "", "expected ASCII characters without spaces"),
        (b"\xff\n", "a", "cannot read the password from stdin"),
    ] {
        larder(stdin, &["passwd", name]).failed(2, words);
    }
}
