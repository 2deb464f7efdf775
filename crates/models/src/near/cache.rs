//! A near cache: its copies, its flights, and the thread that receives its messages.

use super::client::At;
use super::origin::Message;
use super::rules::{Rule, Rules};
use super::scenario::Scenario;
use super::spec::MAX_STALE;
use super::world::{Step, Successors, World};

/// The keys that an invalidation concerns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Scope {
    Everything,
    /// The copies and flights of a bucket.
    Bucket(u8),
    /// The copies and flights of a key. The count is that of the key's bucket.
    Key(u8),
}

/// How far a flight has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Leg {
    /// Readers may join it, but the fetch is not sent yet.
    Begun,
    Sent,
    /// The origin has done one of two steps: noted the interest, or read the item.
    Half,
    /// The answer is under way.
    Answered,
    /// A worker keeps the value, and has the bucket's lock.
    Keeps,
    /// A worker drops the copy before it passes the value on.
    Drops,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Flight {
    pub(crate) id: u8,
    pub(crate) key: u8,
    process: u8,
    /// When it began, while readers may join it.
    began: u8,
    /// The token that the connection of the fetch names.
    token: u8,
    known: bool,
    leg: Leg,
    version: u8,
    /// False once it is detached: readers no longer join it.
    current: bool,
    /// True once its readers have received an error.
    given_up: bool,
    /// True if an invalidation of its bucket was counted since it began.
    invalidated: bool,
}

impl Flight {
    fn detach(&mut self) {
        self.current = false;
        self.began = 0;
    }

