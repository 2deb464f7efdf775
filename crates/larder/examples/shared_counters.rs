//! Counters shared by all threads: visits of each page, and the remaining requests of an address.
//!
//! `cargo run --release -p larder --example shared_counters`

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use larder::{Cache, Clock, CountError};

const THREADS: u64 = 4;
const VISITS: u64 = 50_000;
const PAGES: u64 = 3;
const REQUESTS_A_MINUTE: u64 = 5;

/// Counts a visit. The first visit creates the counter. If several threads try this at the same
/// time, one succeeds.
fn visit(cache: &Cache, page: u64) -> Result<u64, CountError> {
    let key = format!("visits:{page}");
    loop {
        if let Some(visits) = cache.increment(&key, 1)? {
            return Ok(visits);
        }
        cache.add(&key, "0", None)?;
    }
}

/// True if this address may make another request within this minute.
fn may_ask(cache: &Cache, address: &str) -> Result<bool, CountError> {
    let key = format!("left:{address}");
    // The first request of a minute creates the counter, which expires a minute later regardless of
    // its value.
    if cache.add(&key, REQUESTS_A_MINUTE.to_string(), Some(Duration::from_secs(60)))? {
        cache.decrement(&key, 1)?;
        return Ok(true);
    }
    let left = cache.get_with(&key, |left, _| left.trim_ascii() != b"0");
    Ok(left.unwrap_or(true) && cache.decrement(&key, 1)?.is_some())
}

/// Runs the example.
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // The example moves the clock itself instead of waiting for a minute.
    let cache = Cache::builder().memory_bytes(1 << 20).clock(Clock::Ticked).open()?;

    let started = Instant::now();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let cache = &cache;
            scope.spawn(move || {
                for count in 0..VISITS {
                    visit(cache, (thread + count) % PAGES).expect("the counter is not a number");
                }
            });
        }
    });
    let elapsed = started.elapsed();
    let mut total = 0;
    for page in 0..PAGES {
        let visits =
            cache.increment(format!("visits:{page}"), 0)?.ok_or("the page has no visits")?;
        println!("page {page}: {visits} visits");
        total += visits;
    }
    assert_eq!(total, THREADS * VISITS);
    println!("{total} visits by {THREADS} threads in {elapsed:?}, none lost");

    let asked = |count: u32| -> Result<usize, CountError> {
        let answers: Result<Vec<bool>, _> =
            (0..count).map(|_| may_ask(&cache, "192.0.2.7")).collect();
        Ok(answers?.into_iter().filter(|allowed| *allowed).count())
    };
    let allowed = asked(8)?;
    cache.tick(cache.now() + 60);
    let allowed_later = asked(3)?;
    println!(
        "8 requests of 192.0.2.7: {allowed} allowed; 3 requests a minute later: {allowed_later} allowed"
    );
    assert_eq!((allowed, allowed_later), (5, 3));
    Ok(())
}
