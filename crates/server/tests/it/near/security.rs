//! How a near cache reaches its origin: unix socket, TLS, and a login.

use std::fs;

use anyhow::{Result, ensure};
use larder_testkit::server::free_address;
use larder_testkit::{Address, ServerUnderTest, Transport};

use super::{Chain, ask, await_state, get, hit, set, shown, start_near, stat};
use crate::binary;
use crate::tls_scene::Files;
use crate::users::{UsersFile, hash, log_in, user};

#[test]
fn an_origin_may_be_a_unix_socket() -> Result<()> {
    let chain = Chain::over(Transport::Unix, &[], &[])?;
    let mut near = chain.near.connect()?;
    set(&mut near, "k", "v")?;
    assert_eq!(get(&mut near, "k")?, hit("k", "v"));
    assert_eq!(get(&mut near, "k")?, hit("k", "v"));
    Ok(())
}

/// Starts an origin with TLS and users, and a near cache that logs in with this password.
#[test]
fn an_origin_may_need_tls_and_a_login() -> Result<()> {
    let files = Files::new()?;
    let users = UsersFile::new(&[user("near", &hash("secret", 64)?, ", rights = \"write\"")])?;
    let port = free_address()?.port();
    let path = |name: &str| files.folder.path().join(name).display().to_string();
    let listen = format!("localhost:{port}");
    let tls = format!("ssl_chain_cert={},ssl_key={}", path("chain.pem"), path("key.pem"));
    let address = Address::Tcp(([127, 0, 0, 1], port).into());
    let args = ["--followers=4", "-Z", "-o", &tls, "--users", users.path(), "-l", &listen];
    let _origin = ServerUnderTest::start_at(&binary(), address, &args)?;
    let (right, wrong) = (path("login"), path("wrong"));
    fs::write(&right, "near:secret\n")?;
    fs::write(&wrong, "near:guess\n")?;
    let origin = format!("tls:localhost:{port}");
    let ca = format!("--origin-ca={}", path("ca.pem"));
    let near = start_near(&origin, &[&ca, &format!("--origin-login={right}")])?;
    await_state(&near, "copies")?;
    let mut client = near.connect()?;
    set(&mut client, "k", "v")?;
    assert_eq!(get(&mut client, "k")?, hit("k", "v"));
    let near = start_near(&origin, &[&ca, &format!("--origin-login={wrong}")])?;
    let answer = ask(&mut near.connect()?, "get k\r\n", "\r\n")?;
    ensure!(answer.starts_with("SERVER_ERROR origin"), "{answer:?}");
    ensure!(near.log().contains("login was refused"), "{}", near.log());
    await_state(&near, "unreachable")?;
    Ok(())
}

/// Without `--origin-login`, the refusal of an origin that needs one is no answer about changes.
#[test]
fn an_origin_that_needs_a_login_is_not_used_without() -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(&file, "near:secret\n")?;
    let path = file.path().display().to_string();
    for binary in [binary(), larder_testkit::server::memcached()?] {
        let origin = ServerUnderTest::start(&binary, Transport::Tcp, &["-Y", &path])?;
        let near = start_near(&shown(origin.address()), &[])?;
        await_state(&near, "unreachable")?;
        for _ in 0..200 {
            assert_eq!(stat(&near, "near_state")?, "unreachable");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let answer = ask(&mut near.connect()?, "get k\r\n", "\r\n")?;
        assert_eq!(answer, "SERVER_ERROR origin unreachable\r\n");
        ensure!(near.log().contains("requires a login: --origin-login"), "{}", near.log());
    }
    Ok(())
}

/// The near cache judges the rights of its clients; the origin sees only the near cache.
#[test]
fn a_near_cache_judges_its_own_users() -> Result<()> {
    let users = UsersFile::new(&[
        user("reader", &hash("r", 64)?, ", rights = \"read\""),
        user("writer", &hash("w", 64)?, ", rights = \"write\", prefixes = [\"w:\"]"),
    ])?;
    let chain = Chain::over(Transport::Tcp, &[], &["--origin-timeout=500ms"])?;
    let near = start_near(&shown(chain.origin.address()), &["--users", users.path()])?;
    let mut reader = near.connect()?;
    assert_eq!(log_in(&mut reader, "reader", "r")?, "STORED\r\n");
    let refused = ask(&mut reader, "set k 0 0 1\r\nx\r\n", "\r\n")?;
    ensure!(refused.starts_with("CLIENT_ERROR"), "{refused:?}");
    assert_eq!(get(&mut reader, "k")?, "END\r\n");
    let mut writer = near.connect()?;
    assert_eq!(log_in(&mut writer, "writer", "w")?, "STORED\r\n");
    set(&mut writer, "w:k", "v")?;
    let refused = ask(&mut writer, "get k\r\n", "\r\n")?;
    ensure!(refused.starts_with("CLIENT_ERROR"), "{refused:?}");
    assert_eq!(get(&mut reader, "w:k")?, hit("w:k", "v"));
    Ok(())
}

/// The recache token of a stale item goes to a client that can store a new value.
#[test]
fn a_client_that_may_only_read_takes_no_recache_token() -> Result<()> {
    let users = UsersFile::new(&[
        user("reader", &hash("r", 64)?, ", rights = \"read\""),
        user("writer", &hash("w", 64)?, ", rights = \"write\""),
    ])?;
    let chain = Chain::start(&[])?;
    let near = start_near(&shown(chain.origin.address()), &["--users", users.path()])?;
    let mut origin = chain.origin.connect()?;
    let (mut reader, mut writer) = (near.connect()?, near.connect()?);
    log_in(&mut reader, "reader", "r")?;
    log_in(&mut writer, "writer", "w")?;
    for flags in ["v", "v h", "s v q"] {
        set(&mut origin, "k", "value")?;
        assert_eq!(ask(&mut origin, "md k I T60\r\n", "\r\n")?, "HD\r\n");
        let seen = ask(&mut reader, &format!("mg k {flags}\r\nmn\r\n"), "MN\r\n")?;
        ensure!(seen.contains(" X") && !seen.contains(" W"), "{flags}: {seen:?}");
        let won = ask(&mut writer, "mg k v\r\n", "value\r\n")?;
        ensure!(won.contains(" W"), "after {flags}: {won:?}");
    }
    Ok(())
}
