//! `--check` has the verdict of a start, names all problems, and changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{command, free_address, is_root, run_to_end};
use larder_testkit::{Address, ServerUnderTest, Transport};
use tempfile::TempDir;

use crate::binary;
use crate::tls_scene::Files;

/// A folder with good and bad files for the options.
struct Home(TempDir);

impl Home {
    fn new() -> Result<Self> {
        let home = Self(tempfile::tempdir()?);
        fs::set_permissions(home.0.path(), fs::Permissions::from_mode(0o755))?;
        for (name, content, mode) in [
            ("users", "app:secret\n", 0o644),
            ("no-users", "app\n", 0o644),
            ("tokens", &*format!("full {}\n", "t".repeat(40)), 0o600),
            ("open-tokens", &*format!("full {}\n", "t".repeat(40)), 0o644),
            ("good.toml", "memory_limit = 32\nthreads = 2\n", 0o644),
            ("bad.toml", "memory_limit = 32\nthread = 2\nconn_limit = 0\n", 0o644),
            ("theirs.meta", "", 0o644),
            ("file", "words", 0o644),
        ] {
            fs::write(home.path(name), content)?;
            fs::set_permissions(home.path(name), fs::Permissions::from_mode(mode))?;
        }
        for (name, mode) in [("public", 0o755), ("private", 0o700)] {
            fs::create_dir(home.path(name))?;
            fs::set_permissions(home.path(name), fs::Permissions::from_mode(mode))?;
        }
        Ok(home)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Splits a command line. `HOME` stands for the folder, `PORT` for a free port, `LONG` for a
    /// name that is too long for a socket.
    fn words(&self, line: &str, address: SocketAddr) -> Vec<String> {
        let home = self.0.path().display().to_string();
        let port = address.port().to_string();
        line.split_whitespace()
            .map(|word| word.replace("HOME", &home).replace("PORT", &port))
            .map(|word| word.replace("LONG", &"s".repeat(100)))
            .collect()
    }

    fn check(&self, words: &[String]) -> Result<Output> {
        run_to_end(command(&binary()).arg("--check").args(words))
    }

    /// Starts a server. Returns its exit status, or 0 once it serves, and its standard error.
    fn start(&self, words: &[String]) -> Result<(i32, String)> {
        let log = self.path("log");
        let mut larderd = command(&binary());
        larderd.args(words).stdout(Stdio::piped()).stderr(fs::File::create(&log)?);
        let mut child = larderd.spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("it is piped")?).read_line(&mut line)?;
        let status = if line.contains("listening on") {
            child.kill()?;
            child.wait()?;
            0
        } else {
            child.wait()?.code().context("a signal has ended it")?
        };
        Ok((status, fs::read_to_string(&log)?))
    }

    /// Returns everything in the folder that a write would change.
    fn state(&self) -> Result<BTreeMap<PathBuf, (u32, u64, i64, i64)>> {
        let mut state = BTreeMap::new();
        let mut pending = vec![self.0.path().to_owned()];
        while let Some(path) = pending.pop() {
            let of = fs::symlink_metadata(&path)?;
            if of.is_dir() {
                for entry in fs::read_dir(&path)? {
                    pending.push(entry?.path());
                }
            }
            state.insert(path, (of.mode(), of.size(), of.mtime(), of.mtime_nsec()));
        }
        Ok(state)
    }
}

