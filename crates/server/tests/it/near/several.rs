//! Near caches of several origins: each key belongs to one of them.

use std::fs;
use std::path::Path;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder::Client;
use larder_testkit::server::{Signal, command, run_to_end};
use larder_testkit::{Address, ServerUnderTest, Stream, Transport, http};
use tempfile::TempDir;

use super::{ask, binary_request, count, get, hit, set, shown, stat};
use crate::binary;

const ORIGINS: usize = 3;
const KEYS: usize = 300;
/// The bound of the near caches.
const STALE_MAX: Duration = Duration::from_secs(1);

/// Three origins and a near cache on a unix socket, whose memory may be read.
struct Scene {
    origins: Vec<ServerUnderTest>,
    near: ServerUnderTest,
    /// The folder of the file of weights.
    folder: TempDir,
    /// The weights that the file has at first.
    addresses: Vec<String>,
}

impl Scene {
    fn start() -> Result<Self> {
        Self::with_weights([1, 1, 1])
    }

    /// Starts a near cache with these weights in its file, and waits until it may use copies.
    fn with_weights(weights: [u32; ORIGINS]) -> Result<Self> {
        Self::with(weights, &[&[]; ORIGINS])
    }

    /// Same as [`Self::with_weights`], with options for each origin.
    fn with(weights: [u32; ORIGINS], origin_args: &[&[&str]; ORIGINS]) -> Result<Self> {
        let start = |args: &&[&str]| {
            let args = [&["--followers=8"], *args].concat();
            ServerUnderTest::start(&binary(), Transport::Tcp, &args)
        };
        let origins = origin_args.iter().map(start).collect::<Result<Vec<_>>>()?;
        let addresses: Vec<_> = origins.iter().map(|origin| shown(origin.address())).collect();
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("weights");
        fs::write(&file, weights_of(&addresses, weights))?;
        let args = [
            &format!("--origin={}", addresses.join(",")),
            &format!("--origin-weights={}", file.display()),
            "--local-readers=same-uid",
            "--near-max-stale=1s",
            "--origin-timeout=200ms",
        ];
        let near = ServerUnderTest::start(&binary(), Transport::Unix, &args)?;
        let scene = Self { origins, near, folder, addresses };
        scene.await_fresh(ORIGINS)?;
        Ok(scene)
    }

    /// Waits until the copies of this number of origins may be used, and the others count as gone.
    fn await_fresh(&self, expected: usize) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let fresh = count(&self.near, "near_fresh")?;
            let gone = count(&self.near, "near_origins_unreachable")?;
            if fresh == expected as u64 && gone == (ORIGINS - expected) as u64 {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "not {expected} are fresh: {}", self.near.log());
            sleep(Duration::from_millis(5));
        }
    }

    fn reader(&self) -> Result<Client> {
        let Address::Unix(path) = self.near.address() else { anyhow::bail!("not a unix socket") };
        Ok(Client::connect_within(path, Duration::from_millis(500))?)
    }

    /// Stores an item of each key at all origins: its value is the number of the origin. So a read
    /// shows which origin the near cache has asked.
    fn number_items(&self) -> Result<()> {
        for (number, origin) in self.origins.iter().enumerate() {
            let mut stream = origin.connect()?;
            for key in 0..KEYS {
                set(&mut stream, &name(key), &number.to_string())?;
            }
        }
        Ok(())
    }

    /// Replaces the file of weights like an editor does: at once.
    fn write_weights(&self, text: &str) -> Result<()> {
        let (new, file) = (self.folder.path().join("new"), self.folder.path().join("weights"));
        fs::write(&new, text)?;
        Ok(fs::rename(new, file)?)
    }

    /// Waits until the log contains a text this number of times.
    fn await_log(&self, text: &str, times: usize) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.near.log().matches(text).count() < times {
            ensure!(Instant::now() < deadline, "no {text:?} in {}", self.near.log());
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

fn weights_of(addresses: &[String], weights: [u32; ORIGINS]) -> String {
    let lines =
        addresses.iter().zip(weights).map(|(address, weight)| format!("{address} {weight}\n"));
    lines.collect()
}

fn name(key: usize) -> String {
    format!("key:{key}")
}

/// Reads all keys with one request, and returns the value of each.
fn read_all(stream: &mut Stream) -> Result<Vec<Option<String>>> {
    let names: Vec<_> = (0..KEYS).map(name).collect();
    let answer = ask(stream, &format!("get {}\r\n", names.join(" ")), "END\r\n")?;
    let mut values = vec![None; KEYS];
    let mut lines = answer.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("VALUE key:") {
            let key: usize = rest.split(' ').next().context("no key")?.parse()?;
            values[key] = lines.next().map(str::to_owned);
        }
    }
    Ok(values)
}

