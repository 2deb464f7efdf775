//! Commands to responses: the only module that knows both the wire's commands and the cache.

mod admin;
mod change;
pub(crate) mod direct;
pub(crate) mod disk_threads;
mod fetch;
mod login;
mod store;

use std::cell::Cell;
use std::os::fd::RawFd;
use std::sync::Arc;

use larder::{
    Asking, Cache, LargeValue, Miss, Piece, Read, ReadOptions, Refusal as Refused, Returns,
    StoreError,
};
use larder_item::{Deadline, KEY_BYTES_MAX, Meta};
use larder_options::AnswersAs;
use larder_protocol::{
    ClientError, Command, Frame, Refusal, Response, ServerError, StatsSection, local, render,
};
use larder_stats::{ClassCounter, ClassCounters, Counter, Counters};

use crate::admin::classes::{Classes, ItemSize};
use crate::admin::dump::Dump;
use crate::admin::hot::{Sampled, Sampler};
use crate::admin::readers::READS_PER_HINT;
use crate::admin::watch::Watch;
use crate::log::Log;
use crate::server::RefreshError;
use crate::server::Server;
use crate::stats::{self, Answer, ConnectionList, Gathering};
use crate::stop::Manner;
use crate::waker::Waker;
pub(crate) use fetch::is_read;
use store::change_error;

/// Executes commands for one worker, and counts them by memcached's rules.
#[derive(Debug)]
pub struct Executor {
    server: Arc<Server>,
    cache: Cache,
    counters: Arc<Counters>,
    class_counters: Arc<ClassCounters>,
    /// The descriptor of the connection whose turn it is.
    asker: Cell<RawFd>,
    /// The log and the classes of the server: one step nearer to requests.
    log: Arc<Log>,
    classes: Arc<Classes>,
    /// Chooses commands for the hot keys.
    sampler: Sampler,
    /// Wakes the worker; `None` if no worker waits for asynchronous results.
    waker: Option<Arc<Waker>>,
    /// True if commands that need the disk are left to the caller, who looks their keys up.
    asks_disk: bool,
    /// True while reads that need the disk are [`Executed::AsksDisk`] instead of waiting for it.
    may_ask: Cell<bool>,
}

/// The result of a command.
pub(crate) enum Executed {
    /// The command is complete.
    Done(Response),
    /// An item was found and its header is written. The pieces of its value follow; this is the
    /// first. Then comes [`Response::Hit`].
    Large(Piece, Box<LargeValue>),
    /// Items will be listed.
    Dump(Box<Dump>),
    /// Connections will be listed.
    Connections(Box<ConnectionList>),
    /// Statistics will be gathered; then comes [`Response::EndOfStats`].
    Gather(Box<Gathering>),
    /// The hottest keys will be listed, if the peer may see them.
    HotKeys,
    /// The connection switches to `watch` mode.
    Watch(Box<Watch>),
    /// The peer requests the cache's memory, which requires permission.
    Region,
    /// The peer reports its reads in the shared memory, which requires permission.
    Reads,
    /// Nothing: the disk must be asked for the item first.
    AsksDisk,
}

impl From<Response> for Executed {
    #[inline]
    fn from(response: Response) -> Self {
        Self::Done(response)
    }
}

/// What a read has appended to the output.
enum Appended {
    /// The item's header and its whole value.
    Item,
    /// The item's header. Its value follows in pieces; this is the first.
    Head(Piece, Box<LargeValue>),
    Nothing,
    /// The disk did not return the item.
    Failed(StoreError),
}

impl Appended {
    /// True if the disk must be asked for the item first.
    fn asks_disk(&self) -> bool {
        matches!(self, Self::Failed(StoreError::Journal(Refused::AskDisk)))
    }
}

impl From<Appended> for Executed {
    #[inline]
    fn from(appended: Appended) -> Self {
        match appended {
            Appended::Item => Response::Hit.into(),
            Appended::Head(first, large) => Self::Large(first, large),
            Appended::Nothing => Response::Miss.into(),
            Appended::Failed(error) => change_error(error, ServerError::DiskUnreadable).into(),
        }
    }
}

impl Executor {
    /// Creates the executor of a worker, counted from 0.
    pub fn new(server: Arc<Server>, worker: usize) -> Self {
        let counters = server.worker_counters(worker);
        let class_counters = server.class_tally.worker(worker);
        Self::counting(server, counters, class_counters)
    }

    /// Creates the executor of the admin listener's thread.
    pub(crate) fn of_admin(server: Arc<Server>) -> Self {
        let (counters, class_counters) =
            (Arc::clone(server.admin_counters()), server.class_tally.admin());
        Self::counting(server, counters, class_counters)
    }

