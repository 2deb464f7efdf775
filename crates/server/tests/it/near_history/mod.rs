//! Near caches keep their promises
//! (docs/decisions/0043-the-near-cache-is-modelled-first.md): eight clients of an origin and three
//! near caches record their commands while the network, the near caches and the origin fail. Then
//! [`larder_testkit::history`] judges the record.
//!
//! The run consists of rounds of a few seconds. Each round has new keys, so that a late command of
//! an earlier round changes nothing. At its end all faults stop, and the copies must be current.
//!
//! If a round kills the origin, its items are removed between the kill and the moment at which the
//! next process accepts connections, and the removal counts as acknowledged then. If the next
//! process finds the memory file, the restart counts as a removal that may have happened.
//!
//! `LARDER_NEAR_SECS` sets the duration (`make verify ONLY=near-history`). `LARDER_NEAR_SEED`
//! repeats the commands and the faults of a run, but not the order in which servers execute them.

mod client;
pub(crate) mod cluster;
mod faults;
mod keys;
mod reply;
mod wrong;

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use larder_testkit::Random;
use larder_testkit::history::{Did, Event, History, Promise, Resting, Shown, Violation};

use client::{Client, Round};
use cluster::{Between, Cluster, NEARS};
use faults::{Causer, Faults};
use keys::{KINDS, Keys, Kind};
use reply::Connection;
use wrong::Fault;

const ROUND: Duration = Duration::from_secs(4);
/// The longest time of an upgrade of all servers.
const UPGRADE_PATIENCE: Duration = Duration::from_secs(60);
const REST_PATIENCE: Duration = Duration::from_secs(10);
const SEED: &str = "LARDER_NEAR_SEED";

fn seed() -> u64 {
    std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_nanos() as u64)
    })
}

/// A function that causes faults of one kind until the end of the round.
type Cause<'a> = Box<dyn FnOnce(&mut Causer<'a>) -> Result<()> + Send>;

/// A series of rounds on one cluster.
struct Run {
    cluster: Cluster,
    seed: u64,
    random: Random,
    rounds: u64,
    commands: u64,
    lost: u64,
    /// The errors that clients have received.
    errors: Vec<String>,
    local: u64,
    faults: u64,
}

/// What a thread of a round has recorded.
struct Recorded {
    events: Vec<Event>,
    lost: u64,
    errors: Vec<String>,
    local: u64,
    faults: u64,
}

impl Run {
    fn start(between: Between) -> Result<Self> {
        let seed = seed();
        println!("{SEED}={seed}");
        let random = Random::with_seed(seed | 1);
        let cluster = Cluster::start(between)?;
        Ok(Self {
            cluster,
            seed,
            random,
            rounds: 0,
            commands: 0,
            lost: 0,
            errors: Vec::new(),
            local: 0,
            faults: 0,
        })
    }

    /// Runs the clients and the faults for some time, and returns the violations.
    fn round(&mut self, duration: Duration, faults: Faults) -> Result<Vec<Violation>> {
        Ok(self.history(duration, faults)?.judge())
    }

    /// Returns the history of a new round.
    fn history(&mut self, duration: Duration, faults: Faults) -> Result<History> {
        self.rounds += 1;
        let origins = self.cluster.origins();
        let keys = Keys::of_round(self.rounds, &origins);
        let origins = origins.addresses;
        let writes = self.random.one_of(&[3, 20, 200, 1000, 5000]);
        let clock = Instant::now();
        let (longest, is_over) = (clock + duration, AtomicBool::new(false));
        let round =
            Round { keys, clock, longest, is_over, writes, origins, removing: Mutex::default() };
        let recorded = self.record(&round, faults).with_context(|| self.explained())?;
        self.cluster.calm()?;
        let places = self.cluster.places.iter().map(|(place, _)| place.clone()).collect();
        let mut history = History { places, keys: round.keys.names.clone(), ..History::default() };
        for Recorded { events, lost, errors, local, faults } in recorded {
            self.lost += lost;
            self.errors.extend(errors);
            self.local += local;
            self.faults += faults;
            history.events.extend(events);
        }
        self.commands += history.events.len() as u64;
        let max_stale = self.cluster.max_stale;
        sleep(max_stale + max_stale / 4);
        self.rest(&round, &mut history).with_context(|| self.explained())?;
        self.nothing_is_evicted()?;
        Ok(history)
    }

