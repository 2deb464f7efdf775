//! Runs all threads of a load, from the first connection to the last response.

pub(crate) mod effort;
pub(crate) mod live;
pub(crate) mod load;
pub(crate) mod pin;
pub(crate) mod series;
pub(crate) mod stop;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::connect::dialer::Dialer;
use crate::measure::live::Live;
use crate::measure::load::{Load, Orders};
use crate::measure::pin::pin_this_thread;
use crate::measure::series::Series;
use crate::measure::stop::Stop;
use crate::options::LoadArguments;
use crate::request::draw::{Draw, Pool};
use crate::request::schedule::Schedule;
use crate::tally::{Second, Tally};
use crate::wire::ask::{Ask, Source};
use crate::wire::opener::Opener;

/// Everything that a load needs before its first connection.
pub(crate) struct Plan {
    arguments: LoadArguments,
    pool: Pool,
    opener: Opener,
    stop: Stop,
    /// The processor on which all threads run.
    processor: Option<usize>,
}

/// The result of a load.
pub(crate) struct LoadResult {
    pub(crate) tally: Tally,
    pub(crate) series: Series,
    /// Number of keys.
    pub(crate) key_count: u32,
}

impl Plan {
    /// Checks the options and reads the files that they name.
    ///
    /// # Errors
    /// The options contradict each other, or a file cannot be read.
    pub(crate) fn new(
        arguments: &LoadArguments,
        stop: &Stop,
        processor: Option<usize>,
    ) -> Result<Self> {
        arguments.check()?;
        Ok(Self {
            arguments: arguments.clone(),
            pool: Pool::new(arguments)?,
            opener: Opener::new(arguments)?,
            stop: stop.clone(),
            processor,
        })
    }

    /// Returns the dialer of the load's connections.
    pub(crate) fn dialer(&self) -> &Dialer {
        self.opener.dialer()
    }

    /// Stores all keys over one connection if the load measures lookups.
    ///
    /// # Errors
    /// The connection fails, or the server does not store a key.
    pub(crate) fn store_keys(&self) -> Result<()> {
        match self.arguments.stores_keys() {
            true => self.store_every_key(),
            false => Ok(()),
        }
    }

    /// Stores all keys over one connection.
    ///
    /// # Errors
    /// The connection fails, or the server does not store a key.
    pub(crate) fn store_every_key(&self) -> Result<()> {
        let mut orders = self.orders();
        // Over TLS, memcached stops reading when large requests arrive together.
        orders.pipeline = if self.opener.has_tls() { 1 } else { STORE_PIPELINE };
        orders.duration = None;
        // A lost connection could lose a key, which lookups would miss later.
        orders.opener = None;
        let ask = Ask::new(orders.dialect, 1, Source::EveryKey(0), &self.pool);
        let load = Load::new(orders, ask, vec![self.opener.open_stream()?])?;
        let tally = load.run(Instant::now(), None)?;
        if let Some(reason) = tally.failed {
            return Err(self.failure(&reason).context("storing the keys"));
        }
        match tally.errors.first_key_value() {
            Some((words, times)) => {
                Err(anyhow!("the server did not store {times} keys and answered: {words}"))
            }
            None => Ok(()),
        }
    }