/// The exit status of a start, and the options.
const LINES: &[(i32, &str)] = &[
    (0, "-l 127.0.0.1:PORT"),
    (0, "-l localhost:PORT -U PORT -k -L -r"),
    (0, "-s HOME/socket --local-readers=same-uid -m 8 -P HOME/pid"),
    (0, "-l 127.0.0.1:PORT -Y HOME/users -c 100 --admin-listen HOME/admin"),
    (0, "-l 127.0.0.1:PORT --admin-listen 127.0.0.1:0 --admin-token-file HOME/tokens"),
    (0, "-l 127.0.0.1:PORT -e HOME/items -m 8"),
    (0, "-l 127.0.0.1:PORT --tier-path HOME/new --tier-size 32m --tier-mode store -m 8"),
    (0, "-l 127.0.0.1:PORT --tier-path HOME/private --tier-size 32m --tier-mode cache -m 8"),
    (0, "-l 127.0.0.1:PORT --config HOME/good.toml"),
    (0, "-l 127.0.0.1:PORT -Z -o ssl_chain_cert=HOME/chain.pem,ssl_key=HOME/key.pem"),
    (0, "-l 127.0.0.1:PORT -Z -o ssl_chain_cert=HOME/old.pem,ssl_key=HOME/old.key"),
    (64, "-t 0"),
    (64, "-m 8 -I 6m"),
    (64, "-o no_such_word"),
    (64, "--config HOME/bad.toml"),
    (64, "--config HOME/none.toml"),
    (64, "-Z"),
    (64, "-l 127.0.0.1:PORT -Z -o ssl_chain_cert=HOME/none.pem,ssl_key=HOME/key.pem"),
    (64, "-l 127.0.0.1:PORT -Z -o ssl_chain_cert=HOME/chain.pem,ssl_key=HOME/old.key"),
    (64, "-l 127.0.0.1:PORT -Z -o ssl_chain_cert=HOME/file,ssl_key=HOME/key.pem"),
    (
        64,
        "-l 127.0.0.1:PORT -Z -o ssl_chain_cert=HOME/chain.pem,ssl_key=HOME/key.pem,ssl_ciphers=A",
    ),
    (64, "-l 127.0.0.1:PORT -Y HOME/none"),
    (64, "-l 127.0.0.1:PORT -Y HOME/no-users"),
    (64, "-l 127.0.0.1:PORT --users HOME/no-users"),
    (64, "-l 127.0.0.1:PORT --users HOME/none"),
    (64, "-l 127.0.0.1:PORT -S"),
    (64, "-l 127.0.0.1:PORT --admin-listen HOME/admin --admin-token-file HOME/open-tokens"),
    (64, "-s HOME/socket --local-readers=group:no-such-group -m 8"),
    (71, "-l 192.0.2.1:PORT"),
    (71, "-l 127.0.0.1:PORT --admin-listen 192.0.2.1:0"),
    (71, "-l 127.0.0.1:PORT --admin-listen HOME/none/admin"),
    (71, "-s HOME/none/socket"),
    (71, "-s HOME/file"),
    (71, "-s HOME/LONG"),
    (71, "-l 127.0.0.1:PORT -P HOME/none/pid"),
    (71, "-l 127.0.0.1:PORT -P HOME/public"),
    (71, "-l 127.0.0.1:PORT -c 2000000000"),
    (1, "-l 127.0.0.1:PORT -e HOME/none/items"),
    (1, "-l 127.0.0.1:PORT -e HOME/theirs"),
    (1, "-l 127.0.0.1:PORT -e HOME/public"),
    (1, "-l 127.0.0.1:PORT --tier-path HOME/none/x --tier-size 32m --tier-mode store -m 8"),
    (1, "-l 127.0.0.1:PORT --tier-path HOME/public --tier-size 32m --tier-mode store -m 8"),
    (1, "-l 127.0.0.1:PORT --tier-path HOME/file --tier-size 32m --tier-mode store -m 8"),
];

/// More lines, for tests that run as root.
const LINES_OF_ROOT: &[(i32, &str)] = &[
    (67, "-l 127.0.0.1:PORT -u no-such-user"),
    (71, "-s HOME/private/socket -u nobody"),
    (71, "-s HOME/public/socket -u nobody"),
    (71, "-l 127.0.0.1:PORT -u nobody -P HOME/pid"),
    (64, "-l 127.0.0.1:PORT -u nobody -Y HOME/private/users"),
    (1, "-l 127.0.0.1:PORT -u nobody -e HOME/items"),
    (1, "-l 127.0.0.1:PORT -u nobody --tier-path HOME/x --tier-size 32m --tier-mode store -m 8"),
    (1, "-l 127.0.0.1:PORT -u nobody --tier-path HOME/private --tier-size 32m --tier-mode store"),
];

