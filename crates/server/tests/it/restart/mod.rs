//! A cache in a file (`-e`): how its server ends, and how another server starts with it.

mod damaged;
mod large;
mod load;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::{Signal, command, is_root, run_to_end};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};
use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

use crate::binary;

/// A directory with a memory file.
struct Place(TempDir);

impl Place {
    fn new() -> Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("larder-restart-").tempdir()?))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    /// Starts a server on the file.
    fn start(&self, args: &[&str]) -> Result<(ServerUnderTest, Stream)> {
        let path = self.path();
        let args = [&["-e", path.to_str().context("a path in UTF-8")?], args].concat();
        let server = ServerUnderTest::start(&binary(), Transport::Unix, &args)?;
        let mut stream = server.connect()?;
        // The server listens before it has opened the cache.
        stream.ask(b"version\r\n", b"\r\n")?;
        Ok((server, stream))
    }

    /// Starts a server that is expected to fail; returns its exit code and its message.
    fn refused(&self, args: &[&str]) -> Result<(Option<i32>, String)> {
        let socket = self.0.path().join("refused");
        let mut larderd = command(&binary());
        larderd.arg("-e").arg(self.path()).arg("-s").arg(socket).args(args);
        let Output { status, stderr, .. } = run_to_end(&mut larderd)?;
        Ok((status.code(), String::from_utf8_lossy(&stderr).into_owned()))
    }
}

fn set(stream: &mut Stream, key: &str, exptime: u32, value: &[u8]) -> Result<()> {
    let head = format!("set {key} 7 {exptime} {}\r\n", value.len());
    stream.ask(&[head.as_bytes(), value, b"\r\n"].concat(), b"STORED\r\n")?;
    Ok(())
}

fn get(stream: &mut Stream, key: &str) -> Result<Option<Vec<u8>>> {
    let answer = stream.ask(format!("get {key}\r\n").as_bytes(), b"END\r\n")?;
    if answer == b"END\r\n" {
        return Ok(None);
    }
    let line = answer.iter().position(|byte| *byte == b'\n').context("a line")?;
    let head = format!("VALUE {key} ");
    ensure!(answer.starts_with(head.as_bytes()), "{}", answer[..line].escape_ascii());
    Ok(Some(answer[line + 1..answer.len() - b"\r\nEND\r\n".len()].to_vec()))
}

fn stat(stream: &mut Stream, section: &str, name: &str) -> Result<String> {
    let answer = stream.ask(format!("stats {section}\r\n").as_bytes(), b"END\r\n")?;
    let answer = String::from_utf8(answer)?;
    let head = format!("STAT {name} ");
    let line = answer.lines().find_map(|line| line.strip_prefix(&head));
    Ok(line.with_context(|| format!("no {name}: {answer}"))?.to_owned())
}

fn number(stream: &mut Stream, name: &str) -> Result<u64> {
    stat(stream, "", name)?.parse().with_context(|| name.to_owned())
}

fn gets(stream: &mut Stream, key: &str) -> Result<u64> {
    let answer = stream.ask(format!("gets {key}\r\n").as_bytes(), b"END\r\n")?;
    let answer = String::from_utf8(answer)?;
    let token = answer.lines().next().and_then(|line| line.split(' ').nth(4));
    Ok(token.with_context(|| answer.clone())?.parse()?)
}

#[test]
fn items_survive_any_end_of_the_server() -> Result<()> {
    let place = Place::new()?;
    let large: Vec<u8> = (0..1_000_000u32).map(|at| (at % 251) as u8).collect();
    let (mut server, mut stream) = place.start(&["-A"])?;
    assert!(server.log().contains("made in"), "{}", server.log());
    let ends: [(&str, Option<Signal>); 6] = [
        ("term", Some(Signal::TERM)),
        ("int", Some(Signal::INT)),
        ("usr1", Some(Signal::USR1)),
        ("kill", Some(Signal::KILL)),
        ("shutdown", None),
        ("shutdown graceful", None),
    ];
    for (count, (words, signal)) in ends.into_iter().enumerate() {
        let key = words.replace(' ', "_");
        set(&mut stream, &key, 0, words.as_bytes())?;
        set(&mut stream, &format!("{key}_large"), 0, &large)?;
        match signal {
            Some(signal) => {
                server.stop(signal)?;
            }
            None => {
                stream.ask(format!("{words}\r\n").as_bytes(), b"never").unwrap_err();
                let deadline = Instant::now() + Duration::from_secs(10);
                while server.is_running()? {
                    ensure!(Instant::now() < deadline, "{words} does not end it");
                    sleep(Duration::from_millis(5));
                }
            }
        }
        (server, stream) = place.start(&["-A"])?;
        let items = format!("with {} items", 2 * (count + 1));
        assert!(server.log().contains(&items), "{words}: {}", server.log());
        assert_eq!(number(&mut stream, "curr_items")?, 2 * (count as u64 + 1), "{words}");
        for (words, _) in &ends[..=count] {
            let key = words.replace(' ', "_");
            assert_eq!(get(&mut stream, &key)?.as_deref(), Some(words.as_bytes()));
            let found = get(&mut stream, &format!("{key}_large"))?;
            assert!(found.as_deref() == Some(&large), "{key}_large");
        }
    }
    Ok(())
}