    /// Runs the load and shows its progress.
    ///
    /// # Errors
    /// A connection cannot be opened. A connection that fails later is counted.
    pub(crate) fn measure(&self, live: &mut Live) -> Result<LoadResult> {
        raise_descriptor_limit(self.arguments.connections)?;
        let thread_count = self.arguments.threads.min(self.arguments.connections);
        let start = Start::new(thread_count);
        let (sender, receiver) = channel();
        let mut series = Series::new(thread_count);
        let mut tally = Tally::default();
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for number in 0..thread_count {
                let (sender, start) = (sender.clone(), &start);
                threads.push(scope.spawn(move || self.run_thread(number, start, sender)));
            }
            drop(sender);
            loop {
                match receiver.recv_timeout(POLL) {
                    Ok(second) => {
                        if let Some(point) = series.add(second) {
                            live.show(&point, self.arguments.seconds);
                        }
                    }
                    Err(RecvTimeoutError::Timeout) if start.at.get().is_none() => {
                        live.show_connecting(
                            start.opened.load(Relaxed),
                            self.arguments.connections,
                        );
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            for thread in threads {
                tally.add(thread.join().expect("the measuring thread does not panic")?);
            }
            anyhow::Ok(())
        })?;
        live.clear();
        series.end();
        tally.end();
        Ok(LoadResult { tally, series, key_count: self.pool.key_count() })
    }

    /// Returns the error for failed connections.
    pub(crate) fn failure(&self, reason: &str) -> anyhow::Error {
        anyhow!("{}: {reason}", self.arguments.server.server)
    }

    fn run_thread(&self, number: u32, start: &Start, sender: Sender<Second>) -> Result<Tally> {
        let load = self.prepare(number, start);
        start.has_failed.fetch_or(load.is_err(), Relaxed);
        start.opened_all.wait();
        let load = load?;
        if start.has_failed.load(Relaxed) {
            // Another thread has failed and returns the reason.
            return Ok(Tally::default());
        }
        load.run(*start.at.get_or_init(Instant::now), Some(sender))
    }

    fn prepare(&self, number: u32, start: &Start) -> Result<Load<'_>> {
        if let Some(processor) = self.processor {
            pin_this_thread(processor)?;
        }
        let arguments = &self.arguments;
        let thread_count = arguments.threads.min(arguments.connections);
        let part = |number: u32| {
            u64::from(arguments.connections) * u64::from(number) / u64::from(thread_count)
        };
        let mut channels = Vec::new();
        for _ in part(number)..part(number + 1) {
            ensure!(!self.stop.is_asked(), "stopped while connecting");
            channels.push(self.opener.open()?);
            start.opened.fetch_add(1, Relaxed);
        }
        let draw = Draw::new(&self.pool, number);
        let ask = Ask::new(arguments.dialect, arguments.multiget, Source::Drawn(draw), &self.pool);
        let mut load = Load::new(self.orders(), ask, channels)?;
        if let Some(rate) = arguments.rate {
            load.keep_schedule(Schedule::new(rate, arguments.seconds, number, thread_count))?;
        }
        Ok(load)
    }

    fn orders(&self) -> Orders<'_> {
        Orders {
            pool: &self.pool,
            dialect: self.arguments.dialect,
            pipeline: self.arguments.pipeline,
            keeps_missed: self.arguments.fills(),
            timeout: self.arguments.timeout(),
            duration: Some(self.arguments.duration()),
            opener: Some(&self.opener),
            stop: &self.stop,
        }
    }
}

/// The start signal that all threads wait for.
struct Start {
    opened_all: Barrier,
    opened: AtomicU32,
    has_failed: AtomicBool,
    at: OnceLock<Instant>,
}

impl Start {
    fn new(thread_count: u32) -> Self {
        let threads = NonZeroUsize::new(thread_count as usize).map_or(1, NonZeroUsize::get);
        Self {
            opened_all: Barrier::new(threads),
            opened: AtomicU32::new(0),
            has_failed: AtomicBool::new(false),
            at: OnceLock::new(),
        }
    }
}

/// Raises the limit of descriptors to one for each connection and some for other uses.
fn raise_descriptor_limit(connections: u32) -> Result<()> {
    let wanted = u64::from(connections) + DESCRIPTORS_BESIDE;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    ensure!(
        maximum.is_none_or(|maximum| maximum >= wanted),
        "{connections} connections need {wanted} descriptors and {} are allowed: raise `ulimit -Hn`",
        maximum.unwrap_or(0)
    );
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
        .context("raising the descriptor limit")
}

