//! The near thread of an origin, which has all connections to it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use larder::copies::{CopyStore as _, FetchFailure, FlightResult, NotKept};
use larder_protocol::follow::{self, Message, Terms};
use larder_protocol::{ServerError, local};
use larder_stats::Counter;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;

use super::job::{Concerned, Job};
use super::links::dial::{DialError, Dialed};
use super::links::link::{
    Arrival, Link, LinkState, Lost, Pending, PendingRequest, ReceiveTerms, push_follower,
};
use super::links::{CLASSES, LINKS, LINKS_OF, REPORT, STREAM, class_of, pending_max, role_of};
use super::{Near, Origin, Reach, boot_ms, is_plain, millis};

/// The near threads, one for each origin. They end when this is dropped, which must be after the
/// workers have ended.
#[derive(Debug)]
pub(crate) struct NearThreads {
    _threads: Vec<NearThread>,
}

impl NearThreads {
    /// Starts the threads; none without a near cache.
    ///
    /// # Errors
    /// Fails if no file descriptors or threads are left.
    pub(crate) fn start(near: Option<&Arc<Near>>) -> io::Result<Self> {
        let origins = near.map(|near| near.origins()).unwrap_or_default();
        let threads = origins.iter().map(NearThread::start).collect::<Result<_, _>>()?;
        Ok(Self { _threads: threads })
    }
}

/// The near thread of an origin. It ends when this is dropped.
#[derive(Debug)]
struct NearThread {
    origin: Arc<Origin>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NearThread {
    fn start(origin: &Arc<Origin>) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut run = Loop::new(Arc::clone(origin))?;
        let ends = Arc::clone(&is_over);
        let thread = Builder::new().name("near".to_owned()).spawn(move || {
            while !ends.load(SeqCst) {
                run.turn();
            }
            run.end();
        })?;
        Ok(Self { origin: Arc::clone(origin), is_over, thread: Some(thread) })
    }
}

impl Drop for NearThread {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        self.origin.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is in the log.
            let _ = thread.join();
        }
    }
}

/// The results of attempts to connect, each with the number of its link.
type Dialings = Arc<Mutex<Vec<(usize, Result<Dialed, DialError>)>>>;

/// The state of the thread.
pub(super) struct Loop {
    pub(super) origin: Arc<Origin>,
    pub(super) epoll: OwnedFd,
    pub(super) links: Vec<Link>,
    pub(super) dialings: Dialings,
    /// Jobs that no link has taken yet, each with its deadline, by their class.
    pub(super) waiting: [VecDeque<(Job, u64)>; CLASSES],
    pub(super) stream: Option<Stream>,
    buffer: Vec<u8>,
    /// When reads are reported next.
    next_report_ms: u64,
    /// True once the origin has answered whether it reports changes. Before, nothing is passed to
    /// it: if it were a near cache of this server, commands would circulate.
    pub(super) is_known: bool,
    /// The last trouble that the log contains, so that it is not repeated.
    pub(super) logged: Option<String>,
}

/// The change stream.
pub(super) struct Stream {
    pub(super) terms: Terms,
    /// The numbers of the `alive` lines that the origin has not answered. Each is the time at which
    /// the line was sent.
    pub(super) asked: VecDeque<u64>,
    pub(super) next_alive_ms: u64,
}

impl Loop {
    fn new(origin: Arc<Origin>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(WAKER);
        // Edge-triggered, so that no event has to be reset.
        epoll::add(&epoll, &*origin.waker, data, EventFlags::IN | EventFlags::ET)?;
        // Copies of an earlier process would never be dropped.
        origin.copies.resubscribe();
        Ok(Self {
            origin,
            epoll,
            links: (0..LINKS).map(|link| Link::new(role_of(link))).collect(),
            dialings: Arc::default(),
            waiting: Default::default(),
            stream: None,
            buffer: vec![0; BUFFER_BYTES],
            next_report_ms: 0,
            is_known: false,
            logged: None,
        })
    }

    /// Waits for events, then does everything that is due.
    fn turn(&mut self) {
        let none = epoll::Event { flags: EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; LINKS + 1];
        let timeout = self.timeout();
        let count = match epoll::wait(&self.epoll, &mut events[..], Some(&timeout)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => panic!("the near thread cannot wait: {error}"),
        };
        // An answer that has arrived before this time does not count as late, even if this turn
        // takes long because it drops many copies.
        let woken_ms = boot_ms();
        for event in &events[..count] {
            match event.data.u64() {
                WAKER => {}
                link => self.note_ready(link as usize),
            }
        }
        let now_ms = boot_ms();
        self.obey_succession();
        self.take_jobs(now_ms);
        self.go_on_receiving();
        self.take_dialed(now_ms);
        self.dispatch(now_ms);
        self.ask_alive(now_ms);
        self.refresh_timed(now_ms);
        self.report_reads(now_ms);
        self.give_up(woken_ms);
        self.dial(now_ms);
        self.flush();
    }