#[test]
fn time_continues_while_no_server_runs() -> Result<()> {
    let place = Place::new()?;
    let (server, mut stream) = place.start(&[])?;
    set(&mut stream, "short", 2, b"1")?;
    set(&mut stream, "long", 100, b"2")?;
    set(&mut stream, "for_ever", 0, b"3")?;
    let stored = Instant::now();
    server.stop(Signal::KILL)?;
    sleep(Duration::from_secs(3));
    let (_server, mut stream) = place.start(&[])?;
    assert_eq!(get(&mut stream, "short")?, None);
    assert_eq!(get(&mut stream, "for_ever")?.as_deref(), Some(&b"3"[..]));
    let answer = String::from_utf8(stream.ask(b"mg long t l\r\n", b"\r\n")?)?;
    let left: u64 = answer.trim().split(&['t', ' '][..]).nth(2).context("t")?.parse()?;
    let lived = stored.elapsed().as_secs();
    assert!((99 - lived..=101 - lived).contains(&left), "{answer} after {lived} s");
    // The last use is stored in units of eight seconds.
    let idle: u64 = answer.trim().rsplit(" l").next().context("l")?.parse()?;
    assert!(idle.abs_diff(lived) <= 8, "{answer} after {lived} s");
    let unix_secs = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    assert!(number(&mut stream, "time")?.abs_diff(unix_secs) <= 2);
    // An absolute exptime does not depend on a server's clock.
    set(&mut stream, "absolute", u32::try_from(unix_secs + 60)?, b"4")?;
    let answer = String::from_utf8(stream.ask(b"mg absolute t\r\n", b"\r\n")?)?;
    let left: u64 = answer.trim().trim_start_matches("HD t").parse()?;
    assert!((57..=62).contains(&left), "{answer}");
    Ok(())
}

#[test]
fn counters_start_at_zero_after_a_restart() -> Result<()> {
    let place = Place::new()?;
    let (server, mut stream) = place.start(&[])?;
    for key in ["a", "b", "c", "a"] {
        set(&mut stream, key, 0, b"1")?;
    }
    get(&mut stream, "a")?;
    get(&mut stream, "none")?;
    stream.ask(b"delete c\r\n", b"DELETED\r\n")?;
    assert_eq!(number(&mut stream, "total_items")?, 4);
    sleep(Duration::from_secs(2));
    server.stop(Signal::TERM)?;
    let (_server, mut stream) = place.start(&[])?;
    let mut assert_counts = |counts: &[(&str, u64)]| -> Result<()> {
        for (name, count) in counts {
            assert_eq!(number(&mut stream, name)?, *count, "{name}");
        }
        Ok(())
    };
    let none = ["get_hits", "get_misses", "cmd_get", "cmd_set", "delete_hits", "evictions"];
    assert_counts(&none.map(|name| (name, 0)))?;
    assert_counts(&[("curr_items", 2), ("total_items", 2)])?;
    let uptime = number(&mut stream, "uptime")?;
    assert!((2..=4).contains(&uptime), "{uptime} s");
    set(&mut stream, "d", 0, b"1")?;
    get(&mut stream, "d")?;
    for (name, count) in [("curr_items", 3), ("total_items", 3), ("get_hits", 1)] {
        assert_eq!(number(&mut stream, name)?, count, "{name}");
    }
    stream.ask(b"stats reset\r\n", b"RESET\r\n")?;
    for (name, count) in [("curr_items", 3), ("total_items", 0), ("get_hits", 0)] {
        assert_eq!(number(&mut stream, name)?, count, "{name}");
    }
    Ok(())
}