/// Returns the number of the origin of each key, when the items have numbers.
fn owners(stream: &mut Stream) -> Result<Vec<usize>> {
    let values = read_all(stream)?;
    values.iter().map(|value| Ok(value.as_ref().context("no item")?.parse()?)).collect()
}

#[test]
fn each_key_belongs_to_one_origin() -> Result<()> {
    let scene = Scene::start()?;
    let mut near = scene.near.connect()?;
    for key in 0..KEYS {
        set(&mut near, &name(key), "v")?;
    }
    let mut found = vec![0; KEYS];
    for origin in &scene.origins {
        let values = read_all(&mut origin.connect()?)?;
        let items = values.iter().flatten().count();
        ensure!(items > KEYS / 5, "an origin has {items} of {KEYS} items");
        (0..KEYS).for_each(|key| found[key] += usize::from(values[key].is_some()));
    }
    ensure!(found.iter().all(|found| *found == 1), "{found:?}");
    // Twice: from the origins, and from the copies.
    for _ in 0..2 {
        ensure!(read_all(&mut near)?.iter().all(Option::is_some), "an item is not found");
    }
    for key in (0..KEYS).step_by(7) {
        let name = name(key);
        assert_eq!(ask(&mut near, &format!("mg {name} v\r\n"), "v\r\n")?, "VA 1\r\nv\r\n");
        let request = binary_request(0, &[], name.as_bytes(), &[]);
        let answer = scene.near.connect()?.ask(&request, b"v")?;
        ensure!(answer.starts_with(&[0x81, 0]), "{answer:?}");
        assert_eq!(ask(&mut near, &format!("delete {name}\r\n"), "\r\n")?, "DELETED\r\n");
        assert_eq!(get(&mut near, &name)?, "END\r\n");
    }
    Ok(())
}

/// Requests for keys of an origin that is gone fail at once. Copies of the others stay, and their
/// keys are read and written as before, also while the origin comes and goes every second.
#[test]
fn an_origin_that_is_gone_harms_only_its_own_keys() -> Result<()> {
    let mut scene = Scene::start()?;
    scene.number_items()?;
    let mut near = scene.near.connect()?;
    let owners = owners(&mut near)?;
    let of = |origin: usize| (0..KEYS).filter(|key| owners[*key] == origin).collect::<Vec<_>>();
    let (gone, others) = (of(1), [of(0), of(2)].concat());
    for flap in 0..3 {
        let address = scene.origins[1].address().clone();
        scene.origins.remove(1).stop(Signal::KILL)?;
        scene.await_fresh(ORIGINS - 1)?;
        let (began, fetches) = (Instant::now(), count(&scene.near, "near_fetches")?);
        while began.elapsed() < Duration::from_secs(1) {
            for key in &others {
                let value = owners[*key].to_string();
                assert_eq!(get(&mut near, &name(*key))?, hit(&name(*key), &value), "flap {flap}");
            }
        }
        assert_eq!(count(&scene.near, "near_fetches")?, fetches, "copies were lost: flap {flap}");
        for key in &others {
            set(&mut near, &name(*key), &owners[*key].to_string())?;
        }
        let began = Instant::now();
        for key in gone.iter().take(50) {
            let answer = ask(&mut near, &format!("get {}\r\n", name(*key)), "\r\n")?;
            assert_eq!(answer, "SERVER_ERROR origin unreachable\r\n");
        }
        ensure!(began.elapsed() < Duration::from_millis(500), "50 took {:?}", began.elapsed());
        assert_eq!(stat(&scene.near, "near_state")?, "mixed");
        assert_eq!(count(&scene.near, "near_origins_unreachable")?, 1);
        let rows = ask(&mut near, "stats origins\r\n", "END\r\n")?;
        for row in ["STAT 0:state copies\r\n", "STAT 1:state unreachable\r\n", "STAT 1:fresh 0\r\n"]
        {
            ensure!(rows.contains(row), "no {row:?} in {rows}");
        }
        let origin = ServerUnderTest::start_at(&binary(), address, &["--followers=8"])?;
        scene.origins.insert(1, origin);
        scene.await_fresh(ORIGINS)?;
        // Its items are gone: a value from before would be wrong.
        for key in &gone {
            assert_eq!(get(&mut near, &name(*key))?, "END\r\n");
            set(&mut near, &name(*key), "1")?;
        }
        assert_eq!(read_all(&mut near)?.iter().flatten().count(), KEYS);
    }
    Ok(())
}

