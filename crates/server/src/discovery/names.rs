//! The thread that resolves the name of `--cluster-dns`.
//!
//! The system's resolver may wait for as long as it likes, so no other thread waits for this one,
//! not even at the end of the process.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::Builder;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use larder_options::ClusterName;
use larder_stats::{Counter, Counters};

use super::list::{Node, Nodes, Stamp};
use super::{Discovery, LONG_US};
use crate::clock::monotonic_us;
use crate::log;
use crate::priority;

/// Resolves a name again and again. The thread ends after its current attempt when this is dropped.
#[derive(Debug)]
pub(crate) struct Resolver {
    discovery: Arc<Discovery>,
    /// True if the log contains that the current attempt takes long.
    is_reported: AtomicBool,
    /// Ends the thread when it is dropped.
    _end: Sender<()>,
}

impl Resolver {
    /// Starts the thread; returns `None` if the source is not a name.
    ///
    /// # Errors
    /// Fails if no threads are left.
    pub(crate) fn start(
        discovery: Option<&Arc<Discovery>>,
        counters: &Arc<Counters>,
    ) -> io::Result<Option<Self>> {
        let Some(discovery) = discovery.filter(|of| of.name().is_some()) else { return Ok(None) };
        let (end, is_over) = mpsc::channel();
        let thread = Thread { discovery: Arc::clone(discovery), counters: Arc::clone(counters) };
        Builder::new().name("cluster names".to_owned()).spawn(move || thread.run(&is_over))?;
        let (discovery, is_reported) = (Arc::clone(discovery), AtomicBool::new(false));
        Ok(Some(Self { discovery, is_reported, _end: end }))
    }

    /// If the thread has been resolving for a long time, logs that once. The thread cannot do that
    /// itself.
    pub(crate) fn look(&self) {
        let is_long = self.discovery.is_resolving_long();
        let was_reported = self.is_reported.swap(is_long, Relaxed);
        if let (true, false, Some(name)) = (is_long, was_reported, self.discovery.name()) {
            log::warn(format_args!(
                "larderd: option --cluster-dns: {name}: the name server has not responded for {} \
                 s; {}",
                LONG_US / 1_000_000,
                consequence(&self.discovery)
            ));
        }
    }
}

/// The state of the thread.
struct Thread {
    discovery: Arc<Discovery>,
    counters: Arc<Counters>,
}

impl Thread {
    fn run(&self, is_over: &Receiver<()>) {
        priority::lower();
        let Some(name) = self.discovery.name() else { return };
        let (mut was_failing, mut family) = (false, Family::Unknown);
        loop {
            self.discovery.resolving_since_us.store(monotonic_us().max(1), Relaxed);
            let resolved = resolve(name, &mut family);
            self.discovery.resolving_since_us.store(0, Relaxed);
            if is_over.try_recv() == Err(mpsc::TryRecvError::Disconnected) {
                return;
            }
            was_failing = self.take(name, resolved, was_failing);
            let pause = if self.discovery.list().is_some() { PAUSE } else { FIRST_PAUSE };
            if is_over.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Puts the outcome of an attempt into effect. Logs the first failure of several. Returns true
    /// if the attempt failed.
    fn take(&self, name: &ClusterName, resolved: Result<Nodes, String>, was_failing: bool) -> bool {
        let adopted =
            resolved.and_then(|nodes| self.discovery.adopt(nodes, Stamp::Time(now_secs())));
        match adopted {
            Ok(list) => {
                if was_failing {
                    log::info(format_args!("larderd: {name} can be resolved again"));
                }
                if let Some(list) = list {
                    self.counters.bump(Counter::ClusterChanges);
                    log::info(format_args!("larderd: servers of the cluster {name}: {list}"));
                }
                false
            }
            Err(error) => {
                self.discovery.note_failure();
                self.counters.bump(Counter::ClusterFailures);
                if !was_failing {
                    log::error(format_args!(
                        "larderd: option --cluster-dns: {name}: {error}; {}",
                        consequence(&self.discovery)
                    ));
                }
                true
            }
        }
    }
}

/// Returns the consequence of a failure, for the log.
fn consequence(discovery: &Discovery) -> &'static str {
    match discovery.list() {
        Some(_) => "the previous servers stay in effect",
        None => "clients that discover servers receive an error until it is resolved",
    }
}

/// The family of the addresses in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Unknown,
    Ipv4,
    Ipv6,
}

/// Resolves the name.
///
/// # Errors
/// Returns why there is no list.
fn resolve(name: &ClusterName, family: &mut Family) -> Result<Nodes, String> {
    let found = (name.host.as_str(), name.port).to_socket_addrs();
    let found = found.map_err(|error| format!("cannot resolve the name: {error}"))?;
    nodes(found.map(|address| address.ip()), name.port, family)
}

/// Returns the list of these addresses, in their order, without repetitions. If a server has
/// addresses of both families, then only the IPv4 address is in the list, because clients would
/// take the two for different servers.
///
/// # Errors
/// Returns why there is no list. A name whose IPv4 addresses are missing is such a case: the
/// resolver hides that only the question for them has failed.
fn nodes(
    addresses: impl Iterator<Item = IpAddr>,
    port: u16,
    family: &mut Family,
) -> Result<Nodes, String> {
    let mut addresses: Vec<_> = addresses.collect();
    let found = match addresses.iter().any(IpAddr::is_ipv4) {
        true => Family::Ipv4,
        false => Family::Ipv6,
    };
    if *family == Family::Ipv4 && found == Family::Ipv6 && !addresses.is_empty() {
        return Err("the name has no IPv4 addresses any more, only IPv6; restart larderd if the \
                    servers have moved"
            .to_owned());
    }
    addresses.retain(|address| address.is_ipv4() == (found == Family::Ipv4));
    addresses.sort_unstable();
    addresses.dedup();
    let servers: Vec<_> = addresses.into_iter().map(|ip| Node::of(ip, port)).collect();
    let nodes = Nodes::of(&servers).map_err(|error| error.to_string())?;
    *family = found;
    Ok(nodes)
}

/// Returns the Unix time in seconds.
fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The time between two attempts. The system's resolver does not return the time to live of its
/// answer.
const PAUSE: Duration = Duration::from_secs(5);

/// The same until the name is resolved for the first time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::List;

    fn body(addresses: &[&str], family: &mut Family) -> Result<String, String> {
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        let list = List::first(nodes(addresses, 11211, family)?, Stamp::Time(1));
        Ok(String::from_utf8(list.body().to_vec()).unwrap())
    }

    #[test]
    fn addresses_are_sorted_and_of_one_family() {
        let mut family = Family::Unknown;
        let expected = "1\nfd00::1|fd00::1|11211 fd00::2|fd00::2|11211\n";
        assert_eq!(body(&["fd00::2", "fd00::1"], &mut family).as_deref(), Ok(expected));
        let expected = "1\n10.0.0.2|10.0.0.2|11211 10.0.0.10|10.0.0.10|11211\n";
        let found = ["10.0.0.10", "fd00::1", "10.0.0.2", "10.0.0.10"];
        assert_eq!(body(&found, &mut family).as_deref(), Ok(expected));
        assert_eq!(body(&[], &mut family), Err("it names no server".to_owned()));
        let lost = body(&["fd00::1"], &mut family).unwrap_err();
        assert!(lost.starts_with("the name has no IPv4 addresses any more"), "{lost}");
        assert_eq!(body(&found, &mut family).as_deref(), Ok(expected));
    }
}