    /// True if a process of the origin works on it.
    pub(crate) fn is_at_origin(&self, process: u8) -> bool {
        self.process == process && matches!(self.leg, Leg::Sent | Leg::Half)
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Near {
    /// The version of each copy.
    pub(crate) copies: [Option<u8>; 2],
    /// The buckets that a worker has locked.
    locks: [bool; 2],
    pub(crate) flights: Vec<Flight>,
    /// Readers use copies until then, inclusively.
    pub(crate) fresh_until: Option<u8>,
    /// The newest token. The data connections name it until they have the next.
    token: u8,
    /// The process of the origin that its connections reach.
    process: u8,
    /// The second half of an invalidation that the thread of the stream has begun.
    second: Option<Scope>,
}

impl Near {
    pub(crate) fn new(token: u8) -> Self {
        Self { fresh_until: Some(MAX_STALE), token, ..Self::default() }
    }

    pub(crate) fn is_fresh(&self, now: u8) -> bool {
        self.fresh_until.is_some_and(|until| now <= until)
    }

    fn count(&mut self, scope: Scope, scenario: &Scenario) {
        for flight in &mut self.flights {
            let bucket = scenario.bucket(flight.key);
            let (counts, ends) = match scope {
                Scope::Everything => (true, true),
                Scope::Bucket(which) => (bucket == which, bucket == which),
                Scope::Key(key) => (bucket == scenario.bucket(key), flight.key == key),
            };
            flight.invalidated |= counts;
            if ends {
                flight.detach();
            }
        }
    }

    /// Drops copies. False if a worker has the lock.
    fn drop(&mut self, scope: Scope, scenario: &Scenario) -> bool {
        let keys = (0..scenario.keys).filter(|key| match scope {
            Scope::Everything => true,
            Scope::Bucket(which) => scenario.bucket(*key) == which,
            Scope::Key(which) => *key == which,
        });
        let keys: Vec<u8> = keys.collect();
        if keys.iter().any(|key| self.locks[usize::from(scenario.bucket(*key))]) {
            return false;
        }
        for key in keys {
            self.copies[usize::from(key)] = None;
        }
        true
    }

    /// Does one of the two steps of an invalidation. False if it has to wait for a lock.
    pub(crate) fn invalidate(
        &mut self,
        scope: Scope,
        first: bool,
        scenario: &Scenario,
        rules: Rules,
    ) -> bool {
        if first == rules.keep(Rule::CountBeforeDrop) {
            self.count(scope, scenario);
            true
        } else {
            self.drop(scope, scenario)
        }
    }

    /// Begins a flight, and detaches the one before. Returns its number.
    pub(crate) fn fetch(&mut self, key: u8, process: u8, began: u8) -> u8 {
        for flight in self.flights.iter_mut().filter(|flight| flight.key == key) {
            flight.detach();
        }
        let unused = |id: &u8| self.flights.iter().all(|flight| flight.id != *id);
        let id = (0..).find(unused).unwrap_or_default();
        self.flights.push(Flight {
            id,
            key,
            process,
            began,
            token: self.token,
            known: false,
            leg: Leg::Begun,
            version: 0,
            current: true,
            given_up: false,
            invalidated: false,
        });
        id
    }

    /// Returns the flight of a key that a reader may join.
    pub(crate) fn joinable(&self, key: u8, now: u8, rules: Rules) -> Option<u8> {
        let mut flights = self.flights.iter();
        let flight = flights.find(|flight| flight.key == key && flight.current)?;
        let open = matches!(flight.leg, Leg::Begun | Leg::Sent | Leg::Half | Leg::Answered);
        let young = now <= flight.began + MAX_STALE || !rules.keep(Rule::JoinWhileYoung);
        (open && young).then_some(flight.id)
    }

    /// True if a flight must wait for another one of its key, which began earlier on the same
    /// connection: the origin executes the fetches in their order, and their answers arrive so.
    fn waits(&self, at: usize) -> bool {
        let flight = &self.flights[at];
        let mut earlier = self.flights[..at].iter().filter(|other| other.leg != Leg::Begun);
        flight.leg != Leg::Begun
            && earlier.any(|other| {
                let is_read = !matches!(other.leg, Leg::Sent | Leg::Half);
                other.key == flight.key
                    && !other.given_up
                    && !(is_read && matches!(flight.leg, Leg::Sent | Leg::Half))
            })
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.flights.is_empty() && self.second.is_none()
    }
}

/// Answers the readers of a flight, and ends it.
fn land(world: &mut World, near: u8, at: usize) {
    let flight = world.nears[usize::from(near)].flights.remove(at);
    for which in 0..world.clients.len() {
        if world.clients[which].at == (At::Reads { near, flight: flight.id }) {
            let floor = world.clients[which].floor;
            world.judge(near, flight.key, floor, flight.version);
            world.clients[which].advance();
        }
    }
}

/// Decides what to do with an answer. `None` if it has to wait for a lock.
fn receive(
    world: &mut World,
    near: u8,
    at: usize,
    scenario: &Scenario,
    rules: Rules,
) -> Option<&'static str> {
    let present = world.origin.of_near(near).filter(|each| each.begun).map(|each| each.token);
    let cache = &mut world.nears[usize::from(near)];
    let flight = &mut cache.flights[at];
    if flight.given_up && rules.keep(Rule::LateIsIgnored) {
        cache.flights.remove(at);
        return Some("is answered late");
    }
    let bucket = usize::from(scenario.bucket(flight.key));
    if rules.keep(Rule::KeepIsOneStep) && cache.locks[bucket] {
        return None;
    }
    let keeps = !(rules.keep(Rule::KeepUnlessInvalidated) && flight.invalidated
        || rules.keep(Rule::TokenIsKnown) && !flight.known
        || rules.keep(Rule::TokenIsCurrent) && present != Some(flight.token));
    if keeps {
        flight.leg = Leg::Keeps;
        cache.locks[bucket] = rules.keep(Rule::KeepIsOneStep);
        return Some("checks that the value may be kept");
    }
    if rules.keep(Rule::UnkeptDrops) {
        flight.leg = Leg::Drops;
        return Some("decides not to keep the value");
    }
    land(world, near, at);
    Some("passes the value on")
}

/// Does the next step of a flight. `None` if it has to wait for a lock.
fn fly(
    world: &mut World,
    near: u8,
    at: usize,
    scenario: &Scenario,
    rules: Rules,
) -> Option<&'static str> {
    let cache = &mut world.nears[usize::from(near)];
    if rules.keep(Rule::FetchesInOrder) && cache.waits(at) {
        return None;
    }
    let flight = &mut cache.flights[at];
    let bucket = scenario.bucket(flight.key);
    match flight.leg {
        Leg::Begun => {
            // Behind all that were sent before.
            flight.leg = Leg::Sent;
            let flight = cache.flights.remove(at);
            cache.flights.push(flight);
            Some("is sent")
        }
        Leg::Sent | Leg::Half => {
            let first = flight.leg == Leg::Sent;
            flight.leg = if first { Leg::Half } else { Leg::Answered };
            if first == rules.keep(Rule::InterestBeforeRead) {
                flight.known = world.origin.note(flight.token, flight.process, bucket);
                return Some("the origin notes the interest");
            }
            flight.version = world.origin.items[usize::from(flight.key)];
            Some("the origin reads the item")
        }
        Leg::Answered => receive(world, near, at, scenario, rules),
        Leg::Keeps => {
            cache.copies[usize::from(flight.key)] = Some(flight.version);
            cache.locks[usize::from(bucket)] = false;
            land(world, near, at);
            Some("stores the copy, and answers")
        }
        Leg::Drops => {
            let scope = Scope::Key(flight.key);
            if !cache.drop(scope, scenario) {
                return None;
            }
            land(world, near, at);
            Some("has dropped the copy, and answers")
        }
    }
}

