//! The live display of `larder bench` on a terminal.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::Fixture;
use crate::bench::json;

/// Opens a pseudoterminal. Bytes written to the second file can be read from the first.
pub(crate) fn terminal() -> (File, File) {
    let shown = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&shown).unwrap();
    unlockpt(&shown).unwrap();
    let name = ptsname(&shown, Vec::new()).unwrap().into_string().unwrap();
    (shown.into(), OpenOptions::new().read(true).write(true).open(name).unwrap())
}

/// Runs the tool on a terminal. Returns the terminal's output, the exit code and the output of
/// stdout.
fn run_on_terminal(args: &[&str]) -> (String, Option<i32>, Vec<u8>) {
    let (mut shown, stderr) = terminal();
    let mut tool = Command::new(env!("CARGO_BIN_EXE_larder"));
    tool.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    let child = tool.spawn().unwrap();
    // Only the tool may hold the terminal open, or the read below never ends.
    drop(tool);
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    // A read fails once the tool has closed the terminal.
    while let Ok(received @ 1..) = shown.read(&mut piece) {
        text.extend_from_slice(&piece[..received]);
    }
    let output = child.wait_with_output().unwrap();
    (String::from_utf8(text).unwrap(), output.status.code(), output.stdout)
}

const BEGIN: &str = "\r\x1b[K";

#[test]
fn a_line_on_the_terminal_shows_the_progress_and_is_cleared_at_the_end() {
    let fixture = Fixture::start();
    let address = fixture.address();
    let args = ["bench", "-s", &address, "--seconds=3", "--rate=400", "--connections=4", "--json"];
    let (shown, code, printed) = run_on_terminal(&args);
    assert_eq!(code, Some(0));
    assert_eq!(json(printed)["requests"], 1200);
    // The display is one line, which is rewritten each time and cleared at the end.
    assert!(
        shown.starts_with(BEGIN) && shown.ends_with(BEGIN) && !shown.contains('\n'),
        "{shown:?}"
    );
    let lines: Vec<&str> = shown.split(BEGIN).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines[0], "storing all keys");
    let of_seconds: Vec<&str> =
        lines.iter().copied().filter(|line| line.contains(" requests/s ")).collect();
    assert_eq!(of_seconds.len(), 3, "{shown:?}");
    for (line, left) in of_seconds.iter().zip(["2 s left", "1 s left", "0 s left"]) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let rate: f64 = words[0].parse().unwrap();
        assert!((300.0..500.0).contains(&rate), "{line}");
        assert!(line.ends_with(&format!("   errors 0   {left}")), "{line}");
        assert_eq!((words[2], words[5]), ("p50", "p99"), "{line}");
        assert!(words[4].ends_with('s'), "{line}");
        assert!(words[7].ends_with('s'), "{line}");
    }
    assert!(lines.iter().all(|line| line.len() < 80), "{lines:?}");
}

#[test]
fn errors_are_counted_on_the_terminal() {
    // The server refuses clients that do not log in.
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    std::fs::write(&users, "user:password\n").unwrap();
    let fixture = Fixture::start_with(&["-m", "64", "-Y", users.to_str().unwrap()]);
    let address = fixture.address();
    let args = ["bench", "-s", &address, "--no-load", "--seconds=2", "--rate=100"];
    let (shown, code, _) = run_on_terminal(&args);
    assert_eq!(code, Some(1));
    let counted: Vec<u32> = shown
        .split("errors ")
        .skip(1)
        .map(|rest| rest.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(counted.len(), 2, "{shown:?}");
    assert!(counted[0] > 50, "{shown:?}");
    assert!(counted[1] > counted[0] + 50, "{shown:?}");
}
