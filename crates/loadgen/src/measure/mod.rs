//! Runs all threads of a load, from the first connection to the last answer.

pub(crate) mod effort;
pub(crate) mod live;
pub(crate) mod load;
pub(crate) mod pin;
pub(crate) mod series;
pub(crate) mod stop;
pub(crate) mod tally;

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
use crate::measure::tally::{Second, Tally};
use crate::options::LoadArguments;
use crate::request::ask::{Ask, Source};
use crate::request::draw::{Draw, Pool};
use crate::request::schedule::Schedule;
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
pub(crate) struct Measured {
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

    /// Stores all keys over one connection if the load measures gets.
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
        // A lost connection would lose a key, and gets would miss it later.
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
    pub(crate) fn measure(&self, live: &mut Live) -> Result<Measured> {
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
        Ok(Measured { tally, series, key_count: self.pool.key_count() })
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
            // Another thread returns the reason.
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

/// Raises the descriptor limit so that each connection gets a descriptor.
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
