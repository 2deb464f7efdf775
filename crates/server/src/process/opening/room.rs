//! The thread that serves connections while the cache opens.

use std::fmt;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use larder_options::Options;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{self, Errno};
use rustix::net::{SocketFlags, accept_with};

use super::exchange::Status;
use super::guest::{Awaits, Guest};
use crate::clock::unix_secs;
use crate::net::inbox::{NewConnection, Transport};
use crate::net::sockets::Socket;
use crate::net::terms::ListenerTerms;
use crate::process::supervisor::Supervisor;
use crate::server::progress::Progress;
use crate::waker::Waker;

/// A function that receives the connections once the cache is open, and passes them to the workers.
pub(super) type Guests = Box<dyn Fn(NewConnection) + Send>;

/// A cache that is being opened.
#[derive(Debug)]
pub(crate) struct Opening {
    shared: Arc<Shared>,
}

/// The state that the opening process shares with the thread.
struct Shared {
    waker: Waker,
    /// Set when the cache is open.
    taker: Mutex<Option<Guests>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Opening {
    /// Serves connections once the opening has taken so long that clients should not wait any
    /// longer. At that point also tells the service manager that the sockets respond.
    ///
    /// Does not accept from sockets with TLS, or from sockets whose clients must log in. Those
    /// clients wait in the kernel.
    ///
    /// # Errors
    /// Fails if no descriptors or threads are left.
    pub(crate) fn begin(
        options: &Options,
        sockets: &[Socket],
        progress: &Progress,
        supervisor: &Supervisor,
    ) -> std::io::Result<Self> {
        let has_logins = options.needs_login();
        let is_plain = |socket: &&Socket| {
            let terms = socket.terms;
            !terms.is_encrypted() && (!has_logins || terms.needs_no_login)
        };
        let doors = sockets.iter().filter(is_plain).map(Door::of).collect::<Result<_, _>>()?;
        let shared = Arc::new(Shared { waker: Waker::new()?, taker: Mutex::default() });
        let room = Room {
            shared: Arc::clone(&shared),
            doors,
            guests: Vec::new(),
            guests_max: options.connection_count_max,
            patience: options.disk_tier.as_ref().map(|tier| tier.wait).unwrap_or_default(),
            progress: progress.clone(),
            supervisor: supervisor.try_clone()?,
            begun: Instant::now(),
        };
        thread::Builder::new().name("opening".to_owned()).spawn(move || room.run())?;
        Ok(Self { shared })
    }

    /// Passes the connections on, because the cache is open.
    pub(crate) fn end(self, taker: Guests) {
        *self.shared.taker.lock().unwrap_or_else(PoisonError::into_inner) = Some(taker);
        self.shared.waker.wake();
    }
}

/// A listening socket.
struct Door {
    descriptor: OwnedFd,
    transport: Transport,
    terms: ListenerTerms,
}

impl Door {
    fn of(socket: &Socket) -> std::io::Result<Self> {
        let descriptor = socket.descriptor.try_clone()?;
        Ok(Self { descriptor, transport: socket.transport, terms: socket.terms })
    }

    fn accept(&self) -> io::Result<Guest> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = accept_with(&self.descriptor, flags)?;
        Ok(Guest::new(socket, self.transport, self.terms))
    }
}

/// The state of the thread.
struct Room {
    shared: Arc<Shared>,
    doors: Vec<Door>,
    guests: Vec<Guest>,
    guests_max: usize,
    /// How long a request may wait for the cache.
    patience: Duration,
    progress: Progress,
    supervisor: Supervisor,
    /// When the opening began.
    begun: Instant,
}