    /// Drops all copies before a successor of this process starts, which would have others. Begins
    /// again if the upgrade is given up.
    fn obey_succession(&mut self) {
        // Rule: OneProcessTells
        let retires = self.origin.succession.has_successor();
        if retires == self.origin.has_retired() {
            return;
        }
        if retires {
            self.origin.set_stream(None);
            self.origin.set_timed(false);
            self.lose(STREAM, &Lost::Retired);
            self.origin.copies.resubscribe();
        }
        self.origin.set_retired(retires);
    }

    /// Returns how long the thread may wait.
    fn timeout(&self) -> Timespec {
        let now_ms = boot_ms();
        let is_busy = self.is_waiting() || self.links.iter().any(|link| !link.pending.is_empty());
        let alive_ms = self.stream.as_ref().map(|stream| stream.next_alive_ms);
        let wait_ms = alive_ms.map_or(IDLE_MS, |at| at.saturating_sub(now_ms).min(IDLE_MS));
        let wait_ms = if is_busy { wait_ms.min(BUSY_MS) } else { wait_ms };
        let nanos = wait_ms % 1000 * 1_000_000;
        Timespec { tv_sec: (wait_ms / 1000) as i64, tv_nsec: nanos as _ }
    }

    fn take_jobs(&mut self, now_ms: u64) {
        let deadline_ms = now_ms + millis(self.origin.options.timeout);
        for job in self.origin.take_jobs() {
            self.waiting[class_of(&job)].push_back((job, deadline_ms));
        }
        let waiting = self.waiting.iter().map(VecDeque::len).sum();
        self.origin.waiting.store(waiting, Relaxed);
        for key in self.origin.take_departed() {
            if let Some(place) = self.origin.place_of(&key) {
                self.origin.copies.forget(place, &key);
            }
        }
    }

    fn is_waiting(&self) -> bool {
        self.waiting.iter().any(|jobs| !jobs.is_empty())
    }

    fn note_ready(&mut self, number: usize) {
        let Some(link) = self.links.get_mut(number) else { return };
        if link.paused_since.is_some() {
            return;
        }
        let now_ms = boot_ms();
        let terms = ReceiveTerms {
            value_bytes_max: self.origin.options.value_bytes_max,
            deadline_ms: now_ms + millis(self.origin.options.timeout),
            ttl_ms: millis(self.origin.options.ttl),
        };
        let mut arrivals = Vec::new();
        let received = link.receive(&mut self.buffer, terms, |arrival| arrivals.push(arrival));
        // What has arrived before the end counts.
        for arrival in arrivals {
            self.take(arrival);
        }
        if let Err(lost) = received {
            return self.lose(number, &lost);
        }
        let link = &mut self.links[number];
        if link.is_held_up() {
            link.paused_since = Some(now_ms);
            self.await_events(number);
        }
    }

    /// Receives again on links whose clients have taken their answers, or have left.
    fn go_on_receiving(&mut self) {
        for number in 0..self.links.len() {
            let link = &mut self.links[number];
            if link.paused_since.is_some() && !link.is_held_up() {
                link.paused_since = None;
                self.await_events(number);
                self.note_ready(number);
            }
        }
    }

    fn take(&mut self, arrival: Arrival) {
        let origin = &self.origin;
        match arrival {
            Arrival::Message(Message::Changed(bucket)) => {
                origin.counters.bump(Counter::NearChanges);
                let dropped = origin.copies.invalidate_bucket(bucket);
                origin.counters.add(Counter::NearDropped, dropped as u64);
            }
            Arrival::Message(Message::Flushed) => {
                origin.counters.bump(Counter::NearFlushes);
                origin.copies.invalidate_all();
            }
            Arrival::Message(Message::Heard(number)) => self.note_heard(number),
            // Rule: LateIsIgnored
            Arrival::Fetched { is_late: true, .. } => {}
            Arrival::Fetched { flight, result, is_late: false } => {
                if let FlightResult::Value(item) = &result {
                    origin.counters.add(Counter::NearFetchedBytes, item.value.len() as u64);
                }
                let place = origin.place_of(flight.key()).unwrap_or(flight.place());
                origin.counters.bump(landing(origin.copies.land(&flight, place, result)));
            }
            Arrival::Answered { pass, part, is_first, is_last } => {
                // The origin has executed the command before it sends the first part.
                if is_first {
                    self.invalidate(&pass.concerned);
                }
                pass.answer.add(part, is_last);
            }
        }
    }

