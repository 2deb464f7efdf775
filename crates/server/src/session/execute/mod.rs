//! Executes commands and returns responses. No other module uses both the wire's commands and the
//! cache.

mod admin;
mod change;
mod cluster;
pub(crate) mod copy;
pub(crate) mod direct;
pub(crate) mod disk_threads;
mod fetch;
mod login;
mod passed;
mod reads;
mod statistics;
mod store;
mod warm;

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::task::{self, Poll};

use larder::{
    Cache, LargeValue, MetaOutcome, MetaUpdate, Miss, Piece, PromotionPolicy, Read, ReadOptions,
    StoreError, Wait, waited,
};
use larder_item::{Deadline, Meta};
use larder_protocol::{ClientError, Command, Frame, Refusal, Response, ServerError, render};
use larder_stats::{ClassCounter, ClassCounters, Counter, Counters};

use crate::followers::Follow;
use crate::log::Log;
use crate::near::Near;
use crate::observe::classes::{Classes, ItemSize};
use crate::observe::dump::Dump;
use crate::observe::hot::{SampleResult, Sampler};
use crate::observe::prefix_stats::Access;
use crate::observe::slow::{Client, TimedRequests};
use crate::observe::watch::Watch;
use crate::server::Server;
use crate::server::statistics::threads::Thread;
use crate::stats::{RowList, StatsResponse};
use crate::waker::{WakeList, Waker};
use crate::warming::WarmSession;
pub(crate) use fetch::is_read;
use store::change_error;

/// Executes commands for one worker, and counts them according to memcached's rules.
#[derive(Debug)]
pub struct Executor {
    server: Arc<Server>,
    cache: Cache,
    counters: Arc<Counters>,
    class_counters: Arc<ClassCounters>,
    /// The descriptor of the connection whose commands are being executed.
    asker: Cell<RawFd>,
    /// The copy of items to which the commands belong that are being executed.
    warm: RefCell<Option<Arc<WarmSession>>>,
    /// True if there is one.
    is_warming: Cell<bool>,
    /// True while the command of a client executes that may change no item.
    only_reads: Cell<bool>,
    /// The log and the classes of the server. A request reaches them here with one indirection
    /// less.
    log: Arc<Log>,
    classes: Arc<Classes>,
    /// Chooses commands for the hot keys.
    sampler: Sampler,
    /// How many reads of copies pass before the next one is reported to the origin.
    copy_reads_skipped: Cell<u32>,
    /// Wakes the worker for a connection; `None` if no worker waits for asynchronous results.
    wakes: Option<Arc<WakeList>>,
    /// The number by which the worker knows the connection whose commands are being executed.
    token: Cell<u64>,
}

/// How to execute a command and render its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// How the operations wait for the disk.
    pub(crate) wait: Wait<'a>,
    /// The form of the response.
    pub(crate) frame: &'a Frame<'a>,
}

impl Call<'_> {
    /// Returns the same call, but its operations read the disk themselves, instead of stopping so
    /// that the caller reads it and executes the command again. Used after a side effect that must
    /// not happen twice.
    fn without_asking(self) -> Self {
        Self { wait: self.wait.without_asking(), ..self }
    }
}

/// The result of a command.
pub(crate) enum CommandResult {
    /// The command is complete.
    Done(Response),
    /// An item was found and its header is written. The pieces of its value follow, of which this
    /// is the first. Then comes [`Response::Hit`].
    Large(Piece, Box<LargeValue>),
    /// A list of items follows.
    Dump(Box<Dump>),
    /// A list of connections or users follows.
    Rows(Box<RowList>),
    /// The session gathers statistics; then comes [`Response::EndOfStats`].
    Gather(Box<StatsResponse>),
    /// A list of the hottest keys follows, if the peer may see it.
    HotKeys,
    /// A list of slow requests follows.
    Slow,
    /// The statistics by prefix follow, if the peer may see them.
    Prefixes,
    /// The connection switches to `watch` mode.
    Watch(Box<Watch>),
    /// The connection becomes a change stream, which begins with this line.
    Follow(Box<Follow>, Vec<u8>),
    /// The peer names its change stream, or fetches an item for a copy, which the session does.
    OfFollower,
    /// The peer requests the cache's memory, which requires permission.
    Region,
    /// The peer reports its reads in the shared memory, which requires permission.
    Reads,
    /// The peer logs in as a user of `--users`, which the session does.
    Login,
    /// The peer requests that the certificate files are read again, which the session does.
    Refresh,
    /// The peer begins or ends a copy of items, which the session does.
    Warm,
    /// The peer names its connection.
    Name,
    /// Nothing. The disk must be read first; then the command must be executed again.
    Pending,
}

