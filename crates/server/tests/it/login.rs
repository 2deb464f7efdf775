//! Authentication: user files, which are read at startup and again on request.

use std::fs;
use std::io::{Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_protocol::binary::client::{Manner, ParsedReply, read_reply, request};
use larder_protocol::binary::{HEADER_BYTES, status};
use larder_protocol::{Command, Store};
use larder_testkit::server::{Signal, command, run_to_end};
use larder_testkit::{ServerUnderTest, Stream, Transport};
use rustix::process::{Pid, kill_process};

use crate::binary;

/// A user file, deleted when it is dropped.
fn users(text: &str) -> Result<tempfile::NamedTempFile> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), text)?;
    Ok(file)
}

fn start_sasl(file: &tempfile::NamedTempFile, args: &[&str]) -> Result<ServerUnderTest> {
    let path = file.path().to_str().context("a path")?;
    let args = [&["-S"], args].concat();
    ServerUnderTest::start_with(&binary(), Transport::Tcp, &args, &[("MEMCACHED_SASL_PWDB", path)])
}

/// Sends a request; returns the status and the value of the response.
fn ask(stream: &mut Stream, asked: &Command<'_>) -> Result<(u16, Vec<u8>)> {
    let mut sent = Vec::new();
    request::command(&mut sent, asked, Manner::default())?;
    stream.write_all(&sent)?;
    let mut received = vec![0; HEADER_BYTES];
    stream.read_exact(&mut received)?;
    if let ParsedReply::NeedMore { bytes_min } = read_reply(&received) {
        received.resize(bytes_min as usize, 0);
        stream.read_exact(&mut received[HEADER_BYTES..])?;
    }
    let ParsedReply::Reply { reply, .. } = read_reply(&received) else {
        anyhow::bail!("{}", received.escape_ascii());
    };
    Ok((reply.status, reply.value.to_vec()))
}

fn login(credentials: &[u8]) -> Command<'_> {
    Command::Authenticate { mechanism: b"PLAIN", credentials, is_step: false }
}

const SET: Command<'_> = Command::Store(Store { key: b"k", ..Store::PLAIN });

#[test]
fn sasl_admits_only_users_of_the_file() -> Result<()> {
    let file = users("user@realm:secret\n")?;
    let server = start_sasl(&file, &["-vv"])?;
    let mut stream = server.connect()?;
    let (code, mechanisms) = ask(&mut stream, &Command::Mechanisms)?;
    ensure!((code, &mechanisms[..]) == (status::SUCCESS, b"PLAIN"), "{code} {mechanisms:?}");
    // CVE-2013-7239: a failed login must not authenticate the connection.
    let wrong = b"\0user@realm\0Secret";
    ensure!(ask(&mut stream, &login(wrong))?.0 == status::NOT_ALLOWED, "a wrong password");
    ensure!(ask(&mut stream, &SET)?.0 == status::NOT_ALLOWED, "a store without a login");
    ensure!(stream.read(&mut [0])? == 0, "the connection is closed");

    let mut stream = server.connect()?;
    let right = b"\0user@realm\0secret";
    let (code, words) = ask(&mut stream, &login(right))?;
    ensure!((code, &words[..]) == (status::SUCCESS, b"Authenticated"), "{code} {words:?}");
    ensure!(ask(&mut stream, &SET)?.0 == status::SUCCESS, "a store after a login");

    let mut text = server.connect()?;
    text.write_all(b"get k\r\n")?;
    ensure!(text.read(&mut [0])? == 0, "there is no other protocol");
    let log = server.log();
    ensure!(log.contains("PLAIN") || log.contains("\\x80!"), "logins are logged: {log}");
    ensure!(!log.to_lowercase().contains("secret"), "a password is in the log: {log}");
    Ok(())
}

/// Waits until a login has this status.
fn wait_for(server: &ServerUnderTest, credentials: &[u8], wanted: u16) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while ask(&mut server.connect()?, &login(credentials))?.0 != wanted {
        ensure!(Instant::now() < deadline, "status {wanted:#x} did not arrive in time");
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn reload(server: &ServerUnderTest) -> Result<()> {
    let pid = Pid::from_raw(server.pid().try_into()?).context("a process")?;
    Ok(kill_process(pid, Signal::HUP)?)
}

#[test]
fn users_change_on_sighup_and_stay_if_the_new_file_is_unusable() -> Result<()> {
    let file = users("old:secret\n")?;
    let mut server = start_sasl(&file, &[])?;
    let mut inside = server.connect()?;
    ensure!(ask(&mut inside, &login(b"\0old\0secret"))?.0 == status::SUCCESS, "the old user");

    fs::write(file.path(), "new:secret\n")?;
    reload(&server)?;
    wait_for(&server, b"\0new\0secret", status::SUCCESS)?;
    wait_for(&server, b"\0old\0secret", status::NOT_ALLOWED)?;
    ensure!(ask(&mut inside, &SET)?.0 == status::SUCCESS, "who is in stays in");

    fs::write(file.path(), "this is not a user\n")?;
    reload(&server)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !server.log().contains("line 1 has no colon") {
        ensure!(Instant::now() < deadline, "the log does not mention the file: {}", server.log());
        sleep(Duration::from_millis(10));
    }
    wait_for(&server, b"\0new\0secret", status::SUCCESS)?;
    ensure!(server.is_running()?, "{}", server.log());
    Ok(())
}

#[test]
fn text_users_change_on_sighup_too() -> Result<()> {
    let file = users("old:secret\n")?;
    let path = file.path().to_str().context("a path")?;
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &["-Y", path])?;
    let old = b"set k 0 0 10\r\nold secret\r\n";
    server.connect()?.ask(old, b"STORED\r\n")?;
    fs::write(file.path(), "new:secret\n")?;
    reload(&server)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    let new = b"set k 0 0 10\r\nnew secret\r\n";
    while server.connect()?.ask(new, b"\r\n")? != b"STORED\r\n" {
        ensure!(Instant::now() < deadline, "the new user is not let in");
        sleep(Duration::from_millis(10));
    }
    server.connect()?.ask(old, b"CLIENT_ERROR authentication failure\r\n")?;
    Ok(())
}

/// Includes CVE-2021-37519 of memcached.
#[test]
fn a_start_without_users_fails_and_says_why() -> Result<()> {
    let missing = "/nonexistent/users";
    let (malformed, zero) = (users("a:b\nnobody")?, users("a\0:b\n")?);
    let mut sasl = command(&binary());
    sasl.args(["-S", "-p", "0"]).env_remove("MEMCACHED_SASL_PWDB");
    let with_file = |path: &std::path::Path| {
        let mut text = command(&binary());
        text.args(["-p", "0", "-Y"]).arg(path);
        text
    };
    for (mut start, words) in [
        (sasl, "MEMCACHED_SASL_PWDB names no file"),
        (with_file(missing.as_ref()), "option -Y: users of /nonexistent/users: No such file"),
        (with_file(malformed.path()), "line 2 has no colon; expected user:password"),
        (with_file(zero.path()), "line 1 has a zero byte"),
    ] {
        let output = run_to_end(&mut start)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(64), "{start:?}: {:?} {said}", output.status);
        ensure!(said.contains(words), "{start:?}: {said}");
    }
    Ok(())
}
