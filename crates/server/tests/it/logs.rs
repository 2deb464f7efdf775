//! The log on standard error: the form of its lines, and their limit.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, command, run_to_end};
use larder_testkit::{ServerUnderTest, Transport};
use serde_json::Value;

use crate::binary;

fn start(args: &[&str]) -> Result<ServerUnderTest> {
    ServerUnderTest::start(&binary(), Transport::Tcp, args)
}

/// Splits a line into time, level and message.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let (time, rest) = line.split_once(' ')?;
    let (level, message) = rest.split_once(' ')?;
    Some((time, level, message))
}

/// True for a time such as `2026-11-28T21:48:32.123Z`.
fn is_time(text: &str) -> bool {
    let form = "0000-00-00T00:00:00.000Z";
    text.len() == form.len()
        && text.bytes().zip(form.bytes()).all(|(byte, of_form)| match of_form {
            b'0' => byte.is_ascii_digit(),
            _ => byte == of_form,
        })
}

/// Waits until the log satisfies a condition; returns it.
pub(crate) fn log_with(
    server: &ServerUnderTest,
    what: &str,
    is_met: impl Fn(&str) -> bool,
) -> Result<String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let log = server.log();
        // The last line may be incomplete.
        if log.ends_with('\n') && is_met(&log) {
            return Ok(log);
        }
        ensure!(Instant::now() < deadline, "{what}: {log}");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn each_line_begins_with_time_and_level_before_the_text_of_memcached() -> Result<()> {
    let server = start(&["-vv", "-o", "tail_repair_time=20"])?;
    let mut stream = server.connect()?;
    stream.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    stream.ask(b"bad\x1b\r\n", b"ERROR\r\n")?;
    drop(stream);
    let log = log_with(&server, "the end", |log| log.contains("connection closed"))?;
    for line in log.lines() {
        let (time, level, _) = parts(line).with_context(|| format!("{line:?}"))?;
        ensure!(is_time(time), "{line:?}");
        ensure!(["error", "warn", "info", "debug"].contains(&level), "{line:?}");
    }
    let messages: Vec<_> =
        log.lines().filter_map(parts).map(|(_, level, of)| (level, of)).collect();
    let has = |level: &str, begin: &str, end: &str| {
        let is_it =
            |of: &&(&str, &str)| of.0 == level && of.1.starts_with(begin) && of.1.ends_with(end);
        messages.iter().any(|of| is_it(&of))
    };
    ensure!(has("warn", "larderd: option -o tail_repair_time", ""), "{log}");
    ensure!(has("debug", "slab class   1: chunk size", ""), "{log}");
    ensure!(has("debug", "<", " set k 0 0 1"), "{log}");
    ensure!(has("debug", ">", " STORED"), "{log}");
    ensure!(has("debug", "<", r" bad\x1b"), "{log}");
    ensure!(has("debug", "<", " connection closed"), "{log}");
    Ok(())
}