    /// Drops the copies that a passed command concerns, before its client sees the answer.
    pub(super) fn invalidate(&self, concerned: &Concerned) {
        // Rule: AnswerInvalidates
        // Rule: FlushInvalidates
        match concerned {
            Concerned::Key(key) => {
                if let Some(place) = self.origin.place_of(key) {
                    self.origin.copies.invalidate_key(place, key);
                }
            }
            Concerned::All => self.origin.copies.invalidate_all(),
        }
    }

    fn note_heard(&mut self, number: u64) {
        let Some(stream) = &mut self.stream else { return };
        // An answer to a line that was never sent would prove nothing.
        if let Some(at) = stream.asked.iter().position(|asked| *asked == number) {
            stream.asked.drain(..=at);
            // Rule: FreshFromSending
            self.origin.copies.refresh(number + millis(self.origin.options.stale_max));
        }
    }

    /// Passes waiting jobs to links, as far as these accept them.
    fn dispatch(&mut self, now_ms: u64) {
        for class in 0..CLASSES {
            while let Some((job, deadline_ms)) = self.waiting[class].pop_front() {
                if let Some(number) = self.link_for(class) {
                    self.send(number, job, deadline_ms);
                } else if deadline_ms <= now_ms || self.is_hopeless() {
                    self.refuse(job);
                } else {
                    // Those behind it came later, and need the same links.
                    self.waiting[class].push_front((job, deadline_ms));
                    break;
                }
            }
        }
    }

    /// True if no link will accept a job soon.
    fn is_hopeless(&self) -> bool {
        self.origin.reach() == Reach::Unreachable && !self.any_up()
    }

    pub(super) fn any_up(&self) -> bool {
        self.links.iter().any(|link| link.is_up() && link.is_proven())
    }

    /// Returns the link for a job of this class; `None` if the job must wait.
    fn link_for(&mut self, class: usize) -> Option<usize> {
        let range = LINKS_OF[class].clone();
        let accepts = |link: &Link| {
            link.is_up() && link.paused_since.is_none() && link.pending.len() < pending_max(class)
        };
        let best = range
            .clone()
            .filter(|number| accepts(&self.links[*number]))
            .min_by_key(|number| self.links[*number].pending.len());
        // Links that are rarely needed connect when they are.
        if best.is_none()
            && let Some(number) = range.into_iter().find(|number| !self.links[*number].is_up())
        {
            self.links[number].is_wanted = true;
        }
        best
    }

    fn send(&mut self, number: usize, job: Job, deadline_ms: u64) {
        let link = &mut self.links[number];
        let of = match job {
            Job::Fetch(flight) if self.origin.is_timed() && !is_plain(flight.key()) => {
                self.origin.copies.give_up(&flight, FlightResult::Uncopied);
                return;
            }
            Job::Fetch(flight) if self.origin.is_timed() => {
                link.push(|out| push_gets(out, flight.key()));
                self.origin.counters.bump(Counter::NearFetches);
                PendingRequest::Gets(flight)
            }
            Job::Fetch(flight) => {
                let value_bytes_max = self.origin.options.value_bytes_max;
                link.push(|out| follow::push_fetch(out, flight.key(), value_bytes_max));
                self.origin.counters.bump(Counter::NearFetches);
                PendingRequest::Fetch(flight)
            }
            Job::Pass(pass, request) => {
                request.parts.into_iter().for_each(|part| link.push_part(part));
                PendingRequest::Pass(pass)
            }
        };
        link.pending.push_back(Pending { of, deadline_ms });
    }

    /// Fails a job that was not sent.
    fn refuse(&self, job: Job) {
        self.origin.counters.bump(Counter::NearUnreachable);
        match job {
            Job::Fetch(flight) => {
                self.origin
                    .copies
                    .give_up(&flight, FlightResult::Failed(FetchFailure::Unreachable));
            }
            Job::Pass(pass, _) => pass.answer.fail(ServerError::OriginUnreachable),
        }
    }

    /// Sends `alive` when it is due.
    fn ask_alive(&mut self, now_ms: u64) {
        let Some(stream) = &mut self.stream else { return };
        if now_ms < stream.next_alive_ms || stream.asked.back() == Some(&now_ms) {
            return;
        }
        stream.asked.push_back(now_ms);
        stream.next_alive_ms = now_ms + millis(self.origin.options.stale_max) / ALIVE_PART;
        self.links[STREAM].push(|out| follow::push_alive(out, now_ms));
    }

