//! Faults of a cluster at random moments of a round.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use larder_testkit::history::{Did, Event};
use larder_testkit::proxy::{Flow, Flows, Link};
use larder_testkit::server::Signal;
use larder_testkit::{Proxy, Random};

use super::client::Round;
use super::cluster::{Cluster, MAX_STALE};
use super::keys::KINDS;

/// The faults of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Faults {
    /// Connections between near caches and the origin are cut, delayed and swallowed.
    pub(super) network: bool,
    /// Near caches are stopped and continued.
    pub(super) stops: bool,
    /// The origin is killed, upgraded, stopped and continued.
    pub(super) origin: bool,
    /// All servers are upgraded, one after the other.
    pub(super) upgrades: bool,
}

impl Faults {
    pub(super) const ALL: Self = Self { network: true, stops: true, origin: true, upgrades: false };

    pub(super) fn random(random: &mut Random) -> Self {
        let mut is = || random.below(2) == 0;
        Self { network: is(), stops: is(), origin: is(), upgrades: false }
    }
}

/// A thread that causes faults of one kind.
pub(super) struct Causer<'a> {
    cluster: &'a Cluster,
    round: &'a Round,
    random: Random,
    /// The removals by restarts of the origin.
    pub(super) events: Vec<Event>,
    pub(super) count: u64,
}

const DELAY_MAX_MS: u64 = 3000;

impl<'a> Causer<'a> {
    pub(super) fn new(cluster: &'a Cluster, round: &'a Round, seed: u64) -> Self {
        let random = Random::with_seed(seed | 1);
        Self { cluster, round, random, events: Vec::new(), count: 0 }
    }

    /// Sleeps for a random time: usually at most a fifth of the longest. Returns false at the end
    /// of the round.
    fn pause(&mut self, longest_ms: u64) -> bool {
        let pause = self.some(longest_ms);
        let rest = self.round.until().saturating_duration_since(Instant::now());
        sleep(pause.min(rest));
        Instant::now() < self.round.until()
    }

    fn some(&mut self, longest_ms: u64) -> Duration {
        let longest = if self.random.below(5) == 0 { longest_ms } else { longest_ms / 5 };
        Duration::from_millis(1 + self.random.below(longest))
    }

    /// Damages the connections through a proxy.
    pub(super) fn network(&mut self, proxy: usize) -> Result<()> {
        let proxy = &self.cluster.proxies[proxy];
        while self.pause(1000) {
            self.count += 1;
            match self.random.below(10) {
                0 => proxy.cut(),
                1 => self.some_links(&proxy.links()).iter().for_each(Link::cut),
                2 => {
                    proxy.refuse(true);
                    proxy.cut();
                    self.pause(1000);
                    proxy.refuse(false);
                }
                3..5 => self.grow(proxy),
                choice => {
                    let is_lost = choice >= 8;
                    let flows = self.flows(is_lost);
                    // All links and new ones, or some.
                    let links = if self.random.below(2) == 0 {
                        proxy.set(&flows);
                        proxy.links()
                    } else {
                        self.some_links(&proxy.links())
                    };
                    links.iter().for_each(|link| link.set(&flows));
                    self.pause(2000);
                    // Bytes are missing, so these links end. Links that began since have the same
                    // flows.
                    proxy.set(&Flows::default());
                    if is_lost {
                        links.iter().for_each(Link::cut);
                        proxy.cut();
                    }
                }
            }
        }
        Ok(())
    }

    /// Delays the responses on some links more and more. So signals of the change stream continue
    /// to arrive, but they and the changes are late.
    fn grow(&mut self, proxy: &Proxy) {
        // The oldest link is usually the change stream.
        let links = match self.random.below(2) {
            0 => proxy.links().into_iter().take(1).collect(),
            _ => self.some_links(&proxy.links()),
        };
        let step_ms = 20 + self.random.below(100);
        for step in 1..=20 {
            let delay = Flow::Delay(Duration::from_millis(step * step_ms));
            let flows = Flows { to_server: Flow::Pass, to_client: delay };
            links.iter().for_each(|link| link.set(&flows));
            sleep(Duration::from_millis(100));
            if Instant::now() >= self.round.until() {
                break;
            }
        }
        links.iter().for_each(|link| link.set(&Flows::default()));
    }

    fn some_links(&mut self, links: &[Link]) -> Vec<Link> {
        links.iter().filter(|_| self.random.below(2) == 0).cloned().collect()
    }

    fn flows(&mut self, is_lost: bool) -> Flows {
        // Half of the delays are a little shorter than the staleness bound: then copies become
        // stale and fresh again.
        let stale_ms = MAX_STALE.as_millis() as u64;
        let delay = match self.random.below(2) {
            0 => Duration::from_millis(stale_ms * 6 / 10 + self.random.below(stale_ms * 4 / 10)),
            _ => self.some(DELAY_MAX_MS),
        };
        let flow = if is_lost { Flow::Swallow } else { Flow::Delay(delay) };
        match self.random.below(3) {
            0 => Flows { to_server: flow, to_client: Flow::Pass },
            1 => Flows { to_server: Flow::Pass, to_client: flow },
            _ => Flows::both(flow),
        }
    }

    pub(super) fn stops(&mut self) -> Result<()> {
        while self.pause(500) {
            let Some(last) = self.cluster.nears.len().checked_sub(1) else { break };
            let near = &self.cluster.nears[self.random.below(last as u64 + 1) as usize];
            self.count += 1;
            near.signal(Signal::STOP)?;
            self.pause(2500);
            near.signal(Signal::CONT)?;
        }
        Ok(())
    }

    pub(super) fn origin(&mut self) -> Result<()> {
        while self.pause(1500) {
            self.count += 1;
            let number = self.random.below(self.cluster.origins.len() as u64) as usize;
            let origin = &self.cluster.origins[number];
            match self.random.below(4) {
                0 | 1 => {
                    let keeps_items = self.random.below(2) == 0;
                    let begun = self.round.now();
                    origin.restart(keeps_items)?;
                    self.restarted(number, begun, keeps_items);
                }
                2 => origin.upgrade()?,
                _ => {
                    origin.signal(Signal::STOP)?;
                    self.pause(1000);
                    origin.signal(Signal::CONT)?;
                }
            }
        }
        Ok(())
    }

    /// Replaces each origin and each near cache by a successor, one after the other. The last one
    /// ends the round.
    pub(super) fn upgrades(&mut self) -> Result<()> {
        let Cluster { origins, nears, .. } = self.cluster;
        for server in origins.iter().chain(nears) {
            self.pause(500);
            server.upgrade()?;
            self.count += 1;
        }
        self.round.end();
        Ok(())
    }

    /// Records a restart. It removed all items, or possibly some if it kept the memory file.
    fn restarted(&mut self, origin: usize, begun: u64, keeps_items: bool) {
        let answered = self.round.now();
        let did = if keeps_items { Did::MayHaveRemoved } else { Did::Removed };
        let name = if keeps_items { "restart on the memory file" } else { "restart" };
        let client = self.cluster.client_count();
        let owners = &self.round.keys.owners;
        let keys = (0..KINDS.len()).filter(|key| owners[*key] == origin);
        self.events.extend(keys.map(|key| Event {
            client,
            place: 0,
            key,
            name,
            begun,
            answered,
            did,
        }));
    }
}
