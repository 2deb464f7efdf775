//! Clients that may only read: users with the right `read`, and clients of a `readonly` listener.
//! They change no item, not even by the recache token of a stale one.

use anyhow::{Result, ensure};
use larder_testkit::{ServerUnderTest, Stream, Transport, http};

use crate::binary;
use crate::users::{UsersFile, ask, connect_soon, hash, log_in, user};

/// Asks for a stale item in each way that a reader may, and checks that none takes the recache
/// token. `claims` is a client that may write, and so receives the token.
fn leave_the_token(reader: &mut Stream, claims: &mut Stream) -> Result<()> {
    let stale = "ms k 1 T0\r\nx\r\nmd k I q\r\nmn\r\n";
    let ends_with_token = |line: &str| line.split_ascii_whitespace().any(|flag| flag == "W");
    for (request, end, holds) in [
        ("mg k v\r\n", "x\r\n", "VA 1 X\r\nx\r\n"),
        ("mg k\r\n", "\r\n", "HD X\r\n"),
        ("mg aw== b v\r\n", "x\r\n", "VA 1 X\r\nx\r\n"),
        ("mg k h t u\r\n", "\r\n", "HD "),
        ("me k\r\n", "\r\n", "ME k "),
        ("get k\r\n", "END\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n"),
        ("gets k none\r\n", "END\r\n", "VALUE k 0 1 "),
    ] {
        ask(claims, stale, "MN\r\n")?;
        for _ in 0..2 {
            let answer = ask(reader, request, end)?;
            ensure!(answer.starts_with(holds), "{request:?}: {answer:?}");
            ensure!(!ends_with_token(&answer), "{request:?}: {answer:?}");
        }
        let won = ask(claims, "mg k\r\n", "\r\n")?;
        ensure!(won == "HD X W\r\n", "after {request:?}: {won:?}");
        let late = ask(reader, "mg k v\r\n", "x\r\n")?;
        ensure!(late == "VA 1 Z X\r\nx\r\n", "{late:?}");
    }
    Ok(())
}

#[test]
fn a_reader_does_not_take_the_recache_token_of_a_stale_item() -> Result<()> {
    let token = "0123456789-0123456789-0123456789";
    let file = UsersFile::new(&[
        user("reader", &hash("sesame", 64)?, &format!(", rights = \"read\", token = \"{token}\"")),
        user("part", &hash("sesame", 64)?, ", rights = \"read\", prefixes = [\"k\", \"none\"]"),
        user("writer", &hash("sesame", 64)?, ", rights = \"write\""),
    ])?;
    std::fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    for observed in [&[][..], &["--log-slower-than=10s", "-vv"]] {
        let args: Vec<&str> = ["--users", file.path()].iter().chain(observed).copied().collect();
        let (server, admin) = http::start(&binary(), &args)?;
        let log_in = |name: &str| -> Result<Stream> {
            let mut stream = server.connect()?;
            ensure!(log_in(&mut stream, name, "sesame")? == "STORED\r\n");
            Ok(stream)
        };
        let mut writer = log_in("writer")?;
        for name in ["reader", "part"] {
            leave_the_token(&mut log_in(name)?, &mut writer)?;
        }
        ask(&mut writer, "md k I\r\n", "HD\r\n")?;
        let bearer = format!("Authorization: Bearer {token}");
        ensure!(http::get(&admin, "/api/v1/cache/k", &[&bearer])?.status == 200);
        ensure!(ask(&mut writer, "mg k\r\n", "\r\n")? == "HD X W\r\n", "after a GET");
    }
    Ok(())
}

#[test]
fn a_client_of_a_readonly_listener_does_not_take_it_either() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let (open, limited) = (path("open"), path("limited"));
    let list = format!("unix:{},unix[readonly,readers]:{}", open.display(), limited.display());
    let _server = ServerUnderTest::start(&binary(), Transport::Tcp, &["-l", &list])?;
    let (mut writer, mut reader) = (connect_soon(&open)?, connect_soon(&limited)?);
    leave_the_token(&mut reader, &mut writer)?;
    // The hint of a local reader that it has read the item in memory.
    ask(&mut writer, "md k I\r\n", "HD\r\n")?;
    ask(&mut reader, "larder_read k\r\nmn\r\n", "MN\r\n")?;
    ensure!(ask(&mut writer, "mg k\r\n", "\r\n")? == "HD X W\r\n", "after a hint");
    ask(&mut writer, "md k I\r\n", "HD\r\n")?;
    let mut get = [0; 25];
    (get[0], get[3], get[11], get[24]) = (0x80, 1, 1, b'k');
    ensure!(connect_soon(&limited)?.ask(&get, b"x")?.starts_with(b"\x81"));
    ensure!(ask(&mut writer, "mg k\r\n", "\r\n")? == "HD X W\r\n", "after a binary get");
    Ok(())
}

/// The command of a reader waits for a disk read, and is executed after it.
#[test]
fn a_reader_that_waits_for_the_disk_does_not_take_it_either() -> Result<()> {
    let file = UsersFile::new(&[
        user("reader", &hash("sesame", 64)?, ", rights = \"read\""),
        user("writer", &hash("sesame", 64)?, ", rights = \"write\""),
    ])?;
    let place = tempfile::Builder::new().prefix("larder-reading-").tempdir()?;
    let path = place.path().join("items").display().to_string();
    let tier = ["-m", "8", "--tier-path", &path, "--tier-size", "256m", "--tier-mode", "store"];
    let args: Vec<&str> = ["--users", file.path()].into_iter().chain(tier).collect();
    let server = ServerUnderTest::start(&binary(), Transport::Tcp, &args)?;
    let (mut reader, mut writer) = (server.connect()?, server.connect()?);
    ensure!(log_in(&mut reader, "reader", "sesame")? == "STORED\r\n");
    ensure!(log_in(&mut writer, "writer", "sesame")? == "STORED\r\n");
    ask(&mut writer, "ms k 1 T0\r\nx\r\nmd k I q\r\nmn\r\n", "MN\r\n")?;
    let value = "v".repeat(6000);
    for number in 0..3000 {
        let request = format!("set fill{number} 0 0 {}\r\n{value}\r\n", value.len());
        ensure!(ask(&mut writer, &request, "\r\n")? == "STORED\r\n", "{number}");
        if number % 64 == 0 {
            writer.wait_for_disk(256 << 10)?;
        }
    }
    let reads = |stream: &mut Stream| -> Result<String> {
        let stats = ask(stream, "stats larder\r\n", "END\r\n")?;
        let row = stats.lines().find(|line| line.starts_with("STAT tier_reads "));
        Ok(row.unwrap_or_default().to_owned())
    };
    let before = reads(&mut reader)?;
    let answer = ask(&mut reader, "mg k v\r\n", "x\r\n")?;
    ensure!(answer == "VA 1 X\r\nx\r\n", "{answer:?}");
    ensure!(reads(&mut reader)? != before, "the item was not on disk: {before}");
    ensure!(ask(&mut writer, "mg k\r\n", "\r\n")? == "HD X W\r\n");
    Ok(())
}