    /// Creates the executor of a thread that may wait for the disk, counted from 0.
    pub(crate) fn of_disk_thread(server: Arc<Server>, number: usize) -> Self {
        let counters = server.disk_thread_counters(number);
        let class_counters = server.class_tally.disk_thread(number);
        Self { asks_disk: false, ..Self::counting(server, counters, class_counters) }
    }

    /// Creates an executor of a thread, which alone writes these counters.
    fn counting(
        server: Arc<Server>,
        counters: Arc<Counters>,
        class_counters: Arc<ClassCounters>,
    ) -> Self {
        let cache = server.cache.clone();
        let asker = Cell::new(NO_CONNECTION);
        let (log, classes) = (Arc::clone(&server.log), Arc::clone(&server.classes));
        let sampler = server.hot_keys.sampler();
        let (waker, asks_disk) = (None, cache.tier().is_some());
        Self {
            server,
            cache,
            counters,
            class_counters,
            asker,
            log,
            classes,
            sampler,
            waker,
            asks_disk,
            may_ask: Cell::new(false),
        }
    }

    /// Sets the connection whose commands follow.
    pub(crate) fn turn_to(&self, descriptor: RawFd) {
        self.asker.set(descriptor);
    }

    /// Lets connections wait for more than input: `waker` wakes the worker.
    pub(crate) fn waking(self, waker: &Arc<Waker>) -> Self {
        Self { waker: Some(Arc::clone(waker)), ..self }
    }