/// Readers know one limit for the copies of all origins. An origin that hangs must not end the
/// reading of the others' copies, and its own must not be read for too long.
#[test]
fn the_memory_of_other_origins_is_read_while_one_hangs() -> Result<()> {
    let scene = Scene::start()?;
    scene.number_items()?;
    let mut near = scene.near.connect()?;
    let owners = owners(&mut near)?;
    let client = scene.reader()?;
    let first_of = |origin| {
        let key = owners.iter().position(|owner| *owner == origin);
        key.map(name).context("an origin has no key")
    };
    let (hung, other) = (first_of(0)?, first_of(1)?);
    let look = |key: &str| {
        let mut value = Vec::new();
        client.get_into(key, &mut value).map(|hit| hit.is_some_and(|hit| hit.is_local))
    };
    let await_in_memory = |key: &str| -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(5);
        while !look(key)? {
            ensure!(Instant::now() < deadline, "{key} is not in the memory");
        }
        Ok(())
    };
    for _ in 0..2 {
        await_in_memory(&hung)?;
        await_in_memory(&other)?;
        scene.origins[0].signal(Signal::STOP)?;
        let (stopped, mut was_read) = (Instant::now(), false);
        while stopped.elapsed() < 3 * STALE_MAX {
            ensure!(look(&other)?, "asked the near cache after {:?}", stopped.elapsed());
            let began = stopped.elapsed();
            // A request would wait for the origin.
            if began < STALE_MAX / 2 {
                was_read |= look(&hung)?;
            } else if began > STALE_MAX + Duration::from_millis(100) {
                ensure!(!look(&hung).unwrap_or(false), "too old after {began:?}");
            }
        }
        ensure!(was_read, "the copy was dropped at once");
        scene.origins[0].signal(Signal::CONT)?;
        scene.await_fresh(ORIGINS)?;
    }
    Ok(())
}

