//! Real disk failures under a disk tier, which is a *store* that must lose nothing or a *cache*
//! that may start empty: file systems that lose power, fill up, turn read-only, freeze, block calls
//! or fail them, and a server that is killed. Tests that mount a file system need root and the
//! packages that `conformance/install.sh all` installs; `make verify ONLY=tier` runs them.

mod errors;
mod freeze;
mod hangs;
mod history;
mod image;
mod kills;
mod passing;
mod power;
mod read_only;
mod room;

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use larder_testkit::http;
use larder_testkit::{Address, ServerUnderTest, Stream};

use crate::binary;

/// Starts a server with its items in a directory of this file system, and waits until it is ready.
fn start(file_system: &Path, args: &[&str]) -> Result<(ServerUnderTest, Address)> {
    let args = options(file_system, args)?;
    http::start(&binary(), &args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns the options of a server with little memory and its items in a directory of this file
/// system.
fn options(file_system: &Path, args: &[&str]) -> Result<Vec<String>> {
    let directory = file_system.join("items");
    let directory = directory.to_str().context("a path in UTF-8")?;
    let fixed = ["-m", "8", "-t", "1", "--tier-path", directory, "--tier-size", "128m"];
    Ok(fixed.iter().chain(args).map(|word| (*word).to_owned()).collect())
}

/// Runs a program of the system.
fn run(words: &[&str]) -> Result<()> {
    let [program, args @ ..] = words else { return Ok(()) };
    let output = Command::new(program).args(args).output().with_context(|| {
        format!("{program} cannot be run: `conformance/install.sh all` installs what is needed")
    })?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{words:?}: {}: {said}", output.status);
    Ok(())
}

/// Creates the folders of a test.
fn folders(names: &[&str]) -> Result<tempfile::TempDir> {
    ensure!(larder_testkit::server::is_root(), "this test mounts a file system: run it as root");
    let place = tempfile::Builder::new().prefix("larder-faults-").tempdir()?;
    for name in names {
        fs::create_dir(place.path().join(name))?;
    }
    Ok(place)
}

/// Sends a request and returns the first line of its response.
fn ask(stream: &mut Stream, request: &str) -> Result<String> {
    let answer = stream.ask(request.as_bytes(), b"\r\n")?;
    Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
}

/// Reads one line, within the stream's timeout.
fn line(stream: &mut Stream) -> Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        ensure!(stream.read(&mut byte)? == 1, "the connection is closed");
        line.extend(byte);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Returns the value of a key; `None` for a miss.
fn value(stream: &mut Stream, key: &str) -> Result<Option<Vec<u8>>> {
    let mut answer = stream.ask(format!("get {key}\r\n").as_bytes(), b"\n")?;
    if answer == b"END\r\n" {
        return Ok(None);
    }
    ensure!(answer.starts_with(b"VALUE "), "{key}: {}", answer.escape_ascii());
    while !answer.ends_with(b"\r\nEND\r\n") {
        answer.extend(stream.ask(b"", b"\n")?);
    }
    let at = answer.iter().position(|byte| *byte == b'\n').context("a line")? + 1;
    Ok(Some(answer[at..answer.len() - b"\r\nEND\r\n".len()].to_vec()))
}