const STORE_PIPELINE: u32 = 64;
const POLL: Duration = Duration::from_millis(100);
/// Descriptors for files, epolls and timers.
const DESCRIPTORS_BESIDE: u64 = 3 * 1024;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::thread::sleep;

    use super::*;
    use crate::address::Address;
    use crate::fixtures::{forget_all, load_at, nobody, serve};
    use crate::tally::Lateness;

    /// Runs a load of one second on the server.
    #[track_caller]
    fn run(server: &Address, args: &[&str]) -> LoadResult {
        let load = load_at(server, &[&["--seconds=1", "--no-load"], args].concat());
        let plan = Plan::new(&load, &Stop::default(), None).unwrap();
        plan.measure(&mut Live::new("")).unwrap()
    }

    /// A server that keeps nothing and responds to each request after a millisecond, so that a
    /// closed loop does not use a full processor.
    fn forgetful() -> Address {
        serve(|_, stream| {
            forget_all(stream, |_| {
                sleep(Duration::from_millis(1));
                true
            });
        })
    }

    /// A server that responds to all input with these bytes.
    fn answering(answer: &'static [u8]) -> Address {
        serve(move |_, mut stream| {
            let mut request = [0; 4096];
            while stream.read(&mut request).is_ok_and(|received| received > 0) {
                sleep(Duration::from_millis(1));
                if stream.write_all(answer).is_err() {
                    return;
                }
            }
        })
    }

    #[test]
    fn every_missed_key_is_set_once_with_the_next_request() {
        let tally = run(&forgetful(), &["--fill", "--connections=2"]).tally;
        assert_eq!((tally.hits, tally.requests), (0, tally.gets + tally.sets), "{tally:?}");
        // A get at the very end has no set.
        assert!(tally.gets > 10 && tally.gets.abs_diff(tally.sets) <= 2, "{tally:?}");
        assert!(tally.is_sound() && tally.failed.is_none(), "{tally:?}");
    }

    #[test]
    fn a_missed_key_is_not_set_unless_the_load_fills() {
        let tally = run(&forgetful(), &["--connections=2"]).tally;
        assert_eq!((tally.sets, tally.hits), (0, 0), "{tally:?}");
        assert!(tally.gets > 10, "{tally:?}");
    }

    #[test]
    fn the_points_of_a_run_sum_up_to_its_tally() {
        let LoadResult { tally, series, .. } =
            run(&forgetful(), &["--connections=5", "--threads=2", "--rate=200"]);
        let [point] = series.points() else { panic!("one second is one point: {series:?}") };
        assert_eq!((tally.requests, tally.alive_connections), (200, 5), "{tally:?}");
        // The responses to the last requests may arrive in the next second.
        assert!((150.0..=201.0).contains(&point.requests_per_second), "{point:?}");
        assert_eq!(point.hit_ratio, Some(0.0));
    }

    /// Counts the latencies above 100 ms on a server that stalls for 300 ms, and otherwise responds
    /// after `answer_ms`.
    fn latencies_of_a_stall(answer_ms: u64, args: &[&str]) -> (u64, Tally) {
        let server = serve(move |_, stream| {
            forget_all(stream, |number| {
                sleep(Duration::from_millis(if number == 50 { 300 } else { answer_ms }));
                true
            });
        });
        let tally = run(&server, &[&["--connections=1"], args].concat()).tally;
        (tally.latency_ns.count_between(100_000_000, u64::MAX), tally)
    }

    /// The schedule continues while the server stalls. Each request that falls due during the stall
    /// counts with the time since it was due. It is not omitted because it could not be sent.
    #[test]
    fn an_open_loop_counts_the_requests_that_a_stall_held_up() {
        let (long, tally) = latencies_of_a_stall(0, &["--rate=200"]);
        // 60 requests are due within the stall, 40 of them more than 100 ms before its end.
        assert!(long >= 30, "{long} long latencies of {}", tally.requests);
        let lateness = tally.lateness;
        assert_eq!((lateness.scheduled, tally.requests + lateness.unsent), (200, 200));
        assert_eq!(tally.latency_ns.len(), 200, "each request of the schedule has a latency");
        assert!(lateness.late_for_connections >= 30, "{lateness:?}");
        assert!(lateness.for_connections_max_ns > 150_000_000, "{lateness:?}");
    }

    #[test]
    fn a_closed_loop_counts_a_stall_once() {
        let (long, tally) = latencies_of_a_stall(2, &[]);
        assert!((1..=5).contains(&long), "{long} long latencies of {}", tally.requests);
        assert_eq!(tally.lateness.scheduled, 0, "it has no schedule");
    }

    #[test]
    fn requests_that_no_connection_could_take_count_as_never_sent() {
        // A single connection handles ten requests per second.
        let server = serve(|_, stream| {
            forget_all(stream, |_| {
                sleep(Duration::from_millis(100));
                true
            });
        });
        let tally = run(&server, &["--connections=1", "--rate=100"]).tally;
        let Lateness { scheduled, unsent, .. } = tally.lateness;
        assert_eq!((scheduled, tally.requests + unsent), (100, 100), "{tally:?}");
        assert!(unsent >= 80, "{unsent} unsent");
        assert_eq!(tally.latency_ns.len(), 100, "they count with the time that they waited");
        assert!(tally.latency_us(0.5) > 300_000.0, "{} us", tally.latency_us(0.5));
    }

    #[test]
    fn lost_connections_are_reopened_and_their_requests_are_errors() {
        let server = serve(|_, stream| {
            forget_all(stream, |number| {
                sleep(Duration::from_millis(1));
                number < 20
            });
        });
        let tally = run(&server, &["--connections=2", "--rate=300"]).tally;
        assert!(tally.lost_connections >= 4, "{tally:?}");
        assert!(tally.reopened_connections.abs_diff(tally.lost_connections) <= 2, "{tally:?}");
        assert_eq!(tally.errors.keys().collect::<Vec<_>>(), ["connection closed"]);
        assert!(tally.error_count() >= tally.lost_connections, "{tally:?}");
        assert_eq!((&tally.failed, tally.is_sound()), (&None, false), "the run went on");
        assert!(tally.requests > 100, "{tally:?}");
    }

    #[test]
    fn a_server_that_ends_every_connection_ends_the_run_after_the_timeout() {
        let begun = Instant::now();
        let server = serve(|_, stream| drop(stream));
        let load = load_at(&server, &["--seconds=60", "--no-load", "--timeout=1"]);
        let plan = Plan::new(&load, &Stop::default(), None).unwrap();
        let tally = plan.measure(&mut Live::new("")).unwrap().tally;
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        let reason = tally.failed.unwrap();
        assert!(reason.contains("closed the connection before it answered"), "{reason}");
        assert_eq!((tally.requests, tally.alive_connections), (0, 0));
    }

    #[test]
    fn a_server_that_says_nothing_is_given_up_after_the_timeout() {
        let server = serve(|_, stream: TcpStream| {
            sleep(Duration::from_secs(20));
            drop(stream);
        });
        let tally = run(&server, &["--timeout=1", "--connections=2"]).tally;
        assert_eq!(tally.errors.keys().collect::<Vec<_>>(), ["no answer in time"]);
        assert_eq!(tally.requests, 0);
        let reason = tally.lost.or(tally.failed).unwrap();
        assert!(reason.contains("no answer within 1 s: the server is stopped"), "{reason}");
    }

    #[test]
    fn a_lost_datagram_is_an_error_and_costs_no_connection() {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (host, port) = ("127.0.0.1".to_owned(), silent.local_addr().unwrap().port());
        let server = Address::Tcp { host, port };
        let tally = run(&server, &["--udp", "--timeout=1", "--connections=2"]).tally;
        assert_eq!(tally.errors.keys().collect::<Vec<_>>(), ["no answer to a datagram"]);
        assert!(tally.error_count() >= 2, "{tally:?}");
        assert_eq!((tally.lost_connections, tally.alive_connections), (0, 2), "{tally:?}");
        assert_eq!((tally.failed, tally.requests), (None, 0));
    }

    /// Later responses on such a connection cannot be trusted, so that it is not reopened.
    #[test]
    fn an_answer_that_does_not_fit_fails_the_run_with_its_reason() {
        for (answer, kind, reason) in [
            (
                &b"HTTP/1.1 400 Bad Request\r\n"[..],
                "not the protocol",
                "the server does not answer in memcached's text protocol",
            ),
            (b"STORED\r\n", "wrong answer", "the server answered with a reply of another kind"),
            (
                b"VALUE a 0 1\r\nx\r\nEND\r\n",
                "wrong answer",
                "the server answered with another key's item",
            ),
            (b"VALUE a 0 99999999\r\n", "answer too long", "the server announces an answer of "),
            (b"END\r\nEND\r\n", "wrong answer", "the server answered a request that was never"),
        ] {
            let tally = run(&answering(answer), &["--connections=2"]).tally;
            let answer = answer.escape_ascii();
            assert!(tally.errors.contains_key(kind), "{answer} is {:?}", tally.errors);
            let failed = tally.failed.unwrap_or_default();
            assert!(failed.starts_with(reason), "{answer}: {failed:?}, expected {reason:?}");
            assert_eq!((tally.failed_connections, tally.reopened_connections), (2, 0), "{answer}");
        }
    }

    #[test]
    fn an_error_of_the_server_is_counted_and_the_run_goes_on() {
        let tally = run(&answering(b"SERVER_ERROR busy\r\n"), &["--connections=1"]).tally;
        assert_eq!(tally.errors.keys().collect::<Vec<_>>(), ["SERVER_ERROR busy"]);
        assert!(tally.error_count() > 5, "{tally:?}");
        assert_eq!((tally.requests, tally.failed, tally.alive_connections), (0, None, 1));
    }

    #[test]
    fn a_value_that_was_never_stored_is_wrong() {
        let answer = b"VALUE bench:00000000000000 0 3\r\nabc\r\nEND\r\n";
        let tally = run(&answering(answer), &["--connections=1", "--keys=1"]).tally;
        assert!(tally.hits > 5, "{tally:?}");
        assert_eq!(tally.wrong_values, tally.hits);
        assert!(!tally.is_sound());
    }

    #[test]
    fn all_keys_are_stored_before_the_gets() {
        let stored = Arc::new(AtomicU64::new(0));
        let counted = stored.clone();
        let server = serve(move |_, stream| {
            let counted = counted.clone();
            forget_all(stream, move |_| {
                counted.fetch_add(1, Relaxed);
                true
            });
        });
        let plan =
            |args: &[&str]| Plan::new(&load_at(&server, args), &Stop::default(), None).unwrap();
        plan(&["--keys=300"]).store_keys().unwrap();
        assert_eq!(stored.load(Relaxed), 300);
        for args in [&["--keys=300", "--no-load"][..], &["--keys=300", "--mode=set"]] {
            plan(args).store_keys().unwrap();
            assert_eq!(stored.load(Relaxed), 300, "{args:?} stores nothing ahead");
        }
    }

    #[test]
    fn a_key_that_is_not_stored_ends_the_run_before_it_is_measured() {
        let store = |server: &Address| {
            let load = load_at(server, &["--keys=3"]);
            let plan = Plan::new(&load, &Stop::default(), None).unwrap();
            format!("{:#}", plan.store_keys().unwrap_err())
        };
        let words = store(&answering(b"SERVER_ERROR x\r\nSERVER_ERROR x\r\nSERVER_ERROR x\r\n"));
        assert_eq!(words, "the server did not store 3 keys and answered: SERVER_ERROR x");
        let words = store(&serve(|_, stream| drop(stream)));
        assert!(words.starts_with("storing the keys: 127.0.0.1:"), "{words}");
        let words = store(&nobody());
        assert!(words.starts_with("cannot connect to 127.0.0.1:"), "{words}");
    }

    #[test]
    fn a_connection_that_cannot_be_opened_fails_all_threads() {
        for args in [&["--no-load"][..], &["--no-load", "--threads=4"]] {
            let load = load_at(&nobody(), args);
            let plan = Plan::new(&load, &Stop::default(), None).unwrap();
            let error = plan.measure(&mut Live::new("")).map(|_| ()).unwrap_err();
            assert!(format!("{error:#}").starts_with("cannot connect to "), "{error:#}");
        }
    }

    #[test]
    fn a_stop_ends_the_run_early_and_forgets_the_rest_of_the_schedule() {
        let stop = Stop::default();
        let load = load_at(&forgetful(), &["--seconds=60", "--no-load", "--rate=100"]);
        let plan = Plan::new(&load, &stop, None).unwrap();
        let begun = Instant::now();
        let asking = std::thread::spawn(move || {
            sleep(Duration::from_millis(300));
            stop.ask();
        });
        let tally = plan.measure(&mut Live::new("")).unwrap().tally;
        asking.join().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert!(tally.elapsed < Duration::from_secs(10), "{:?}", tally.elapsed);
        let Lateness { scheduled, unsent, .. } = tally.lateness;
        assert!((1..1000).contains(&scheduled), "{scheduled} of 6000 requests were due");
        assert_eq!(scheduled, tally.requests + unsent);
    }

    #[test]
    fn more_connections_than_descriptors_are_refused_before_the_first() {
        raise_descriptor_limit(1).unwrap();
        assert!(raise_descriptor_limit(u32::MAX).is_err());
    }
}
