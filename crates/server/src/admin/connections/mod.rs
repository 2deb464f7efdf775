//! Accepts connections, limits their number, and serves HTTP on them.

pub(super) mod activity;
pub(super) mod secured;
mod stalls;
mod targets;

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{sleep, timeout};

use super::access::journal::Peer;
use crate::server::ADMIN_CONNECTIONS_MAX;
use activity::Activity;
use secured::Secured;
use stalls::Stalls;
use targets::Targets;

/// The open connections. When there are too many, the one that has waited longest is closed, so
/// that idle connections cannot keep out a probe. But a connection is protected for a second while
/// it has a request in flight whose role is higher than that of a probe. If all connections are
/// protected, a new connection waits.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// The number of the next connection.
    next_number: AtomicU64,
    members: Mutex<HashMap<u64, Member>>,
}

#[derive(Debug)]
struct Member {
    /// Closes the connection.
    task: AbortHandle,
    activity: Arc<Activity>,
}

/// Removes a connection from the crowd when it is dropped.
struct Membership {
    crowd: Arc<Crowd>,
    number: u64,
    activity: Arc<Activity>,
}

impl Crowd {
    fn members(&self) -> MutexGuard<'_, HashMap<u64, Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes connections until there is space for another one.
    async fn make_room(&self) {
        while let Some(spared) = self.close_one() {
            sleep(spared.min(ROOM_PAUSE)).await;
        }
    }

    /// Closes a connection if there are too many. If none may be closed yet, returns how much
    /// longer all of them are protected.
    fn close_one(&self) -> Option<Duration> {
        let mut members = self.members();
        if members.len() < ADMIN_CONNECTIONS_MAX {
            return None;
        }
        let first = members.iter().min_by_key(|(_, member)| member.activity.rank());
        let (number, spared) = first.map(|(number, of)| (*number, of.activity.spared()))?;
        if !spared.is_zero() {
            return Some(spared);
        }
        members.remove(&number)?.task.abort();
        None
    }

    /// Waits a limited time until all connections have ended. They were already told to end.
    pub(super) async fn end(&self) {
        let all_gone = async {
            while !self.members().is_empty() {
                sleep(END_PAUSE).await;
            }
        };
        // The remaining connections are closed with the runtime.
        let _ = timeout(END_SECS_MAX, all_gone).await;
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.crowd.members().remove(&self.number);
    }
}

/// The state that the connections of a listener share.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) router: Router,
    pub(super) crowd: Arc<Crowd>,
    /// True once the connections must end.
    pub(super) is_over: watch::Receiver<bool>,
}

/// Accepts connections from a socket until the listener ends, then tells them to end.
pub(super) async fn accept(
    descriptor: OwnedFd,
    is_unix: bool,
    secured: Option<Secured>,
    site: Site,
) {
    if is_unix {
        let Ok(listener) = UnixListener::from_std(descriptor.into()) else { return };
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let peer = peer_of(&stream);
                    admit(&site, |site, member| serve((stream, peer), site, member)).await;
                }
                // Without free descriptors, connections wait in the kernel.
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }
    let Ok(listener) = TcpListener::from_std(descriptor.into()) else { return };
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok((stream, address)) => (stream, Peer::at(address.to_string())),
            Err(_) => {
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match secured.clone() {
            None => admit(&site, |site, member| serve((stream, peer), site, member)).await,
            Some(secured) => {
                let run = |site, member| async move {
                    if let Some(stream) = secured.accept(stream).await {
                        let peer = Peer { names: secured::names(&stream), ..peer };
                        serve((stream, peer), site, member).await;
                    }
                };
                admit(&site, run).await;
            }
        }
    }
}

/// Returns the process at the other end of a unix socket.
fn peer_of(stream: &UnixStream) -> Peer {
    Peer::at(match stream.peer_cred() {
        Ok(of) => format!("uid {} pid {}", of.uid(), of.pid().unwrap_or_default()),
        Err(_) => "a unix socket".to_owned(),
    })
}

/// Adds a connection once there is space, and runs it.
async fn admit<F>(site: &Site, run: impl FnOnce(Site, Membership) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let crowd = &site.crowd;
    crowd.make_room().await;
    let number = crowd.next_number.fetch_add(1, Relaxed);
    let activity = Arc::<Activity>::default();
    let membership =
        Membership { crowd: Arc::clone(crowd), number, activity: Arc::clone(&activity) };
    {
        let mut members = crowd.members();
        let task = tokio::spawn(run(site.clone(), membership));
        members.insert(number, Member { task: task.abort_handle(), activity });
    }
    // If a request has already arrived, it is served before the next connection.
    yield_now().await;
}

async fn serve<S>((stream, peer): (S, Peer), site: Site, membership: Membership)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Site { router, mut is_over, .. } = site;
    let activity = Arc::clone(&membership.activity);
    let has_asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&has_asked);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        asks.store(true, Relaxed);
        activity.note();
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(Arc::clone(&activity));
        let (responding, activity) = (router.call(request), Arc::clone(&activity));
        async { responding.await.map(|response| response.map(|body| activity.until_end_of(body))) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let stream = TokioIo::new(Stalls::new(Targets::new(stream)));
    let mut connection = pin!(builder.serve_connection(stream, service));
    let mut time_is_up = pin!(timeout(LIFE_MAX, is_over.wait_for(|is_over| *is_over)));
    // An error is the peer's fault: it has disconnected, or its input is not HTTP.
    let has_ended = poll_fn(|context| {
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        time_is_up.as_mut().poll(context).map(|_| false)
    });
    if !has_ended.await {
        // Without this wait, a peer that has just connected would receive no response to its first
        // request if the listener ends before that request has arrived.
        let first_request = poll_fn(|context| match connection.as_mut().poll(context) {
            Poll::Pending if !has_asked.load(Relaxed) => Poll::Pending,
            Poll::Pending => Poll::Ready(false),
            Poll::Ready(_) => Poll::Ready(true),
        });
        if let Ok(true) = timeout(FIRST_REQUEST_MAX, first_request).await {
            return;
        }
        connection.as_mut().graceful_shutdown();
        let _ = timeout(HEADER_TIME_MAX, connection).await;
    }
    drop(membership);
}

const HEADER_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// How long the header of a request may take, including the wait for it.
const HEADER_TIME_MAX: Duration = Duration::from_secs(10);

/// A connection is closed between two requests after this time. A peer that does not receive its
/// response keeps the connection no longer than this.
const LIFE_MAX: Duration = Duration::from_secs(300);

/// How long a connection may still begin its first request when the listener ends.
const FIRST_REQUEST_MAX: Duration = Duration::from_millis(500);

/// How often a new connection checks whether there is space.
const ROOM_PAUSE: Duration = Duration::from_millis(5);

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const END_PAUSE: Duration = Duration::from_millis(5);
const END_SECS_MAX: Duration = Duration::from_secs(1);
