//! The operations of clients, split into steps between which other actors may run.

use super::address::Address;
use super::disk::{Dictionary, Record, Value};
use super::region::{Slot, State};
use super::rules::{Rule, Rules};
use super::scenario::Scenario;
use super::spec::Change;
use super::world::{Step, Successors, World};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Set {
        key: u8,
        id: u8,
    },
    /// Sets an item that expires when the clock strikes. The model has no other time: the clock
    /// strikes at most once.
    SetExpiring {
        key: u8,
        id: u8,
    },
    Delete {
        key: u8,
    },
    Get {
        key: u8,
    },
    /// Changes an existing item: a touch, a counter, or a mark.
    Touch {
        key: u8,
        id: u8,
    },
    Flush,
    /// A flush that is due when the clock strikes.
    Delay,
}

impl Op {
    fn key(self) -> Option<u8> {
        match self {
            Self::Set { key, .. }
            | Self::SetExpiring { key, .. }
            | Self::Delete { key }
            | Self::Get { key }
            | Self::Touch { key, .. } => Some(key),
            Self::Flush | Self::Delay => None,
        }
    }

    fn change(self) -> Change {
        let set = |key, id, expires| Change::Set(key, Value { id, expires });
        match self {
            Self::Set { key, id } | Self::Touch { key, id } => set(key, id, false),
            Self::SetExpiring { key, id } => set(key, id, true),
            Self::Delete { key } => Change::Delete(key),
            Self::Flush | Self::Get { .. } => Change::Flush,
            Self::Delay => Change::Delay,
        }
    }

    fn record(self, dictionary: Dictionary) -> Record {
        match self.change() {
            Change::Set(key, value) => Record::Item { key, value, dictionary },
            Change::Delete(key) => Record::Tombstone { key },
            Change::Flush => Record::Flush,
            Change::Delay => Record::Delay,
        }
    }
}

/// A slot that was read, and the data to evaluate the read later.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Look {
    slot: Slot,
    address: Address,
    /// The frame of the log buffer with the record; `None` if the record is on the disk.
    frame: Option<u8>,
    expected: Option<Value>,
    answer: Answer,
}

impl Look {
    /// True if the buffer that was read no longer contains the unit.
    fn was_buffer_reused(&self, world: &mut World) -> bool {
        let region = world.region();
        let Some(frame) = self.frame else { return false };
        region.buffer(self.address).is_none_or(|buffer| buffer.frame != frame)
    }
}

/// A response that waits until `until` is durable. It reveals the change at `of`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Answer {
    until: Address,
    of: Address,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum At {
    #[default]
    Start,
    Locked,
    Reserved(Address),
    Published(Address),
    /// The flush is in the log but not yet in memory. Reachable only without
    /// [`Rule::FlushIsOneStep`].
    Logged(Address),
    Looked(Look),
    Fetched(Look, Option<Record>),
    Waits(Answer),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Client {
    done: u8,
    at: At,
}

impl Client {
    fn op(&self, program: &[Op]) -> Option<Op> {
        program.get(usize::from(self.done)).copied()
    }

    pub(crate) fn holds(&self, program: &[Op], key: u8) -> bool {
        let inside = matches!(self.at, At::Locked | At::Reserved(_) | At::Published(_));
        inside && self.op(program).and_then(Op::key) == Some(key)
    }

    /// True if the client waits for nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.at == At::Start
    }

    /// Closes the client's connection. The client never receives the result of its request.
    pub(crate) fn is_cut_off(&mut self) {
        if !self.is_idle() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        self.done += 1;
        self.at = At::Start;
    }
}

/// The next step of one client: the world before the step, and the parameters.
struct Turn<'a> {
    world: &'a World,
    scenario: &'a Scenario,
    rules: Rules,
    who: usize,
    op: Op,
}

pub(crate) fn steps(world: &World, scenario: &Scenario, rules: Rules, next: &mut Successors) {
    for (who, program) in scenario.programs.iter().enumerate() {
        let Some(op) = world.clients[who].op(program) else { continue };
        let turn = Turn { world, scenario, rules, who, op };
        if let Some((what, world)) = turn.step() {
            next.push((Step { actor: "client", number: Some(who as u8), what }, world));
        }
    }
}

