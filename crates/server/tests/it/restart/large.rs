//! How long a cache of one gigabyte takes to restart: `make bench NAME=restart`.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::server::Signal;
use larder_testkit::{Address, ServerUnderTest, Stream};

use super::{Place, binary, number};

const ITEMS: u64 = 5_000_000;
const FILLERS: u64 = 4;

#[test]
#[ignore = "takes a gigabyte and a minute: make bench NAME=restart"]
fn restart_of_a_large_cache() -> Result<()> {
    let folder = if std::path::Path::new("/dev/shm").exists() { "/dev/shm" } else { "/tmp" };
    let place = Place(tempfile::Builder::new().prefix("larder-restart-").tempdir_in(folder)?);
    let (server, mut stream) = place.start(&["-m", "1024"])?;
    let address = server.address().clone();
    together(|filler| fill(&address, filler))?;
    let items_before = number(&mut stream, "curr_items")?;
    let loads: Vec<_> = (0..FILLERS)
        .map(|filler| {
            let address = address.clone();
            // The thread ends with the server.
            thread::spawn(move || fill(&address, filler).is_err())
        })
        .collect();
    thread::sleep(Duration::from_secs(1));
    server.stop(Signal::KILL)?;
    for load in loads {
        ensure!(load.join().expect("no panic"), "the load ended before the server");
    }

    let (first_hit, server) = start_until_a_hit(&place)?;
    let mut stream = server.connect()?;
    let items_after = number(&mut stream, "curr_items")?;
    let kept = kept(&mut stream)?;
    println!("{}", server.log().trim());
    println!("first hit {:.1} ms after the process was started", first_hit.as_secs_f64() * 1000.0);
    println!(
        "items: {items_before} before, {items_after} after by stats, {kept} found and right of {ITEMS}"
    );
    ensure!(kept * 1000 >= items_before * 999, "items are lost");
    Ok(())
}

fn together(work: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..FILLERS)
            .map(|number| {
                scope.spawn({
                    let work = &work;
                    move || work(number)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

fn value(item: u64) -> String {
    format!(
        "{item:09} is the value of item {item:09}, and it has about one hundred bytes, as many have in caches."
    )
}

/// Stores a part of the items.
fn fill(address: &Address, filler: u64) -> Result<()> {
    const BATCH: u64 = 500;
    let mut stream = Stream::connect(address)?;
    let part = ITEMS / FILLERS;
    for batch in 0..part / BATCH {
        let mut request = String::new();
        for item in 0..BATCH {
            let item = filler * part + batch * BATCH + item;
            let value = value(item);
            write!(request, "set item:{item:09} 0 0 {} noreply\r\n{value}\r\n", value.len())?;
        }
        stream.ask((request + "mn\r\n").as_bytes(), b"MN\r\n")?;
    }
    Ok(())
}

/// Starts a server and sends a request as soon as it accepts connections. Returns how long that
/// takes.
fn start_until_a_hit(place: &Place) -> Result<(Duration, ServerUnderTest)> {
    let began = Instant::now();
    let socket = place.0.path().join("socket");
    let path = place.path();
    let args = ["-m", "1024", "-e", path.to_str().context("UTF-8")?];
    let server = ServerUnderTest::start_at(&binary(), Address::Unix(socket), &args)?;
    let mut stream = server.connect()?;
    stream.ask(b"get item:000000001\r\n", b"caches.\r\nEND\r\n")?;
    Ok((began.elapsed(), server))
}

/// Returns how many of the items exist, after checking their values.
fn kept(stream: &mut Stream) -> Result<u64> {
    const BATCH: u64 = 100;
    let mut kept = 0;
    for batch in 0..ITEMS / BATCH {
        let mut request = "get".to_owned();
        for item in 0..BATCH {
            write!(request, " item:{:09}", batch * BATCH + item)?;
        }
        let answer = String::from_utf8(stream.ask((request + "\r\n").as_bytes(), b"END\r\n")?)?;
        let mut lines = answer.lines();
        while let Some(key) = lines.next().and_then(|line| line.strip_prefix("VALUE item:")) {
            let item: u64 = key.split(' ').next().context("a key")?.parse()?;
            ensure!(lines.next() == Some(&value(item)), "item {item} has another's value");
            kept += 1;
        }
    }
    Ok(kept)
}