/// Does the next step of the thread of the stream. `None` if there is nothing to do.
fn listen(world: &mut World, near: u8, scenario: &Scenario, rules: Rules) -> Option<&'static str> {
    let cache = &mut world.nears[usize::from(near)];
    if let Some(scope) = cache.second.take() {
        let done = cache.invalidate(scope, false, scenario, rules);
        return done.then_some("ends an invalidation");
    }
    let scope = match world.origin.of_near(near).filter(|each| each.begun)?.receive(scenario)? {
        Message::Alive(sent) => {
            let from = if rules.keep(Rule::FreshFromSending) { sent } else { world.now };
            cache.fresh_until = cache.fresh_until.max(Some(from + MAX_STALE));
            return Some("is fresh");
        }
        Message::Bucket(bucket) => Scope::Bucket(bucket),
        Message::Key(key) => Scope::Key(key),
        Message::Everything => Scope::Everything,
    };
    cache.second = Some(scope);
    cache.invalidate(scope, true, scenario, rules).then_some("receives an invalidation")
}

/// Ends or begins a subscription. `None` if neither is possible.
fn connect(world: &mut World, near: u8, scenario: &Scenario, rules: Rules) -> Option<&'static str> {
    let cache = &mut world.nears[usize::from(near)];
    if cache.second.is_some() {
        return None;
    }
    if let Some(subscription) = world.origin.of_near(near) {
        if subscription.connected_to_origin() {
            if subscription.begun {
                return None;
            }
            subscription.begun = true;
            cache.token = subscription.token;
            let sent = rules.keep(Rule::FreshFromSending);
            let from = if sent { subscription.sent } else { world.now };
            cache.fresh_until = Some(from + MAX_STALE);
            return Some("has its token");
        }
        subscription.at_near = false;
        cache.fresh_until = None;
        if rules.keep(Rule::LostStreamEmpties) {
            cache.second = Some(Scope::Everything);
            if !cache.invalidate(Scope::Everything, true, scenario, rules) {
                return None;
            }
        }
        return Some("knows that its stream is lost");
    }
    let two = world.origin.phase.processes().len() > 1;
    if two && rules.keep(Rule::OneProcessTells) {
        return None;
    }
    world.origin.subscribe(near, world.now, scenario, rules);
    Some("subscribes")
}

/// Answers the readers of a flight with an error. Its answer may still arrive.
fn fail(world: &mut World, near: u8, at: usize) {
    let flight = &mut world.nears[usize::from(near)].flights[at];
    flight.detach();
    flight.given_up = true;
    let reads = At::Reads { near, flight: flight.id };
    for client in world.clients.iter_mut().filter(|client| client.at == reads) {
        client.advance();
    }
}

/// Gives up a flight that takes too long.
fn give_up(world: &mut World, near: u8, at: usize) -> Option<&'static str> {
    let flight = &world.nears[usize::from(near)].flights[at];
    let late = matches!(flight.leg, Leg::Begun | Leg::Sent | Leg::Half | Leg::Answered);
    if !late || flight.given_up || world.budget.timeouts == 0 {
        return None;
    }
    world.budget.timeouts -= 1;
    fail(world, near, at);
    Some("is given up")
}

/// Uses connections to this process of the origin. The flights on those to the other one are lost.
pub(crate) fn reach(world: &mut World, near: u8, process: u8, rules: Rules) {
    let cache = &mut world.nears[usize::from(near)];
    if !rules.keep(Rule::FetchesInOrder) || cache.process == process {
        return;
    }
    cache.process = process;
    for at in 0..cache.flights.len() {
        let flight = &world.nears[usize::from(near)].flights[at];
        if matches!(flight.leg, Leg::Begun | Leg::Sent | Leg::Half | Leg::Answered) {
            fail(world, near, at);
        }
    }
}

pub(crate) fn successors(world: &World, scenario: &Scenario, rules: Rules, next: &mut Successors) {
    for near in 0..scenario.nears {
        let mut then = world.clone();
        if let Some(what) = listen(&mut then, near, scenario, rules) {
            next.push((Step::of("near cache", near, what), then));
        }
        let mut then = world.clone();
        if let Some(what) = connect(&mut then, near, scenario, rules) {
            next.push((Step::of("near cache", near, what), then));
        }
        for at in 0..world.nears[usize::from(near)].flights.len() {
            let mut then = world.clone();
            let id = world.nears[usize::from(near)].flights[at].id;
            if let Some(what) = give_up(&mut then, near, at) {
                next.push((Step::of("flight", id, what), then));
            }
            let mut then = world.clone();
            if let Some(what) = fly(&mut then, near, at, scenario, rules) {
                next.push((Step::of("flight", id, what), then));
            }
        }
    }
}