    /// Lets copies be used that the origin does not report changes of, while this thread runs: they
    /// expire by themselves.
    fn refresh_timed(&self, now_ms: u64) {
        if self.origin.is_timed() {
            self.origin.copies.refresh(now_ms + millis(self.origin.options.ttl));
        }
    }

    /// Reports some of the reads that copies have answered, so that the origin does not evict items
    /// that it does not see being read. The origin does not answer these lines.
    fn report_reads(&mut self, now_ms: u64) {
        if now_ms < self.next_report_ms {
            return;
        }
        self.next_report_ms = now_ms + REPORT_MS;
        let hints = self.origin.take_hints();
        let Some(stream) = &self.stream else { return };
        let link = &mut self.links[REPORT];
        if hints.is_empty() || !link.is_up() || link.has_output() {
            link.is_wanted |= !hints.is_empty();
            return;
        }
        link.push(|out| {
            // Names the stream each time, because it may be another one.
            push_follower(out, &stream.terms);
            for keys in hints.chunks(HINTS_PER_LINE) {
                out.extend_from_slice(local::HINT);
                keys.iter().for_each(|key| local::push_key(out, key));
                out.extend_from_slice(b"\r\n");
            }
        });
    }

    fn flush(&mut self) {
        let deadline_ms = boot_ms() + millis(self.origin.options.timeout) + BUFFERED_MS;
        for number in 0..self.links.len() {
            let link = &mut self.links[number];
            if !link.is_up() || !link.has_output() {
                continue;
            }
            match link.flush(deadline_ms) {
                Ok(()) => self.await_events(number),
                Err(lost) => self.lose(number, &lost),
            }
        }
    }

    /// Makes the poller wait for the events that a link needs.
    fn await_events(&mut self, number: usize) {
        let link = &mut self.links[number];
        let LinkState::Up(socket) = &link.state else { return };
        let events = link.events();
        if events == link.awaited {
            return;
        }
        let data = epoll::EventData::new_u64(number as u64);
        match epoll::modify(&self.epoll, socket, data, events) {
            Ok(()) => link.awaited = events,
            Err(error) => {
                let lost = Lost::Io(error.into());
                self.lose(number, &lost);
            }
        }
    }

    /// Ends the use of copies, and fails everything that is under way.
    fn end(&mut self) {
        // Programs that have mapped the memory must not read a copy that the next near cache, which
        // they do not know yet, has replaced.
        self.origin.copies.store().limit_readers(0);
        for job in self.origin.take_jobs() {
            self.refuse(job);
        }
        for (job, _) in self.waiting.iter_mut().flat_map(std::mem::take).collect::<Vec<_>>() {
            self.refuse(job);
        }
        for number in 0..self.links.len() {
            for pending in std::mem::take(&mut self.links[number].pending) {
                self.fail(&pending.of);
            }
        }
    }
}

/// Appends a request for an item with its cas token.
fn push_gets(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"gets ");
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n");
}

/// Returns the counter of a fetch that has ended.
fn landing(kept: Result<(), NotKept>) -> Counter {
    match kept {
        Ok(()) => Counter::NearKept,
        Err(NotKept::Detached) => Counter::NearRefusedDetached,
        Err(NotKept::Unsubscribed) => Counter::NearRefusedUnsubscribed,
        Err(NotKept::Unnoted) => Counter::NearRefusedUnnoted,
        Err(NotKept::Expiring) => Counter::NearRefusedExpiring,
        Err(NotKept::Uncopied | NotKept::Failed) => Counter::NearRefusedUncopied,
        Err(NotKept::NoMemory) => Counter::NearRefusedNoMemory,
    }
}

/// The number of the waker among the events.
const WAKER: u64 = u64::MAX;

/// How long the network may take for the last bytes of a large value after the socket has accepted
/// them.
const BUFFERED_MS: u64 = 2000;

/// How often `alive` is sent in `--near-max-stale`.
const ALIVE_PART: u64 = 4;

/// The longest wait of the thread, without and with requests that may time out.
const IDLE_MS: u64 = 100;
const BUSY_MS: u64 = 5;

/// The pause between reports of reads.
const REPORT_MS: u64 = 100;

/// The keys in a line of reads. A line may have 2048 bytes, and a key 336 in base64.
const HINTS_PER_LINE: usize = 6;

const BUFFER_BYTES: usize = 64 * 1024;