/// If an origin does not execute a command for all keys, the error names it.
#[test]
fn commands_for_all_keys_are_executed_by_all_origins() -> Result<()> {
    let mut scene = Scene::start()?;
    let mut near = scene.near.connect()?;
    let store = |near: &mut Stream| -> Result<()> {
        (0..KEYS).try_for_each(|key| set(near, &name(key), "v"))?;
        ensure!(read_all(near)?.iter().all(Option::is_some), "an item is not found");
        Ok(())
    };
    let is_empty = |scene: &Scene, near: &mut Stream| -> Result<()> {
        ensure!(read_all(near)?.iter().all(Option::is_none), "the near cache has items");
        for origin in &scene.origins {
            let values = read_all(&mut origin.connect()?)?;
            ensure!(values.iter().all(Option::is_none), "{} has items", shown(origin.address()));
        }
        Ok(())
    };
    store(&mut near)?;
    assert_eq!(ask(&mut near, "flush_all\r\n", "\r\n")?, "OK\r\n");
    is_empty(&scene, &mut near)?;
    store(&mut near)?;
    assert_eq!(ask(&mut near, "flush_all noreply\r\nmn\r\n", "\r\n")?, "MN\r\n");
    is_empty(&scene, &mut near)?;
    store(&mut near)?;
    let mut binary_client = scene.near.connect()?;
    let mut header = [0; 24];
    (header[0], header[1]) = (0x81, 8);
    header[15] = 7;
    assert_eq!(binary_client.ask(&binary_request(8, &[], &[], &[]), &header[2..])?, header);
    is_empty(&scene, &mut near)?;
    store(&mut near)?;
    assert_eq!(ask(&mut near, "delete_prefix key:\r\n", "\r\n")?, "OK\r\n");
    let deadline = Instant::now() + Duration::from_secs(5);
    while let Err(error) = is_empty(&scene, &mut near) {
        ensure!(Instant::now() < deadline, "after delete_prefix {error}");
    }
    let hung = shown(scene.origins[2].address());
    scene.origins[2].signal(Signal::STOP)?;
    let expected = format!("SERVER_ERROR not executed by {hung}: no answer\r\n");
    assert_eq!(ask(&mut near, "flush_all\r\n", "\r\n")?, expected);
    assert_eq!(ask(&mut near, "delete_prefix k\r\n", "\r\n")?, expected);
    let answer = binary_client.ask(&binary_request(8, &[], &[], &[]), b"no answer")?;
    assert_eq!(answer[6..8], [0, 0x86], "{answer:?}");
    scene.origins[2].signal(Signal::CONT)?;
    scene.await_fresh(ORIGINS)?;
    scene.origins.remove(2).stop(Signal::KILL)?;
    scene.await_fresh(ORIGINS - 1)?;
    let expected = format!("SERVER_ERROR not executed by {hung}: unreachable\r\n");
    assert_eq!(ask(&mut near, "flush_all\r\n", "\r\n")?, expected);
    // Refused for the same reason by all, such as the missing prefix: their own error.
    assert_eq!(ask(&mut near, "flush_all x\r\n", "\r\n")?.split(' ').next(), Some("CLIENT_ERROR"));
    Ok(())
}