    /// Runs the threads of a round.
    fn record(&mut self, round: &Round, faults: Faults) -> Result<Vec<Recorded>> {
        let cluster = &self.cluster;
        let client_count = cluster.client_count();
        let seeds: Vec<u64> = (0..client_count + NEARS + 2).map(|_| self.random.next()).collect();
        thread::scope(|scope| {
            let clients = (0..client_count).map(|number| {
                let place = number % cluster.places.len();
                let (address, keys) = match place {
                    0 => round.at_origin(number / cluster.places.len()),
                    _ => (cluster.places[place].1.clone(), (0..KINDS.len()).collect()),
                };
                let place_address = (place, address);
                let mut client = Client::new(number, place_address, keys, round, seeds[number]);
                client.socket = cluster.readers_socket(place);
                scope.spawn(move || {
                    client.run()?;
                    let Client { events, lost, errors, local, .. } = client;
                    Ok(Recorded { events, lost, errors, local, faults: 0 })
                })
            });
            let mut threads: Vec<_> = clients.collect();
            let mut causes: Vec<Cause<'_>> = Vec::new();
            if faults.network {
                causes.extend(
                    (0..NEARS)
                        .map(|near| -> Cause<'_> { Box::new(move |causer| causer.network(near)) }),
                );
            }
            if faults.stops {
                causes.push(Box::new(Causer::stops));
            }
            if faults.origin {
                causes.push(Box::new(Causer::origin));
            }
            if faults.upgrades {
                causes.push(Box::new(Causer::upgrades));
            }
            for (cause, seed) in causes.into_iter().zip(&seeds[client_count..]) {
                let mut causer = Causer::new(cluster, round, *seed);
                threads.push(scope.spawn(move || {
                    cause(&mut causer)?;
                    let Causer { events, count, .. } = causer;
                    Ok(Recorded { events, errors: Vec::new(), lost: 0, local: 0, faults: count })
                }));
            }
            let join = |thread: thread::ScopedJoinHandle<'_, Result<Recorded>>| {
                thread.join().unwrap_or_else(|_| bail!("a thread panicked"))
            };
            threads.into_iter().map(join).collect()
        })
    }

    /// Reads each key at each place, until the origin's item does not change in between.
    fn rest(&self, round: &Round, history: &mut History) -> Result<()> {
        let deadline = Instant::now() + REST_PATIENCE;
        for (place, (_, address)) in self.cluster.places.iter().enumerate().skip(1) {
            for key in 0..KINDS.len() {
                loop {
                    let read = |address| show(round, address, key);
                    let origin = &round.origins[round.keys.owners[key]];
                    let answers = read(origin)
                        .and_then(|shown| Ok([shown, read(address)?, read(address)?]))
                        .and_then(|answers| Ok((answers, read(origin)?)));
                    match answers {
                        Ok(([before, first, second], after)) if before == after => {
                            for there in [first, second] {
                                history.resting.push(Resting { place, key, there, origin: after });
                            }
                            break;
                        }
                        Ok(_) => ensure!(Instant::now() < deadline, "late writes do not end"),
                        Err(error) => {
                            let late = "a place does not answer at rest";
                            ensure!(Instant::now() < deadline, "{late}: {place}: {error:#}");
                        }
                    }
                    sleep(Duration::from_millis(20));
                }
            }
        }
        Ok(())
    }

    /// Requires that the origins have memory for all items, since the judge would report a miss.
    fn nothing_is_evicted(&self) -> Result<()> {
        for address in &self.cluster.origins().addresses {
            let mut stream = larder_testkit::Stream::connect(address)?;
            let rows = stream.ask(b"stats\r\n", b"END\r\n")?;
            let rows = String::from_utf8_lossy(&rows);
            ensure!(rows.contains("STAT evictions 0\r\n"), "an origin has evicted items: {rows}");
        }
        Ok(())
    }

    /// Requires that near caches answer from copies while nothing changes: the judge would accept
    /// one that passes everything on.
    fn copies_are_kept(&self, round: u64) -> Result<()> {
        const READS: u64 = 500;
        let names = Keys::of_round(round, &self.cluster.origins()).names;
        for number in 0..self.cluster.nears.len() {
            let proxies = self.cluster.proxies_of(number);
            let links = || proxies.iter().flat_map(larder_testkit::Proxy::links);
            let bytes = || links().map(|link| link.bytes()).sum::<u64>();
            let deadline = Instant::now() + REST_PATIENCE;
            loop {
                let mut connection =
                    Connection::open(&self.cluster.places[number + 1].1, REST_PATIENCE)?;
                // The absence of an item may not be remembered.
                connection.ask(format!("set {} 0 0 1\r\nv\r\n", names[0]).as_bytes())?;
                let before = bytes();
                for _ in 0..READS {
                    connection.ask(format!("gets {}\r\n", names[0]).as_bytes())?;
                }
                let moved = bytes() - before;
                if moved < READS * 10 {
                    break;
                }
                let late = Instant::now() < deadline;
                ensure!(late, "near cache {} keeps no copy: {moved} bytes moved", number + 1);
            }
        }
        Ok(())
    }