#[test]
fn flushed_items_stay_flushed() -> Result<()> {
    let place = Place::new()?;
    let (server, mut stream) = place.start(&[])?;
    set(&mut stream, "before", 0, b"1")?;
    stream.ask(b"flush_all\r\n", b"OK\r\n")?;
    set(&mut stream, "after", 0, b"2")?;
    stream.ask(b"flush_all 2\r\n", b"OK\r\n")?;
    server.stop(Signal::KILL)?;
    let (server, mut stream) = place.start(&[])?;
    assert_eq!(get(&mut stream, "before")?, None);
    assert_eq!(get(&mut stream, "after")?.as_deref(), Some(&b"2"[..]));
    server.stop(Signal::KILL)?;
    sleep(Duration::from_secs(3));
    let (_server, mut stream) = place.start(&[])?;
    assert_eq!(get(&mut stream, "after")?, None, "it should have been flushed in the meantime");
    set(&mut stream, "later", 0, b"3")?;
    assert!(get(&mut stream, "later")?.is_some());
    Ok(())
}

#[test]
fn cas_tokens_stay_valid_and_keep_rising() -> Result<()> {
    let place = Place::new()?;
    let (mut server, mut stream) = place.start(&[])?;
    set(&mut stream, "k", 0, b"1")?;
    for signal in [Signal::KILL, Signal::TERM] {
        let (kept, gone) = (gets(&mut stream, "k")?, gets(&mut stream, "k")? - 1);
        server.stop(signal)?;
        (server, stream) = place.start(&[])?;
        assert_eq!(gets(&mut stream, "k")?, kept);
        stream.ask(format!("cas k 0 0 1 {gone}\r\n2\r\n").as_bytes(), b"EXISTS\r\n")?;
        stream.ask(format!("cas k 0 0 1 {kept}\r\n3\r\n").as_bytes(), b"STORED\r\n")?;
        assert!(gets(&mut stream, "k")? > kept);
    }
    Ok(())
}

#[test]
fn incompatible_settings_begin_with_an_empty_cache() -> Result<()> {
    let place = Place::new()?;
    let (mut server, mut stream) = place.start(&["-m", "64"])?;
    set(&mut stream, "k", 0, b"1")?;
    let m64 = "-m";
    for (args, reason) in [
        (&[m64, "64", "-I", "2m", "-t", "2", "-f", "1.5"][..], None),
        (&[m64, "65"], Some("memory in bytes is 67108864, expected 68157440")),
        (&[m64, "65", "-C"], Some("cas")),
        (&[m64, "65", "-C", "-M"], Some("eviction")),
        (&[m64, "65", "-C", "-M", "-L"], None),
    ] {
        server.stop(Signal::KILL)?;
        (server, stream) = place.start(args)?;
        let log = server.log();
        match reason {
            None => assert!(log.contains("attached in"), "{log}"),
            Some(reason) => assert!(log.contains("begins empty") && log.contains(reason), "{log}"),
        }
        assert_eq!(get(&mut stream, "k")?.is_some(), reason.is_none(), "{args:?}");
        set(&mut stream, "k", 0, b"1")?;
    }
    assert!(server.log().contains("option -L: it does not apply"), "{}", server.log());
    Ok(())
}

#[test]
fn a_truncated_file_is_replaced_and_any_other_stays() -> Result<()> {
    let place = Place::new()?;
    let (server, mut stream) = place.start(&[])?;
    set(&mut stream, "k", 0, b"1")?;
    server.stop(Signal::TERM)?;
    for bytes in [1 << 20, 4096, 100, 0] {
        fs::File::options().write(true).open(place.path())?.set_len(bytes)?;
        let (server, mut stream) = place.start(&[])?;
        assert!(server.log().contains("begins empty"), "{bytes}: {}", server.log());
        assert_eq!(get(&mut stream, "k")?, None);
        set(&mut stream, "k", 0, b"1")?;
        server.stop(Signal::TERM)?;
    }
    for precious in [b"words".to_vec(), vec![0; 1 << 20], b"LARDER".repeat(2000)] {
        fs::write(place.path(), &precious)?;
        let (code, words) = place.refused(&[])?;
        assert_eq!(code, Some(1), "{words}");
        assert!(words.contains("cache"), "{words}");
        assert!(words.contains("name another file"), "{words}");
        assert!(fs::read(place.path())? == precious, "it was written to");
    }
    fs::remove_file(place.path())?;
    fs::create_dir(place.path())?;
    let (code, words) = place.refused(&[])?;
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("not a regular file"), "{words}");
    Ok(())
}

#[test]
fn a_file_that_memcached_left_for_its_restart_is_not_touched() -> Result<()> {
    let place = Place::new()?;
    for meta in ["", "Tmc_restart\n"] {
        let path = place.0.path().join("cache.meta");
        fs::write(&path, meta)?;
        let (code, words) = place.refused(&[])?;
        assert_eq!(code, Some(1), "{words}");
        assert!(words.contains("cache.meta"), "{words}");
        assert!(words.contains("memcached"), "{words}");
        assert!(!place.path().exists());
        assert!(path.exists());
    }
    Ok(())
}