impl Room {
    fn run(mut self) {
        let mut waited = [PollFd::new(&self.shared.waker, PollFlags::IN)];
        // If a signal interrupts the wait, the thread only begins to serve a little early.
        let _ = poll(&mut waited, Some(&timespec(SILENT_MAX)));
        let mut notified = None;
        let taker = loop {
            let taker = mem::take(&mut *self.taker());
            if let Some(taker) = taker {
                break taker;
            }
            let percent = self.progress.percent();
            if notified.replace(percent) != Some(percent) {
                self.supervisor.notify_recovering(percent);
            }
            self.turn(true);
        };
        if notified.is_some() {
            self.supervisor.notify_serving();
        }
        // The workers accept from now on. A connection in the middle of a response is passed on
        // later.
        let until = Instant::now() + LATE_MAX;
        loop {
            let (free, busy): (Vec<_>, Vec<_>) =
                mem::take(&mut self.guests).into_iter().partition(Guest::is_between_requests);
            self.guests = busy;
            free.into_iter().map(Guest::hand_over).for_each(&taker);
            if self.guests.is_empty() || Instant::now() >= until {
                return;
            }
            self.turn(false);
        }
    }

    fn taker(&self) -> std::sync::MutexGuard<'_, Option<Guests>> {
        self.shared.taker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for events, and handles them.
    fn turn(&mut self, accepts: bool) {
        let accepts = accepts && self.guests.len() < self.guests_max;
        let (doors, guests) = self.wait(accepts);
        for door in doors {
            while self.guests.len() < self.guests_max
                && let Ok(guest) = self.doors[door].accept()
            {
                self.guests.push(guest);
            }
        }
        let status = self.status();
        for guest in guests {
            self.guests[guest].serve(self.patience, &status);
        }
        self.guests.retain(|guest| guest.awaits() != Awaits::Nothing);
    }

    /// Waits for at most a second. Returns the numbers of the sockets with waiting connections, and
    /// of the connections that have work to do.
    fn wait(&self, accepts: bool) -> (Vec<usize>, Vec<usize>) {
        let doors = if accepts { &self.doors[..] } else { &[] };
        let (now, mut timeout) = (Instant::now(), TURN_MAX);
        let mut waited = vec![PollFd::new(&self.shared.waker, PollFlags::IN)];
        let others = waited.len();
        waited.extend(doors.iter().map(|door| PollFd::new(&door.descriptor, PollFlags::IN)));
        let (mut of, mut ready) = (Vec::new(), Vec::new());
        for (number, guest) in self.guests.iter().enumerate() {
            let events = match guest.awaits() {
                Awaits::Input => PollFlags::IN,
                Awaits::Output => PollFlags::OUT,
                Awaits::Until(moment) => {
                    let left = moment.saturating_duration_since(now);
                    timeout = timeout.min(left);
                    if left.is_zero() {
                        ready.push(number);
                    }
                    continue;
                }
                Awaits::Nothing => continue,
            };
            of.push(number);
            waited.push(PollFd::new(guest, events));
        }
        match poll(&mut waited, Some(&timespec(timeout))) {
            Ok(_) | Err(Errno::INTR) => {}
            // The wait fails if no memory is left. In that case the thread only pauses, and tries
            // again.
            Err(_) => thread::sleep(TURN_MAX),
        }
        let is_ready = |waited: &&PollFd<'_>| !waited.revents().is_empty();
        let (at_doors, at_guests) = waited[others..].split_at(doors.len());
        let doors = (0..).zip(at_doors).filter(|(_, at)| is_ready(at)).map(|(door, _)| door);
        ready.extend(of.iter().zip(at_guests).filter(|(_, at)| is_ready(at)).map(|(of, _)| *of));
        (doors.collect(), ready)
    }

    fn status(&self) -> Status {
        Status {
            percent: self.progress.percent(),
            uptime_secs: self.begun.elapsed().as_secs(),
            unix_secs: unix_secs(),
            connections: self.guests.len(),
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// How long clients wait without a response for a cache that opens quickly.
const SILENT_MAX: Duration = Duration::from_millis(100);

/// Maximum duration of a wait.
const TURN_MAX: Duration = Duration::from_secs(1);

/// How long a connection may take to send the rest of a refused value once the cache is open.
const LATE_MAX: Duration = Duration::from_secs(60);