#[test]
fn each_line_is_a_json_object_if_that_is_asked_for() -> Result<()> {
    let args = ["-vv", "--log-format=json", "-o", "tail_repair_time=20"];
    let server = start(&args)?;
    let mut stream = server.connect()?;
    stream.ask(b"get \"\\\xff\x01\r\n", b"END\r\n")?;
    let log = log_with(&server, "the response", |log| log.contains(" END"))?;
    let mut messages = Vec::new();
    for line in log.lines() {
        let object: Value = serde_json::from_str(line).with_context(|| format!("{line:?}"))?;
        ensure!(object["time"].as_str().is_some_and(is_time), "{line:?}");
        let level = object["level"].as_str().context("a level")?.to_owned();
        messages.push((level, object["message"].as_str().context("a message")?.to_owned()));
    }
    let has = |level: &str, words: &str| {
        messages.iter().any(|(of, message)| of == level && message.contains(words))
    };
    ensure!(has("warn", "larderd: option -o tail_repair_time"), "{log}");
    ensure!(has("debug", r#" get \"\\\xff\x01"#), "{log}");
    Ok(())
}

/// Returns the log of a server whose standard error is a file, while `JOURNAL_STREAM` names the
/// inode of that file, or another one. The server cannot start, which it logs.
fn log_beside_a_journal(args: &[&str], is_journal: bool) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("log");
    let file = File::create(&path)?;
    let stat = file.metadata()?;
    let stream = format!("{}:{}", stat.dev(), stat.ino() + u64::from(!is_journal));
    let mut larderd = command(&binary());
    larderd.env("JOURNAL_STREAM", stream).args(["-s", "/dev/null/socket"]).args(args);
    let status = larderd.stderr(Stdio::from(file)).status()?;
    ensure!(!status.success(), "{status}");
    Ok(fs::read_to_string(path)?)
}

#[test]
fn a_line_for_the_journal_has_its_priority_and_no_time() -> Result<()> {
    let log = log_beside_a_journal(&[], true)?;
    ensure!(log.starts_with("<3>larderd: "), "{log:?}");
    let log = log_beside_a_journal(&["--log-format=json"], true)?;
    let object: Value = serde_json::from_str(log.strip_prefix("<3>").context("a priority")?)?;
    ensure!(object["level"] == "error" && object.get("time").is_none(), "{log:?}");
    let log = log_beside_a_journal(&["--log-time=yes"], true)?;
    ensure!(
        parts(&log[3..]).is_some_and(|(time, level, _)| is_time(time) && level == "error"),
        "{log}"
    );
    let log = log_beside_a_journal(&[], false)?;
    ensure!(parts(&log).is_some_and(|(time, level, _)| is_time(time) && level == "error"), "{log}");
    let log = log_beside_a_journal(&["--log-time=no"], false)?;
    ensure!(log.starts_with("error larderd: "), "{log:?}");
    Ok(())
}

#[test]
fn a_wrong_option_is_reported_as_plain_text() -> Result<()> {
    let output =
        run_to_end(command(&binary()).args(["--log-format=json", "--log-slower-than=10"]))?;
    let said = String::from_utf8(output.stderr)?;
    let expected = "larderd: option --log-slower-than: \"10\" is not a number with us, ms or s after \
                    it, such as 10ms, from 1us to 3600s";
    ensure!(said.starts_with(expected), "{said}");
    Ok(())
}

#[test]
fn a_flood_of_one_kind_is_cut_and_counted() -> Result<()> {
    let server = start(&["-v"])?;
    let count = 300;
    for _ in 0..count {
        server.connect()?.ask(b"version\r\n", b"\r\n")?;
    }
    let number = |line: &str| -> Option<usize> {
        let (_, _, message) = parts(line)?;
        let (lines, rest) = message.strip_prefix("larderd: ")?.split_once(' ')?;
        rest.starts_with("more lines like this were suppressed: <").then(|| lines.parse().ok())?
    };
    let written = |log: &str, words: &str| log.lines().filter(|line| line.ends_with(words)).count();
    let total = |log: &str| {
        let suppressed: usize = log.lines().filter_map(number).sum();
        let opened = written(log, "new client connection") + written(log, "connection closed");
        let examples = log.lines().filter(|line| number(line).is_some()).count();
        suppressed + opened - examples
    };
    // The test kit has opened another connection. Each is opened and closed.
    let log = log_with(&server, "all are counted", |log| total(log) >= 2 * count + 2)?;
    ensure!(log.lines().count() < count, "{log}");
    ensure!(server.stop(Signal::TERM)?.success(), "the stop");
    Ok(())
}

#[test]
fn no_line_of_vv_is_suppressed() -> Result<()> {
    let server = start(&["-vv"])?;
    for _ in 0..50 {
        server.connect()?.ask(b"version\r\n", b"\r\n")?;
    }
    let closed = |log: &str| log.matches("connection closed").count();
    let log = log_with(&server, "all are closed", |log| closed(log) == 51)?;
    ensure!(log.matches("new client connection").count() == 51, "{log}");
    ensure!(!log.contains("suppressed"), "{log}");
    Ok(())
}

#[test]
fn a_server_in_the_background_keeps_the_form_of_its_log() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (socket, log) = (folder.path().join("socket"), folder.path().join("log"));
    let pidfile = folder.path().join("pid");
    let mut larderd = command(&binary());
    larderd.arg("-d").arg("-v").arg("--log-format=json").arg("-s").arg(&socket);
    larderd.arg("-P").arg(&pidfile).stderr(Stdio::from(File::create(&log)?));
    ensure!(larderd.status()?.success(), "the start");
    let pid: i32 = fs::read_to_string(&pidfile)?.trim().parse()?;
    let pid = rustix::process::Pid::from_raw(pid).context("a process id")?;
    rustix::process::kill_process(pid, Signal::TERM)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while Path::new(&format!("/proc/{}", pid.as_raw_pid())).exists() {
        ensure!(Instant::now() < deadline, "the server does not stop");
        sleep(Duration::from_millis(5));
    }
    let log = fs::read_to_string(&log)?;
    let last: Value = serde_json::from_str(log.lines().last().context("a line")?)?;
    ensure!(last["message"] == "Exiting normally" && last["level"] == "info", "{log}");
    Ok(())
}