#[test]
fn a_second_server_is_refused_with_the_pid_of_the_first() -> Result<()> {
    let place = Place::new()?;
    let (server, mut stream) = place.start(&[])?;
    set(&mut stream, "k", 0, b"1")?;
    let process = format!("in use by process {}", server.pid());
    let (code, words) = place.refused(&[])?;
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains(&process), "{words}");
    let (code, words) = place.refused(&["-m", "65"])?;
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains(&process), "{words}");
    assert!(get(&mut stream, "k")?.is_some());
    server.stop(Signal::KILL)?;
    assert!(get(&mut place.start(&[])?.1, "k")?.is_some());
    Ok(())
}

#[test]
fn only_its_user_can_access_the_file() -> Result<()> {
    let place = Place::new()?;
    let (server, _) = place.start(&[])?;
    let mode =
        |path: &Path| -> Result<u32> { Ok(fs::metadata(path)?.permissions().mode() & 0o777) };
    assert_eq!(mode(&place.path())?, 0o600);
    server.stop(Signal::TERM)?;
    if !is_root() {
        return Ok(());
    }
    fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o777))?;
    let (code, words) = place.refused(&["-u", "nobody"])?;
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("no permission"), "{words}");
    assert!(words.contains("user 0"), "{words}");
    fs::remove_file(place.path())?;

    // A file that root may not write to must also stay read-only for its server. The socket is in a
    // directory to which all users may write.
    let socket = place.0.path().join("socket");
    let path = place.path();
    let args = ["-u", "nobody", "-e", path.to_str().context("UTF-8")?];
    for log_has in ["made in", "attached in"] {
        let server = ServerUnderTest::start_at(&binary(), Address::Unix(socket.clone()), &args)?;
        server.connect()?.ask(b"version\r\n", b"\r\n")?;
        assert!(server.log().contains(log_has), "{}", server.log());
        let found = fs::metadata(&path)?;
        assert!(found.uid() != 0, "{found:?}");
        assert!(found.permissions().mode() & 0o777 == 0o600, "{found:?}");
        server.stop(Signal::KILL)?;
        fs::remove_file(&socket)?;
    }
    chown(&path, Some(0), Some(0))?;
    assert_eq!(place.refused(&["-u", "nobody"])?.0, Some(1));
    Ok(())
}

#[test]
fn a_daemon_keeps_the_file_where_it_was_started() -> Result<()> {
    let place = Place::new()?;
    let (socket, pid_file) = (place.0.path().join("socket"), place.0.path().join("pid"));
    for has_k in [false, true] {
        let mut larderd = command(&binary());
        larderd.current_dir(&place.0).args(["-d", "-e", "cache"]);
        larderd.arg("-s").arg(&socket).arg("-P").arg(&pid_file);
        let output = run_to_end(&mut larderd)?;
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let words = fs::read_to_string(&pid_file)?;
        let pid = Pid::from_raw(words.trim().parse()?).context("0 is not a process id")?;
        let mut stream = Stream::connect(&Address::Unix(socket.clone()))?;
        assert_eq!(get(&mut stream, "k")?.is_some(), has_k);
        set(&mut stream, "k", 0, b"1")?;
        let shown = stat(&mut stream, "settings", "memory_file")?;
        assert_eq!(Path::new(&shown), place.path());
        kill_process(pid, Signal::TERM)?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while pid_file.exists() || Path::new("/proc").join(words.trim()).exists() {
            ensure!(Instant::now() < deadline, "the daemon does not end");
            sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

#[test]
fn the_memory_limit_is_that_of_the_option_and_privileges_may_be_dropped() -> Result<()> {
    let place = Place::new()?;
    let args = ["-m", "64", "-o", "drop_privileges"];
    for _ in 0..2 {
        let (server, mut stream) = place.start(&args)?;
        assert_eq!(stat(&mut stream, "settings", "maxbytes")?, (64 << 20).to_string());
        for item in 0..200 {
            set(&mut stream, &format!("k{item}"), 0, &[b'x'; 200_000])?;
        }
        stream.ask(b"cache_memlimit 65\r\n", b"unable to adjust\r\n")?;
        stream.ask(b"cache_memlimit 32\r\n", b"OK\r\n")?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while number(&mut stream, "curr_items")? * 200_000 > 32 << 20 {
            let items = number(&mut stream, "curr_items")?;
            ensure!(Instant::now() < deadline, "there are {items} items in less memory");
            sleep(Duration::from_millis(20));
        }
        assert_eq!(server.stop(Signal::TERM)?.code(), Some(0));
    }
    Ok(())
}