type Taken = Option<(&'static str, World)>;

impl Turn<'_> {
    fn step(&self) -> Taken {
        match self.world.clients[self.who].at {
            At::Start => match self.op {
                Op::Flush => self.flush(),
                Op::Delay => self.delay(),
                Op::Get { key } => self.get(key),
                _ => self.lock(),
            },
            At::Locked => self.reserve(),
            At::Reserved(at) => self.publish(at),
            At::Published(at) => self.complete(at),
            At::Logged(at) => self.raise(at),
            At::Looked(look) => Some(self.fetch(look)),
            At::Fetched(look, record) => self.use_fetched(look, record),
            At::Waits(answer) => self.answer(answer),
        }
    }

    fn goto(&self, mut world: World, what: &'static str, at: At) -> Taken {
        world.clients[self.who].at = at;
        Some((what, world))
    }

    fn is_dead(&self, world: &mut World, slot: Slot) -> bool {
        let expired = matches!(slot, Slot::Memory { value, .. } if value.expires && world.struck);
        slot == Slot::Empty || expired || world.region().is_flushed(slot)
    }

    /// Returns the response about a key, with the address that must be durable first.
    fn visible(&self, world: &mut World, key: u8) -> Answer {
        let region = world.region();
        let mut until = Address::NONE;
        if self.rules.keep(Rule::AnswerWaitsForKey) {
            until = until.max(region.logged[usize::from(key)]);
        }
        if self.rules.keep(Rule::AnswerWaitsForFlush) {
            until = until.max(region.flush);
        }
        Answer { until, of: world.spec.last_change(key) }
    }

    /// Handles a due flush before a read. Returns `None` if the read must wait, or true if the
    /// flush takes effect for the client without a record.
    fn before_read(&self, world: &mut World) -> Option<bool> {
        if !self.world.is_due() {
            return Some(false);
        }
        if self.rules.keep(Rule::DueBeforeReads) {
            return None;
        }
        world.spec.publish_unlogged(Change::Flush);
        Some(true)
    }

    fn get(&self, key: u8) -> Taken {
        let mut world = self.world.clone();
        let flushed = self.before_read(&mut world)?;
        let slot = *world.slot(key);
        let answer = self.visible(&mut world, key);
        let expected = world.spec.now().seen(world.struck).values[usize::from(key)];
        if flushed || self.is_dead(&mut world, slot) {
            expect(&mut world, key, expected, None);
            return self.goto(world, "get misses", At::Waits(answer));
        }
        if let Slot::Memory { value, .. } = slot {
            expect(&mut world, key, expected, Some(value));
            return self.goto(world, "get hits in memory", At::Waits(answer));
        }
        self.look(world, Look { slot, address: Address::NONE, frame: None, expected, answer })
    }

    /// Remembers the segment number for a read from disk.
    fn look(&self, mut world: World, mut look: Look) -> Taken {
        match world.region().home(look.slot) {
            Some(address) => {
                look.address = address;
                look.frame = world.region().buffer(address).map(|buffer| buffer.frame);
            }
            None => world.fail(format!("{:?} names a segment that is gone", look.slot)),
        }
        self.goto(world, "reads a slot on disk", At::Looked(look))
    }

    fn fetch(&self, look: Look) -> (&'static str, World) {
        let mut world = self.world.clone();
        let Slot::Disk { extent, unit, place } = look.slot else { unreachable!() };
        let in_frame = look.frame.and_then(|frame| world.region().in_frame(frame));
        let place = usize::from(place);
        let record = match in_frame {
            Some(buffer) => buffer.reservations.get(place).map(|reservation| reservation.record),
            None => world.disk.records(extent, unit).get(place).copied(),
        };
        world.clients[self.who].at = At::Fetched(look, record);
        ("fetches the record", world)
    }

    fn use_fetched(&self, look: Look, record: Option<Record>) -> Taken {
        let mut world = self.world.clone();
        let key = self.op.key().unwrap();
        if look.was_buffer_reused(&mut world) && self.rules.keep(Rule::BufferBracket) {
            return self.goto(world, "finds the buffer reused, begins again", At::Start);
        }
        if let Op::Touch { .. } = self.op {
            return self.promote(look, record);
        }
        let there = world.region().home(look.slot) == Some(look.address);
        if !there && self.rules.keep(Rule::ReadBracket) {
            return self.goto(world, "finds the segment recycled, begins again", At::Start);
        }
        let found = match record {
            Some(Record::Item { key: of, value, .. }) if of == key => Some(value),
            _ => None,
        };
        let found = found.filter(|value| !(value.expires && world.struck));
        // An item that has expired in the meantime is a miss.
        let expected = look.expected.filter(|value| !(value.expires && world.struck));
        expect(&mut world, key, expected, found);
        self.goto(world, "get uses the record", At::Waits(look.answer))
    }

    fn promote(&self, look: Look, record: Option<Record>) -> Taken {
        let mut world = self.world.clone();
        let key = self.op.key().unwrap();
        if world.is_locked(self.scenario, key) {
            return None;
        }
        let same =
            *world.slot(key) == look.slot && world.region().home(look.slot) == Some(look.address);
        if (same || !self.rules.keep(Rule::PromoteBracket))
            && let Some(Record::Item { value, .. }) = record
        {
            *world.slot(key) = Slot::Memory { value, home: look.address };
        }
        self.goto(world, "promotes, executes again", At::Start)
    }

    /// Locks the group and evaluates the condition.
    fn lock(&self) -> Taken {
        let key = self.op.key()?;
        let mut world = self.world.clone();
        if world.is_locked(self.scenario, key) {
            return None;
        }
        let slot = *world.slot(key);
        if matches!(self.op, Op::Set { .. } | Op::SetExpiring { .. }) {
            return self.goto(world, "locks the group", At::Locked);
        }
        let flushed = self.before_read(&mut world)?;
        let answer = self.visible(&mut world, key);
        if flushed || self.is_dead(&mut world, slot) {
            let expected = world.spec.now().seen(world.struck).values[usize::from(key)];
            expect(&mut world, key, expected, None);
            return self.goto(world, "finds no item", At::Waits(answer));
        }
        let touches = matches!(self.op, Op::Touch { .. });
        if touches && matches!(slot, Slot::Disk { .. }) {
            return self.look(
                world,
                Look { slot, address: Address::NONE, frame: None, expected: None, answer },
            );
        }
        let unlogged = if touches { Rule::ChangeIsLogged } else { Rule::DeleteIsLogged };
        if !self.rules.keep(unlogged) {
            let home = world.region().home(slot).unwrap_or_default();
            self.store_slot(&mut world, key, home);
            world.spec.publish_unlogged(self.op.change());
            return self.goto(world, "changes memory alone", At::Waits(answer));
        }
        self.goto(world, "locks the group", At::Locked)
    }

    fn reserve(&self) -> Taken {
        let mut world = self.world.clone();
        let key = self.op.key()?;
        if world.is_due() {
            if self.rules.keep(Rule::DueBeforeRecords) {
                return None;
            }
            if world.spec.now().delayed {
                world.spec.publish_unlogged(Change::Flush);
            }
        }
        if !world.region().has_room(true) {
            world.clients[self.who].finish();
            return Some(("is refused: the disk is full", world));
        }
        if !self.rules.keep(Rule::ReserveBeforeSlot) && self.is_unpublished(&mut world, key) {
            self.store_slot(&mut world, key, Address::NONE);
            world.spec.publish_unlogged(self.op.change());
            return self.goto(world, "stores the slot too early", At::Locked);
        }
        let record = self.op.record(world.region().dictionary);
        let at = world.region().reserve(record, State::Reserved);
        world.region().logged[usize::from(key)] = at;
        world.spec.reserve(at, self.op.change());
        self.goto(world, "reserves room", At::Reserved(at))
    }

    fn is_unpublished(&self, world: &mut World, key: u8) -> bool {
        let Change::Set(_, value) = self.op.change() else { return false };
        !matches!(*world.slot(key), Slot::Memory { value: stored, .. } if stored == value)
    }

    fn store_slot(&self, world: &mut World, key: u8, home: Address) {
        *world.slot(key) = match self.op.change() {
            Change::Set(_, value) => Slot::Memory { value, home },
            _ => Slot::Empty,
        };
    }

    fn publish(&self, at: Address) -> Taken {
        let mut world = self.world.clone();
        let key = self.op.key()?;
        self.store_slot(&mut world, key, at);
        world.spec.publish(at);
        self.goto(world, "stores the slot", At::Published(at))
    }

    fn complete(&self, at: Address) -> Taken {
        let mut world = self.world.clone();
        world.region().complete(at);
        self.goto(world, "marks it complete, unlocks", At::Waits(Answer { until: at, of: at }))
    }

    fn flush(&self) -> Taken {
        let mut world = self.world.clone();
        if self.world.is_due() || !world.region().has_room(true) {
            return None;
        }
        if self.rules.keep(Rule::FlushIsOneStep) {
            let at = world.flush_now(true);
            return self.goto(world, "flushes", At::Waits(Answer { until: at, of: at }));
        }
        let at = world.region().reserve(Record::Flush, State::Complete);
        world.spec.reserve(at, Change::Flush);
        self.goto(world, "logs a flush", At::Logged(at))
    }

    fn raise(&self, at: Address) -> Taken {
        let mut world = self.world.clone();
        world.region().flush = at;
        world.region().delay = Address::NONE;
        world.spec.publish(at);
        self.goto(world, "raises the flush address", At::Waits(Answer { until: at, of: at }))
    }

    fn delay(&self) -> Taken {
        let mut world = self.world.clone();
        if world.struck {
            world.clients[self.who].finish();
            return Some(("asks for nothing: the clock has struck", world));
        }
        if !self.rules.keep(Rule::DelayIsLogged) {
            world.region().delay = Address::new(0, 0, 1);
            world.spec.publish_unlogged(Change::Delay);
            let of = Address::end_of(u8::MAX, 0);
            return self.goto(
                world,
                "delays a flush",
                At::Waits(Answer { until: Address::NONE, of }),
            );
        }
        if !world.region().has_room(true) {
            return None;
        }
        let at = world.region().reserve(Record::Delay, State::Complete);
        world.region().delay = at;
        world.spec.reserve(at, Change::Delay);
        world.spec.publish(at);
        self.goto(world, "delays a flush", At::Waits(Answer { until: at, of: at }))
    }

    fn answer(&self, answer: Answer) -> Taken {
        let mut world = self.world.clone();
        if self.scenario.waits {
            if answer.until != Address::NONE && answer.until >= world.region().synced {
                return None;
            }
            world.spec.answer(answer.of);
        }
        world.clients[self.who].finish();
        Some(("gets its answer", world))
    }
}

fn expect(world: &mut World, key: u8, expected: Option<Value>, found: Option<Value>) {
    if expected != found {
        world.fail(format!("key {key} shows {found:?}, expected is {expected:?}"));
    }
}