    /// Prefetches the memory for commands on these keys, which must follow at once.
    pub(crate) fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        self.cache.prefetch(keys);
    }

    /// Executes a command. Appends everything before the response to `out`. A store is executed by
    /// [`Self::store`] instead, which takes its value.
    #[inline]
    pub(crate) fn execute(
        &self,
        command: &Command<'_>,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Executed {
        match command {
            Command::Get { key, with_cas, exptime: None } => self.get(key, *with_cas, frame, out),
            Command::EndOfKeys => Response::EndOfKeys.into(),
            Command::Fetch(fetch) => self.fetch(fetch, frame, out),
            _ => self.execute_rarer(command, frame, out),
        }
    }

    /// A function of its own, outside its caller's stack frame: frequent commands must not pay for
    /// the others.
    #[inline(never)]
    fn execute_rarer(
        &self,
        command: &Command<'_>,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Executed {
        let response = match *command {
            Command::Get { key, with_cas, exptime: None } => {
                return self.get(key, with_cas, frame, out);
            }
            Command::Get { key, with_cas, exptime: Some(exptime) } => {
                return self.get_and_touch(key, exptime, with_cas, frame, out);
            }
            Command::EndOfKeys => Response::EndOfKeys,
            Command::Store(store) => self.store(&store, b"", frame),
            Command::Fetch(fetch) => return self.fetch(&fetch, frame, out),
            Command::LeaseGet { key } => return self.lease_get(key, frame, out),
            Command::Inspect { key } => self.inspect(key, frame, out),
            Command::NoOp => Response::NoOp,
            Command::Delete(delete) => self.delete(&delete, frame),
            Command::Arithmetic(arithmetic) => self.arithmetic(&arithmetic),
            Command::Touch { key, exptime } => self.touch(key, exptime),
            Command::FlushAll { exptime } => self.flush_all(exptime, frame),
            Command::DeletePrefix { prefix, base64 } => self.delete_prefix(prefix, base64, out),
            Command::Version => Response::Version,
            Command::Verbosity { level } => {
                self.log().set_verbosity(u8::try_from(level).map_or(2, |level| level.min(2)));
                Response::Ok
            }
            Command::Stats(StatsSection::Connections) => {
                let list = ConnectionList::begin(&self.server, self.asker.get(), frame);
                return Executed::Connections(Box::new(list));
            }
            Command::Stats(StatsSection::HotKeys) => match self.server.options.dump {
                true => return Executed::HotKeys,
                false => Refusal::HotKeysNotAllowed.into(),
            },
            Command::Stats(section) => match stats::answer(&self.server, section, frame, out) {
                Answer::Done(response) => response,
                Answer::Gather(gathering) => return Executed::Gather(gathering),
            },
            Command::RefreshCertificates => match self.server.refresh_certificates(true) {
                Ok(()) => Response::Ok,
                Err(RefreshError::NoTls) => ServerError::NoTls.into(),
                Err(RefreshError::Unusable) => ServerError::CertificatesUnusable.into(),
            },
            Command::Mechanisms => self.mechanisms(),
            Command::Authenticate { mechanism, credentials, is_step } => {
                self.authenticate(mechanism, credentials, is_step)
            }
            Command::Quit => Response::Close,
            Command::Shutdown { graceful } => self.shutdown(graceful),
            Command::MemoryLimit { mebibytes } => self.set_memory_limit(mebibytes),
            Command::Region if self.server.readers.is_some() => return Executed::Region,
            Command::Region => ClientError::UnknownCommand.into(),
            Command::NoteReads { .. } if self.server.readers.is_some() => return Executed::Reads,
            Command::NoteReads { .. } => ClientError::UnknownCommand.into(),
            Command::Admin(admin) => return self.admin(&admin, frame, out),
        };
        Executed::Done(response)
    }

    #[inline]
    fn get(&self, key: &[u8], with_cas: bool, frame: &Frame<'_>, out: &mut Vec<u8>) -> Executed {
        let appended = self.read(key, with_cas, ClassCounter::GetHits, frame, out);
        if appended.asks_disk() {
            return Executed::AsksDisk;
        }
        self.counters.bump(Counter::CmdGet);
        self.counters.bump(match appended {
            Appended::Nothing | Appended::Failed(_) => Counter::GetMisses,
            Appended::Item | Appended::Head(..) => Counter::GetHits,
        });
        appended.into()
    }

    /// A get that returns a lease on a miss.
    fn lease_get(&self, key: &[u8], frame: &Frame<'_>, out: &mut Vec<u8>) -> Executed {
        match self.get(key, false, frame, out) {
            Executed::Done(Response::Miss) => {
                render::lease(out, key, self.server.leases.ask(key, self.cache.now()));
                Response::Shown.into()
            }
            executed => executed,
        }
    }

    /// Counts as a touch, not as a get. Reads the item first: an item that expires by its new
    /// exptime is shown for the last time. If there is no memory for the new deadline, the item is
    /// not shown: the peer must not believe that the item lives as long as requested.
    fn get_and_touch(
        &self,
        key: &[u8],
        exptime: i64,
        with_cas: bool,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Executed {
        self.counters.bump(Counter::CmdTouch);
        let start = out.len();
        let mut appended = self.read(key, with_cas, ClassCounter::TouchHits, frame, out);
        let is_hit = matches!(appended, Appended::Item | Appended::Head(..));
        if is_hit && let Err(error) = self.cache.touch_until(key, self.deadline(exptime)) {
            out.truncate(start);
            appended = match error {
                StoreError::Journal(_) => Appended::Failed(error),
                _ => {
                    self.counters.bump(Counter::StoreNoMemory);
                    Appended::Nothing
                }
            };
        }
        self.counters.bump(match appended {
            Appended::Nothing | Appended::Failed(_) => Counter::TouchMisses,
            Appended::Item | Appended::Head(..) => Counter::TouchHits,
        });
        appended.into()
    }

    /// Appends an item's header and value, and counts a hit for its class. The value is copied from
    /// the cache to `out` without an intermediate buffer.
    #[inline]
    fn read(
        &self,
        key: &[u8],
        with_cas: bool,
        hits: ClassCounter,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Appended {
        let start = out.len();
        for _ in 0..READ_ATTEMPTS_MAX {
            let mut size = ItemSize::default();
            let head = |out: &mut Vec<u8>, meta: &Meta| {
                size = ItemSize::new(key.len(), meta);
                render::hit_head(out, key, meta, with_cas, frame);
            };
            let whole = ReadOptions { noted: true, value: true };
            let read = match hits {
                ClassCounter::GetHits if self.may_ask.get() => {
                    self.cache.read_at_once(key, (whole, Returns::IfReused), out, head)
                }
                // What is touched next has to be in memory.
                _ => self.cache.read_as(key, whole, out, head),
            };
            let appended = match read {
                Read::Hit(_) => Appended::Item,
                Read::Miss(miss) => {
                    self.count_miss(miss);
                    return Appended::Nothing;
                }
                Read::Failed(error) => return Appended::Failed(error),
                Read::Large(_, mut large) => match large.take_piece() {
                    Ok(Some(first)) => Appended::Head(first, large),
                    Ok(None) => Appended::Item,
                    // An item that is evicted during the read can be looked up again as long as
                    // nothing has been sent.
                    Err(_) => {
                        out.truncate(start);
                        continue;
                    }
                },
            };
            self.count_class(size, hits);
            return appended;
        }
        Appended::Nothing
    }

    /// Bumps a counter of the class for items of this size.
    #[inline]
    fn count_class(&self, size: ItemSize, counter: ClassCounter) {
        self.class_counters.bump(self.classes.class_of(size), counter);
    }

    fn count_miss(&self, miss: Miss) {
        match miss {
            Miss::Absent => {}
            Miss::Expired => self.counters.bump(Counter::GetExpired),
            Miss::Flushed => self.counters.bump(Counter::GetFlushed),
        }
    }

    /// Returns the choice of commands for the hot keys.
    #[inline]
    pub(crate) fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Passes on a command that was chosen, with the bytes of request and response.
    pub(crate) fn sample(&self, key: Option<&[u8]>, bytes: usize) {
        match self.sampler.pass(key, bytes) {
            Some(Sampled::Passed) => self.counters.bump(Counter::HotKeysSampled),
            Some(Sampled::Lost) => self.counters.bump(Counter::HotKeysLost),
            Some(Sampled::Off) | None => {}
        }
    }

    /// Records reads that the peer made in shared memory: each hint counts as several reads, for
    /// eviction and for the statistics.
    pub(crate) fn note_reads(&self, keys: &[u8]) {
        let (mut bytes, mut decoded, mut ends) = ([0; KEY_BYTES_MAX], Vec::new(), vec![0]);
        for word in local::keys(keys) {
            if let Some(key) = local::decode(word, &mut bytes) {
                decoded.extend_from_slice(key);
                ends.push(decoded.len());
            }
        }
        let keys = || ends.windows(2).map(|ends| &decoded[ends[0]..ends[1]]);
        // Their memory accesses overlap.
        self.prefetch(keys());
        let (mut out, noted) = (Vec::new(), ReadOptions { noted: true, value: false });
        for key in keys() {
            // It was evicted since, and a hint is not worth a read of the disk.
            if self.cache.asks_disk(key, Asking::Reads) {
                continue;
            }
            if let Read::Hit(meta) = self.cache.read_as(key, noted, &mut out, |_, _| ()) {
                let reads = u64::from(READS_PER_HINT);
                for counter in [Counter::CmdGet, Counter::GetHits, Counter::LocalReads] {
                    self.counters.add(counter, reads);
                }
                for _ in 0..reads {
                    self.count_class(ItemSize::new(key.len(), &meta), ClassCounter::GetHits);
                    if self.sampler.is_due() {
                        self.sample(Some(key), key.len() + meta.value_bytes);
                    }
                }
            }
        }
    }

    /// A flush that the binary protocol refuses is not counted.
    fn flush_all(&self, exptime: i64, frame: &Frame<'_>) -> Response {
        let is_allowed = self.server.options.flush_all;
        if is_allowed || !matches!(frame, Frame::Binary(_)) {
            self.counters.bump(Counter::CmdFlush);
        }
        if !is_allowed {
            return ClientError::FlushNotAllowed.into();
        }
        match self.server.flush(self.deadline(exptime)) {
            Ok(()) => Response::Ok,
            Err(error) => change_error(error, ServerError::OutOfMemory),
        }
    }

    fn set_memory_limit(&self, mebibytes: u64) -> Response {
        match self.server.set_memory_limit(mebibytes) {
            Ok(()) => Response::Ok,
            Err(_) => ServerError::MemoryLimitFixed.into(),
        }
    }

    fn shutdown(&self, graceful: bool) -> Response {
        if !self.server.options.shutdown {
            return match self.server.options.answers_as {
                AnswersAs::V1_6_45 => ServerError::ShutdownNotEnabled.into(),
                AnswersAs::V1_6_18 => ServerError::ShutdownNotEnabledOlder.into(),
            };
        }
        self.server.stop.request(if graceful { Manner::Graceful } else { Manner::Now });
        Response::Close
    }

    #[inline]
    pub(crate) fn deadline(&self, exptime: i64) -> Deadline {
        self.cache.deadline(exptime)
    }

    /// True if commands that need the disk are left to the caller.
    pub(crate) fn asks_disk(&self) -> bool {
        self.asks_disk
    }

    /// Says whether reads that need the disk are [`Executed::AsksDisk`] instead of waiting for it.
    pub(crate) fn let_ask(&self, may_ask: bool) {
        self.may_ask.set(may_ask);
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }
}

/// The descriptor of no connection.
pub(crate) const NO_CONNECTION: RawFd = -1;

/// An item that is evicted during this many reads in a row counts as a miss.
const READ_ATTEMPTS_MAX: usize = 8;