impl From<Response> for CommandResult {
    #[inline]
    fn from(response: Response) -> Self {
        Self::Done(response)
    }
}

/// The key that a get reads, and how the get counts.
#[derive(Clone, Copy)]
struct KeyRead<'a> {
    key: &'a [u8],
    with_cas: bool,
    /// The counter of the item's size class that a hit increments.
    hits: ClassCounter,
}

/// The part of the response that a read has appended to the output.
enum RenderedPart {
    /// The item's header and its complete value.
    Item,
    /// The item's header. The value follows in pieces, of which this is the first.
    Head(Piece, Box<LargeValue>),
    /// Nothing: the read is a miss.
    Nothing,
    /// The disk did not return the item.
    Failed(StoreError),
}

impl From<Poll<Response>> for CommandResult {
    #[inline]
    fn from(response: Poll<Response>) -> Self {
        match response {
            Poll::Ready(response) => Self::Done(response),
            Poll::Pending => Self::Pending,
        }
    }
}

impl From<RenderedPart> for CommandResult {
    #[inline]
    fn from(appended: RenderedPart) -> Self {
        match appended {
            RenderedPart::Item => Response::Hit.into(),
            RenderedPart::Head(first, large) => Self::Large(first, large),
            RenderedPart::Nothing => Response::Miss.into(),
            RenderedPart::Failed(error) => change_error(error, ServerError::DiskUnreadable).into(),
        }
    }
}

impl Executor {
    /// Creates the executor of worker number `worker`, counted from 0.
    pub fn new(server: Arc<Server>, worker: usize) -> Self {
        let counters = Arc::clone(server.counters(Thread::Worker(worker)));
        let class_counters = server.statistics.class_tally.worker(worker);
        Self::counting(server, counters, class_counters)
    }

    /// Creates the executor of the admin listener's thread.
    pub(crate) fn of_admin(server: Arc<Server>) -> Self {
        let (counters, class_counters) =
            (Arc::clone(server.counters(Thread::Admin)), server.statistics.class_tally.admin());
        Self::counting(server, counters, class_counters)
    }

    /// Creates the executor of a thread of [`DiskThreads`](disk_threads::DiskThreads). `number`
    /// counts these threads from 0.
    pub(crate) fn of_disk_thread(server: Arc<Server>, number: usize) -> Self {
        let counters = Arc::clone(server.counters(Thread::Disk(number)));
        let class_counters = server.statistics.class_tally.disk_thread(number);
        Self::counting(server, counters, class_counters)
    }

    /// Creates an executor. No other thread writes its counters.
    fn counting(
        server: Arc<Server>,
        counters: Arc<Counters>,
        class_counters: Arc<ClassCounters>,
    ) -> Self {
        let cache = server.cache.clone();
        let asker = Cell::new(NO_CONNECTION);
        let (log, classes) = (Arc::clone(&server.log), Arc::clone(&server.statistics.classes));
        let sampler = server.statistics.hot_keys.sampler();
        let only_reads = Cell::new(false);
        Self {
            server,
            cache,
            counters,
            class_counters,
            asker,
            warm: RefCell::default(),
            is_warming: Cell::new(false),
            only_reads,
            log,
            classes,
            sampler,
            copy_reads_skipped: Cell::new(0),
            wakes: None,
            token: Cell::new(0),
        }
    }

    /// Sets the connection whose commands are executed next.
    pub(crate) fn turn_to(&self, descriptor: RawFd) {
        self.asker.set(descriptor);
    }

    /// Calls `run`, which executes a command of a client that may change no item. The session has
    /// refused commands that always change one. [`Self::fetch`] also claims the recache token of an
    /// item that is stale, which only the read shows.
    pub(crate) fn only_reading<T>(&self, run: impl FnOnce() -> T) -> T {
        self.only_reads.set(true);
        let result = run();
        self.only_reads.set(false);
        result
    }