#[test]
fn a_check_has_the_verdict_of_a_start_and_changes_nothing() -> Result<()> {
    let files = Files::new()?;
    let expired = files.authority.identity_between("expired", 2000..2002)?;
    let of_root = if is_root() { LINES_OF_ROOT } else { &[] };
    let compare = |status: i32, line: &str| -> Result<()> {
        let home = Home::new()?;
        fs::copy(files.path("chain.pem"), home.path("chain.pem"))?;
        fs::copy(files.path("key.pem"), home.path("key.pem"))?;
        fs::write(home.path("old.pem"), &expired.certificate)?;
        fs::write(home.path("old.key"), expired.key.serialize_pem())?;
        let words = home.words(line, free_address()?);
        let before = home.state()?;
        let checked = home.check(&words)?;
        ensure!(home.state()? == before, "{line}: the check has changed something");
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        let (started, log) = home.start(&words)?;
        ensure!(started == status, "{line}: the start ends with {started}: {log}");
        ensure!(checked.status.code() == Some(status), "{line}: {checked:?}; the start: {log}");
        let verdict = String::from_utf8_lossy(&checked.stdout).into_owned();
        let expected = if status == 0 { "can start" } else { "cannot start: " };
        ensure!(verdict.contains(&format!("check: larderd {expected}")), "{line}: {verdict}");
        // The words of the start, as far as the check can find them without changing anything.
        if [64, 67].contains(&status) {
            let last = log.lines().last().unwrap_or_default();
            // Without the time and the level of a line of the log.
            let reason = last.find("larderd: ").map_or(last, |at| &last[at..]);
            ensure!(said.lines().any(|line| line == reason), "{line}: {said}: {reason}");
        }
        Ok(())
    };
    let compared = LINES.iter().chain(of_root).map(|(status, line)| compare(*status, line));
    let wrong: Vec<_> = compared.filter_map(Result::err).collect();
    ensure!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

#[test]
fn a_check_shows_what_would_be_used_and_names_all_problems() -> Result<()> {
    let home = Home::new()?;
    let address = free_address()?;
    let line =
        "-l 127.0.0.1:PORT,192.0.2.1 -Y HOME/none -P HOME/none/pid -m 100 HOME/good.toml -t 3";
    let checked = home.check(&home.words(line, address))?;
    let out = String::from_utf8(checked.stdout)?;
    let said = String::from_utf8(checked.stderr)?;
    for expected in [
        &*format!("listen       {address}\n"),
        "memory       100 MiB\n",
        "workers      3, ",
        "connections  at most 1024\n",
        "check: larderd cannot start: 3 problems\n",
    ] {
        ensure!(out.contains(expected), "{expected} in {out}");
    }
    for expected in ["cannot listen on 192.0.2.1", "option -P: ", "option -Y: users of "] {
        ensure!(said.contains(&format!("larderd: {expected}")), "{expected} in {said}");
    }
    assert_eq!(said.lines().count(), 3, "{said}");
    let checked = home.check(&home.words("HOME/bad.toml -t 0 -o foo", address))?;
    let said = String::from_utf8(checked.stderr)?;
    assert_eq!((checked.status.code(), said.lines().count()), (Some(64), 4), "{said}");
    Ok(())
}

#[test]
fn the_running_server_is_named_and_is_not_a_problem() -> Result<()> {
    let home = Home::new()?;
    for transport in [Transport::Tcp, Transport::Unix] {
        let server = ServerUnderTest::start(&binary(), transport, &[])?;
        let line = match server.address() {
            Address::Tcp(address) => format!("-l {address}"),
            Address::Unix(path) => format!("-s {}", path.display()),
        };
        let checked = home.check(&home.words(&line, free_address()?))?;
        let said = String::from_utf8(checked.stderr)?;
        let holder = format!("is in use by larderd (process {})", server.pid());
        ensure!(checked.status.success() && said.contains(&holder), "{line}: {said}");
        server.connect()?.ask(b"version\r\n", b"\r\n")?;
    }
    Ok(())
}

#[test]
fn a_disk_that_hangs_ends_the_check() -> Result<()> {
    let home = Home::new()?;
    // To open a pipe without a writer takes forever.
    nix::unistd::mkfifo(&home.path("pipe"), nix::sys::stat::Mode::S_IRUSR)?;
    let begun = Instant::now();
    let checked = home.check(&home.words("-Y HOME/pipe -l 127.0.0.1:PORT", free_address()?))?;
    let said = String::from_utf8(checked.stderr)?;
    assert_eq!(checked.status.code(), Some(71), "{said}");
    ensure!(
        said.contains("the disk of the users (-S, -Y, --users) did not respond within 15 s"),
        "{said}"
    );
    ensure!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    Ok(())
}