#[test]
fn the_http_api_clears_all_origins_or_names_those_that_it_did_not() -> Result<()> {
    let start = |_| ServerUnderTest::start(&binary(), Transport::Tcp, &["--followers=8"]);
    let mut origins = (0..2).map(start).collect::<Result<Vec<_>>>()?;
    let addresses: Vec<_> = origins.iter().map(|origin| shown(origin.address())).collect();
    let (near, admin) = http::start(&binary(), &[&format!("--origin={}", addresses.join(","))])?;
    super::await_state(&near, "copies")?;
    let clear = || {
        http::exchange(
            &admin,
            b"DELETE /api/v1/cache/clear HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        )
    };
    let mut client = near.connect()?;
    (0..KEYS).try_for_each(|key| set(&mut client, &name(key), "v"))?;
    assert_eq!(clear()?.status, 200);
    ensure!(read_all(&mut client)?.iter().all(Option::is_none), "items are left");
    let page = http::get(&admin, "/metrics", &[])?.body;
    for address in &addresses {
        let line = format!("larder_near_origin_reachable{{origin=\"{address}\"}} 1\n");
        ensure!(page.contains(&line), "no {line:?} in {page}");
    }
    origins.remove(1).stop(Signal::KILL)?;
    super::await_state(&near, "mixed")?;
    let answer = clear()?;
    assert_eq!(answer.status, 503);
    let expected = format!("not cleared by {}: unreachable", addresses[1]);
    ensure!(answer.body.contains(&expected), "{}", answer.body);
    Ok(())
}

/// When weights change, a moved key is read from its new origin from then on, by the socket and in
/// the memory. All other copies stay.
#[test]
fn changed_weights_move_keys() -> Result<()> {
    let scene = Scene::start()?;
    scene.number_items()?;
    let mut near = scene.near.connect()?;
    let client = scene.reader()?;
    let mut before = owners(&mut near)?;
    for (number, weights) in [[1, 5, 1], [20, 5, 1], [1, 1, 1]].into_iter().enumerate() {
        let fetches = count(&scene.near, "near_fetches")?;
        scene.write_weights(&weights_of(&scene.addresses, weights))?;
        scene.await_log("weights reloaded", number + 1)?;
        let look = |key: usize| -> Result<(usize, bool)> {
            let mut value = Vec::new();
            let found = client.get_into(&name(key), &mut value)?.context("no item")?;
            Ok((String::from_utf8(value)?.parse()?, found.is_local))
        };
        let seen = (0..KEYS).map(look).collect::<Result<Vec<_>>>()?;
        let after = owners(&mut near)?;
        for (key, (owner, is_local)) in seen.into_iter().enumerate() {
            assert_eq!(owner, after[key], "key {key}, in the memory: {is_local}");
        }
        let moved = (0..KEYS).filter(|key| before[*key] != after[*key]).count();
        ensure!(moved > KEYS / 10, "{moved} keys have moved");
        let fetched = count(&scene.near, "near_fetches")? - fetches;
        ensure!(fetched <= moved as u64, "{fetched} fetches, but {moved} keys have moved");
        // A near cache that starts with these weights finds the same owners.
        let expected = scene.addresses.iter().zip(weights);
        let list: Vec<_> =
            expected.map(|(address, weight)| format!("{address}:{weight}")).collect();
        let other = super::start_near(&list.join(","), &[])?;
        super::await_state(&other, "copies")?;
        assert_eq!(owners(&mut other.connect()?)?, after);
        before = after;
    }
    Ok(())
}

/// Clients read and write while the weights change. None reads something older than what it has
/// written since the weights were last changed.
#[test]
fn clients_read_their_writes_while_weights_change() -> Result<()> {
    let scene = Scene::start()?;
    read_own_writes_during_reloads(&scene)
}

/// Same, while an origin reports no changes, so that writes of its keys have no copy to drop.
#[test]
fn clients_read_their_writes_while_weights_change_and_an_origin_passes() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("cache").display().to_string();
    let scene = Scene::with([1, 1, 1], &[&["-e", &file], &[], &[]])?;
    let _peer = larder::Cache::builder().shared(&file).open()?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while count(&scene.near, "near_origins_passing")? != 1 {
        ensure!(Instant::now() < deadline, "it reports changes: {}", scene.near.log());
        sleep(Duration::from_millis(5));
    }
    let mut near = scene.near.connect()?;
    // Their owners are asked for all of them when the weights change, which takes time.
    for key in 0..20_000 {
        set(&mut near, &format!("many:{key}"), "v")?;
        get(&mut near, &format!("many:{key}"))?;
    }
    read_own_writes_during_reloads(&scene)
}

fn read_own_writes_during_reloads(scene: &Scene) -> Result<()> {
    let changes = [[1, 5, 1], [1, 1, 1], [7, 1, 1], [1, 1, 9]];
    let until = Instant::now() + Duration::from_secs(3);
    scope(|scope| {
        let write = |client: usize| {
            move || -> Result<usize> {
                let mut near = scene.near.connect()?;
                let mut lost = 0;
                for number in 0.. {
                    if Instant::now() > until {
                        break;
                    }
                    let key = format!("{client}:{}", number % 40);
                    // Copies of it may exist at its old owner.
                    get(&mut near, &key)?;
                    set(&mut near, &key, &number.to_string())?;
                    let answer = get(&mut near, &key)?;
                    // The key may have moved in between, and its new origin has an older item.
                    lost += usize::from(answer != hit(&key, &number.to_string()));
                }
                Ok(lost)
            }
        };
        let writers: Vec<_> = (0..4).map(|client| scope.spawn(write(client))).collect();
        let mut reloads = 0;
        for weights in changes.iter().cycle() {
            if Instant::now() > until {
                break;
            }
            scene.write_weights(&weights_of(&scene.addresses, *weights))?;
            reloads += 1;
            scene.await_log("weights reloaded", reloads)?;
        }
        ensure!(reloads >= 4, "{reloads} changes in three seconds");
        for writer in writers {
            let lost = writer.join().expect("a writer does not panic")?;
            // Each client is between a write and its read at most once for each change.
            ensure!(lost <= reloads, "{lost} writes were not seen, in {reloads} changes");
        }
        Ok(())
    })
}