    /// Allows connections to wait for something other than input, such as watch lines: `wakes`
    /// then wakes the worker.
    pub(crate) fn waking(self, wakes: &Arc<WakeList>) -> Self {
        Self { wakes: Some(Arc::clone(wakes)), ..self }
    }

    /// Names the connection whose commands are executed next.
    pub(crate) fn serve(&self, token: u64) {
        self.token.set(token);
    }

    /// Returns what wakes the current connection; `None` if no worker waits for asynchronous
    /// results.
    pub(crate) fn connection_waker(&self) -> Option<task::Waker> {
        self.wakes.as_ref().map(|wakes| wakes.waker_of(self.token.get()))
    }

    /// Prefetches the memory for commands on these keys, which must follow immediately.
    pub(crate) fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        self.cache.prefetch(keys);
    }

    /// Executes a command. Appends everything before the response to `out`. Stores are executed by
    /// [`Self::store`] instead, because it takes the value.
    #[inline]
    pub(crate) fn execute(
        &self,
        command: &Command<'_>,
        call: Call<'_>,
        out: &mut Vec<u8>,
    ) -> CommandResult {
        match command {
            Command::Get { key, with_cas, exptime: None } => self.get(key, *with_cas, call, out),
            Command::EndOfKeys => Response::EndOfKeys.into(),
            Command::Fetch(fetch) => self.fetch(fetch, call, out),
            _ => self.execute_rarer(command, call, out),
        }
    }

    /// A separate function with a separate stack frame, so that frequent commands do not pay for
    /// the others.
    #[inline(never)]
    fn execute_rarer(
        &self,
        command: &Command<'_>,
        call: Call<'_>,
        out: &mut Vec<u8>,
    ) -> CommandResult {
        let Call { wait, frame } = call;
        let response = match *command {
            Command::Get { key, with_cas, exptime: None } => {
                return self.get(key, with_cas, call, out);
            }
            Command::Get { key, with_cas, exptime: Some(exptime) } => {
                return self.get_and_touch(key, exptime, with_cas, call, out);
            }
            Command::EndOfKeys => Response::EndOfKeys,
            Command::Store(store) => return self.store(&store, b"", call).into(),
            Command::Fetch(fetch) => return self.fetch(&fetch, call, out),
            Command::LeaseGet { key } => return self.lease_get(key, call, out),
            Command::Inspect { key } => return self.inspect(key, call, out).into(),
            Command::NoOp => Response::NoOp,
            Command::Delete(delete) => return self.delete(&delete, call).into(),
            Command::Arithmetic(arithmetic) => return self.arithmetic(&arithmetic, wait).into(),
            Command::Touch { key, exptime } => return self.touch(key, exptime, wait).into(),
            Command::FlushAll { exptime } => self.flush_all(exptime, call),
            Command::DeletePrefix { prefix, base64 } => self.delete_prefix(prefix, base64, out),
            Command::Version => Response::Version,
            Command::Config { name } => self.config(name, frame, out),
            Command::Verbosity { level } => {
                self.log().set_verbosity(u8::try_from(level).map_or(2, |level| level.min(2)));
                Response::Ok
            }
            Command::Stats(section) => return self.statistics(section, call, out),
            Command::RefreshCertificates => return CommandResult::Refresh,
            Command::Mechanisms => self.mechanisms(),
            Command::Authenticate { .. } if self.server.access.users.is_some() => {
                return CommandResult::Login;
            }
            Command::Authenticate { mechanism, credentials, is_step } => {
                self.authenticate(mechanism, credentials, is_step)
            }
            Command::Quit => Response::Close,
            Command::Shutdown { graceful } => self.shutdown(graceful),
            Command::MemoryLimit { mebibytes } => self.set_memory_limit(mebibytes),
            Command::Follow { .. } if self.near().is_some() => Refusal::FollowOfNearCache.into(),
            Command::Follow { .. } | Command::Follower { .. } | Command::Copy(_)
                if !self.server.followers.are_allowed() =>
            {
                ClientError::UnknownCommand.into()
            }
            Command::Follow { max_stale_ms } => return self.follow(max_stale_ms),
            Command::Follower { .. } | Command::Copy(_) => return CommandResult::OfFollower,
            Command::Region if self.server.access.readers.is_some() => {
                return CommandResult::Region;
            }
            Command::Region => ClientError::UnknownCommand.into(),
            Command::NoteReads { .. }
                if self.server.access.readers.is_some() || self.server.followers.are_allowed() =>
            {
                return CommandResult::Reads;
            }
            Command::NoteReads { .. } => ClientError::UnknownCommand.into(),
            Command::Warm(_) => return CommandResult::Warm,
            Command::Name { .. } => return CommandResult::Name,
            Command::Kill(target) => self.kill(target),
            Command::Admin(admin) => return self.admin(&admin, frame, out),
        };
        CommandResult::Done(response)
    }

    #[inline]
    fn get(&self, key: &[u8], with_cas: bool, call: Call<'_>, out: &mut Vec<u8>) -> CommandResult {
        if cluster::may_be_key(key)
            && let Some(response) = self.get_cluster(key, with_cas, call, out)
        {
            return response.into();
        }
        let sought = KeyRead { key, with_cas, hits: ClassCounter::GetHits };
        let Poll::Ready(appended) = self.read(sought, PromotionPolicy::IfReused, call, out) else {
            return CommandResult::Pending;
        };
        self.counters.bump(Counter::CmdGet);
        self.counters.bump(match appended {
            RenderedPart::Nothing | RenderedPart::Failed(_) => Counter::GetMisses,
            RenderedPart::Item | RenderedPart::Head(..) => Counter::GetHits,
        });
        appended.into()
    }

    /// Executes a get that returns a lease on a miss.
    fn lease_get(&self, key: &[u8], call: Call<'_>, out: &mut Vec<u8>) -> CommandResult {
        match self.get(key, false, call, out) {
            CommandResult::Done(Response::Miss) => {
                render::lease(out, key, self.server.leases.ask(key, self.cache.now()));
                Response::Shown.into()
            }
            executed => executed,
        }
    }

    /// Counts as a touch, not as a get. Reads the item first: if the new exptime expires the item,
    /// it is shown for the last time. If there is no memory for the new deadline, the item is not
    /// shown, because the peer must not believe that it lives as long as requested.
    fn get_and_touch(
        &self,
        key: &[u8],
        exptime: i64,
        with_cas: bool,
        call: Call<'_>,
        out: &mut Vec<u8>,
    ) -> CommandResult {
        if cluster::may_be_key(key)
            && let Some(response) = self.get_cluster(key, with_cas, call, out)
        {
            return response.into();
        }
        let start = out.len();
        let sought = KeyRead { key, with_cas, hits: ClassCounter::TouchHits };
        // The touch needs the item in memory.
        let Poll::Ready(mut appended) = self.read(sought, PromotionPolicy::Always, call, out)
        else {
            return CommandResult::Pending;
        };
        self.counters.bump(Counter::CmdTouch);
        let is_hit = matches!(appended, RenderedPart::Item | RenderedPart::Head(..));
        let wait = call.without_asking().wait;
        if is_hit && let Err(error) = self.touch_to(key, self.deadline(exptime), true, wait) {
            out.truncate(start);
            appended = match error {
                StoreError::Journal(_) => RenderedPart::Failed(error),
                _ => {
                    self.counters.bump(Counter::StoreNoMemory);
                    RenderedPart::Nothing
                }
            };
        }
        self.counters.bump(match appended {
            RenderedPart::Nothing | RenderedPart::Failed(_) => Counter::TouchMisses,
            RenderedPart::Item | RenderedPart::Head(..) => Counter::TouchHits,
        });
        appended.into()
    }

    /// Sets a new deadline. Returns false if the item is absent. The item was read just before, so
    /// this reads its record from the disk itself instead of suspending.
    fn touch_to(
        &self,
        key: &[u8],
        deadline: Deadline,
        noted: bool,
        wait: Wait<'_>,
    ) -> Result<bool, StoreError> {
        let update = MetaUpdate { deadline: Some(deadline), noted, ..MetaUpdate::default() };
        let outcome = waited(self.cache.raw(wait).update(key, &update))?;
        Ok(matches!(outcome, MetaOutcome::Done(_)))
    }

    /// Appends an item's header and value, and counts a hit for its class. The value is copied from
    /// the cache to `out` without an intermediate buffer.
    #[inline]
    fn read(
        &self,
        sought: KeyRead<'_>,
        returns: PromotionPolicy,
        Call { wait, frame }: Call<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<RenderedPart> {
        let KeyRead { key, with_cas, hits } = sought;
        let start = out.len();
        for _ in 0..READ_ATTEMPTS_MAX {
            let mut size = ItemSize::default();
            let head = |out: &mut Vec<u8>, meta: &Meta| {
                size = ItemSize::new(key.len(), meta);
                render::hit_head(out, key, meta, with_cas, frame);
            };
            let whole = ReadOptions { noted: true, value: true };
            let Poll::Ready(read) = self.cache.raw(wait).read(key, whole, returns, out, head)
            else {
                return Poll::Pending;
            };
            let appended = match read {
                Read::Hit(_) => RenderedPart::Item,
                Read::Miss(miss) => {
                    self.count_miss(miss);
                    return Poll::Ready(RenderedPart::Nothing);
                }
                Read::Failed(error) => return Poll::Ready(RenderedPart::Failed(error)),
                Read::Large(_, mut large) => match large.take_piece() {
                    Ok(Some(first)) => RenderedPart::Head(first, large),
                    Ok(None) => RenderedPart::Item,
                    // An item that is evicted during the read can be looked up again, because
                    // nothing has been sent yet.
                    Err(_) => {
                        out.truncate(start);
                        continue;
                    }
                },
            };
            self.count_class(size, hits);
            return Poll::Ready(appended);
        }
        Poll::Ready(RenderedPart::Nothing)
    }

    /// Increments a counter of the class for items of this size.
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

    /// Logs and lists requests whose responses are handed over now, if they were slow.
    pub(crate) fn note_timed(&self, requests: TimedRequests, client: impl FnOnce() -> Client) {
        if let Some(slow) = &self.server.statistics.slow {
            slow.judge(requests, &self.counters, client);
        }
    }

    /// Returns the sampler that chooses commands for the hot keys.
    #[inline]
    pub(crate) fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Passes a sampled command to the hot keys, with the bytes of its request and response.
    pub(crate) fn sample(&self, key: Option<&[u8]>, bytes: usize, access: Access) {
        match self.sampler.pass(key, bytes, access) {
            Some(SampleResult::Passed) => self.counters.bump(Counter::HotKeysSampled),
            Some(SampleResult::Lost) => self.counters.bump(Counter::HotKeysLost),
            Some(SampleResult::Off) | None => {}
        }
    }

    /// A flush that the binary protocol refuses is not counted.
    fn flush_all(&self, exptime: i64, Call { wait, frame }: Call<'_>) -> Response {
        let is_allowed = self.server.options.flush_all;
        if is_allowed || !matches!(frame, Frame::Binary(_)) {
            self.counters.bump(Counter::CmdFlush);
        }
        if !is_allowed {
            return ClientError::FlushNotAllowed.into();
        }
        match self.server.flush(self.deadline(exptime), wait) {
            Ok(()) => Response::Ok,
            Err(error) => change_error(error, ServerError::OutOfMemory),
        }
    }

    #[inline]
    pub(crate) fn deadline(&self, exptime: i64) -> Deadline {
        self.cache.deadline(exptime)
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns what wakes the worker; `None` if no worker waits for asynchronous results.
    pub(crate) fn waker(&self) -> Option<&Arc<Waker>> {
        self.wakes.as_deref().map(WakeList::waker)
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Returns the state of the near cache; `None` if this server owns its items.
    #[inline]
    pub(crate) fn near(&self) -> Option<&Near> {
        self.server.near.as_deref()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }
}

/// Returns the response of a command that reads the disk itself and so is never pending.
pub(crate) fn ready(response: Poll<Response>) -> Response {
    match response {
        Poll::Ready(response) => response,
        Poll::Pending => ServerError::DiskBusy.into(),
    }
}

/// The descriptor of an executor that executes no connection's command.
pub(crate) const NO_CONNECTION: RawFd = -1;

/// An item that is evicted during this many reads in a row counts as a miss.
const READ_ATTEMPTS_MAX: usize = 8;