    /// Returns how to repeat the run, and what the servers have logged.
    fn explained(&self) -> String {
        let Self { seed, rounds, cluster, .. } = self;
        format!(
            "round {rounds}; repeat with {SEED}={seed} and the same LARDER_NEAR_SECS\n{}",
            cluster.logs()
        )
    }

    fn require_none(&self, found: &[Violation]) -> Result<()> {
        let text: Vec<String> = found.iter().map(ToString::to_string).collect();
        ensure!(found.is_empty(), "{}\n{}", text.join("\n"), self.explained());
        Ok(())
    }

    /// Requires that every command of a first round without faults has an answer.
    fn require_answers(&self, faults: Faults) -> Result<()> {
        let is_calm = self.rounds == 1 && faults == Faults::default();
        ensure!(!is_calm || self.lost == 0, "{} have no answer: {}", self.lost, self.explained());
        Ok(())
    }

    fn summary(&self) {
        let Self { rounds, commands, lost, local, faults, .. } = self;
        println!(
            "{rounds} rounds, {commands} events ({local} hits in the memory), {lost} commands without \
             an answer, {faults} faults"
        );
    }
}

/// Reads a key at an address.
fn show(round: &Round, address: &larder_testkit::Address, key: usize) -> Result<Option<Shown>> {
    let mut connection = Connection::open(address, Duration::from_secs(1))?;
    let reply = connection.ask(format!("gets {}\r\n", round.keys.names[key]).as_bytes())?;
    ensure!(reply.line == "END", "{}", reply.line);
    let item = reply.items.first();
    item.map(|item| Ok(Shown { version: round.keys.version(key, &item.value)?, cas: item.cas }))
        .transpose()
}

/// The first round has no faults, the second one all, and the others some.
#[test]
fn near_caches_keep_their_promises() -> Result<()> {
    let local = keep_promises(Between::Near)?;
    ensure!(local > 1000, "{local} hits in the memory: too calm");
    Ok(())
}

/// Same as [`near_caches_keep_their_promises`], with an origin that does not report changes.
#[test]
fn near_caches_without_reports_keep_their_promises() -> Result<()> {
    let local = keep_promises(Between::Timed)?;
    ensure!(local > 100, "{local} hits in the memory: too calm");
    Ok(())
}

/// Same as [`near_caches_keep_their_promises`], with three origins.
#[test]
fn near_caches_of_several_origins_keep_their_promises() -> Result<()> {
    let local = keep_promises(Between::Several)?;
    ensure!(local > 1000, "{local} hits in the memory: too calm");
    Ok(())
}

/// Runs rounds for some time. Returns the number of hits in the memory.
fn keep_promises(between: Between) -> Result<u64> {
    let secs = std::env::var("LARDER_NEAR_SECS").ok().and_then(|secs| secs.parse().ok());
    let end = Instant::now() + Duration::from_secs(secs.unwrap_or(10));
    let mut run = Run::start(between)?;
    while run.rounds < 2 || Instant::now() + ROUND < end {
        let faults = match run.rounds {
            0 => Faults::default(),
            1 => Faults::ALL,
            _ => Faults::random(&mut run.random),
        };
        let found = run.round(if run.rounds == 0 { ROUND / 2 } else { ROUND }, faults)?;
        run.require_none(&found)?;
        run.require_answers(faults)?;
        if run.rounds == 1 {
            run.copies_are_kept(run.rounds)?;
        }
    }
    run.summary();
    ensure!(run.commands > 10_000 && run.faults > 0, "too calm");
    Ok(run.local)
}

/// Three origins and four near caches are upgraded, one after the other, while clients use them.
#[test]
fn a_rolling_upgrade_loses_only_requests_in_flight() -> Result<()> {
    let mut run = Run::start(Between::Upgraded)?;
    let faults = Faults { upgrades: true, ..Faults::default() };
    let found = run.round(UPGRADE_PATIENCE, faults)?;
    run.summary();
    run.require_none(&found)?;
    ensure!(run.faults == 7, "{} upgrades", run.faults);
    // An origin that is about to end begins no removal by prefix.
    let is_removal = |error: &&String| error.starts_with("delete_prefix");
    let (removals, others): (Vec<_>, Vec<_>) = run.errors.iter().partition(is_removal);
    println!("{} removals were refused; other errors: {others:?}", removals.len());
    let lost = run.lost - removals.len() as u64;
    let in_flight = run.cluster.client_count() as u64 * run.faults;
    ensure!(lost <= in_flight, "{lost} requests have failed, and {in_flight} were in flight");
    let were_sent =
        others.iter().all(|error| error.ends_with("SERVER_ERROR origin did not answer"));
    ensure!(were_sent, "errors of requests that were not in flight: {others:?}");
    Ok(())
}