#[test]
fn a_file_of_weights_that_cannot_be_used_changes_nothing() -> Result<()> {
    let scene = Scene::with_weights([1, 2, 3])?;
    let first = &scene.addresses[0];
    let cases = [
        (format!("{first}\n"), "is not an address of --origin and a weight from 1 to 65535"),
        (format!("\n# a comment\n{first} 0\n"), "line 3"),
        (format!("{first} 65536\n"), "65536"),
        (format!("{first} 1 2\n"), "line 1"),
        ("localhost:1 2\n".to_owned(), "localhost:1 is no origin: name the servers as in --origin"),
        (format!("{first} 1\n{first} 2\n"), "line 2: "),
        (format!("{first} 65535\n"), "owns no keys"),
        (String::new(), "it names no origin"),
        (format!("{first} 5\n{}", "# more\n".repeat(10_000)), "longer than 65536 bytes"),
    ];
    let rows = |near: &mut Stream| ask(near, "stats origins\r\n", "END\r\n");
    let mut near = scene.near.connect()?;
    for (text, expected) in &cases {
        scene.write_weights(text)?;
        scene.near.signal(Signal::HUP)?;
        scene.await_log(expected, 1)?;
        ensure!(rows(&mut near)?.contains("STAT 2:weight 3\r\n"), "{text:?} has an effect");
    }
    fs::remove_file(scene.folder.path().join("weights"))?;
    scene.near.signal(Signal::HUP)?;
    scene.await_log("No such file", 1)?;
    ensure!(count(&scene.near, "near_weights_reload_failures")? >= cases.len() as u64, "uncounted");
    scene.write_weights(&format!("{first} 9 # and a comment\n"))?;
    scene.await_log("weights reloaded", 1)?;
    let rows = rows(&mut near)?;
    // The others have the weights of --origin.
    for row in ["STAT 0:weight 9\r\n", "STAT 1:weight 1\r\n", "STAT 2:weight 1\r\n"] {
        ensure!(rows.contains(row), "no {row:?} in {rows}");
    }
    Ok(())
}

#[test]
fn several_origins_need_options_that_fit() -> Result<()> {
    let many = vec!["localhost:1"; 65].join(",");
    let missing = Path::new("/none/weights");
    for (args, expected) in [
        (vec!["--origin=localhost:1,localhost:1".to_owned()], "localhost:1 is given twice"),
        (vec!["--origin=localhost:1,localhost:1:5".to_owned()], "localhost:1 is given twice"),
        (vec!["--origin=localhost:1,tls:localhost:1".to_owned()], "tls:localhost:1 is given twice"),
        (vec!["--origin=localhost:1,".to_owned()], "commas"),
        (vec!["--origin=localhost:1:0".to_owned()], "weight"),
        (vec![format!("--origin={many}")], "up to 64"),
        (vec!["--origin=a:1,b:1:65535".to_owned()], "owns no keys"),
        (
            vec!["--origin=a:1".to_owned(), format!("--origin-weights={}", missing.display())],
            "several servers",
        ),
        (
            vec!["--origin=a:1,b:1".to_owned(), format!("--origin-weights={}", missing.display())],
            "/none/weights: No such file",
        ),
    ] {
        let output = run_to_end(command(&binary()).args(&args))?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && error.contains(expected), "{args:?}: {error}");
    }
    Ok(())
}