/// Every read at the proxies of a server returns its item, so that even a staleness of 0 holds.
#[test]
fn the_judge_accepts_a_plain_server() -> Result<()> {
    let mut run = Run::start(Between::Nothing)?;
    for faults in [Faults::default(), Faults { stops: false, ..Faults::ALL }] {
        let found = run.round(ROUND / 2, faults)?;
        run.require_none(&found)?;
        run.require_answers(faults)?;
    }
    run.summary();
    ensure!(run.commands > 2000, "too calm");
    Ok(())
}

/// Shows an item again that the same place has replaced with another one in its answers since, in a
/// single read of a key that clients do not delete.
fn go_back(history: &mut History, random: &mut Random) -> Result<()> {
    let read = |event: &Event| match event.did {
        Did::Read(Some(shown)) => Some(shown),
        _ => None,
    };
    for _ in 0..100_000 {
        let at = random.below(history.events.len() as u64) as usize;
        let changed = history.events[at];
        if read(&changed).is_none() || KINDS[changed.key] != Kind::Lasting {
            continue;
        }
        // The events of a client are in order.
        let earlier = history.events[..at].iter().rev().filter(|event| {
            (event.client, event.key) == (changed.client, changed.key)
                && event.answered < changed.begun
        });
        let mut shown = earlier.filter_map(read).take(100);
        let Some(last) = shown.next() else { continue };
        if let Some(old) = shown.find(|shown| shown.version != last.version) {
            history.events[at].did = Did::Read(Some(old));
            return Ok(());
        }
    }
    bail!("no client has read two versions of a lasting item: too calm")
}

#[test]
fn the_judge_finds_a_single_read_that_goes_back() -> Result<()> {
    const TRIES: usize = 40;
    let mut run = Run::start(Between::Nothing)?;
    // On a busy machine a short history may have no read that can be changed.
    let mut secs = ROUND / 8;
    let history = loop {
        let history = run.history(secs, Faults::default())?;
        run.require_none(&history.judge())?;
        match go_back(&mut history.clone(), &mut run.random) {
            Ok(()) => break history,
            Err(error) if secs > 4 * ROUND => return Err(error),
            Err(_) => secs *= 2,
        }
    };
    let mut found = 0;
    for _ in 0..TRIES {
        let mut changed = history.clone();
        go_back(&mut changed, &mut run.random)?;
        let violations = changed.judge();
        let is_found = violations.iter().any(|found| found.promise == Promise::NeverBack);
        found += usize::from(is_found);
    }
    run.summary();
    println!("{found} of {TRIES} found");
    ensure!(found > TRIES * 9 / 10, "{found} of {TRIES} found");
    Ok(())
}

/// Returns the promises that a cache breaks in a round. Repeats a round that shows nothing, because
/// on a busy machine the clients of a round may not read a key again after it is written.
fn broken_by(fault: Fault) -> Result<Vec<Promise>> {
    const MOST_ROUNDS: usize = 5;
    let mut run = Run::start(Between::Wrong(fault))?;
    let mut found = Vec::new();
    for _ in 0..MOST_ROUNDS {
        found = run.round(ROUND, Faults::default())?;
        if !found.is_empty() {
            break;
        }
    }
    run.summary();
    for violation in found.iter().take(2) {
        println!("{violation}");
    }
    Ok(found.iter().map(|violation| violation.promise).collect())
}

#[test]
fn the_judge_finds_copies_that_live_too_long() -> Result<()> {
    let broken = broken_by(Fault::LivesLong)?;
    ensure!(broken.contains(&Promise::Bounded), "{broken:?}");
    Ok(())
}

#[test]
fn the_judge_finds_copies_that_outlive_writes() -> Result<()> {
    let broken = broken_by(Fault::ForgetsWrites)?;
    ensure!(broken.contains(&Promise::NeverBack), "{broken:?}");
    ensure!(!broken.contains(&Promise::Bounded), "{broken:?}");
    Ok(())
}
