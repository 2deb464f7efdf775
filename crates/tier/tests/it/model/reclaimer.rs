//! Reclaim: copies the live records of the oldest segment to the head, then frees the segment.

use super::address::{Address, Number, RECORDS};
use super::disk::{Record, Value};
use super::region::{Slot, State, Use};
use super::rules::{Rule, Rules};
use super::scenario::Scenario;
use super::world::{Step, Successors, World};

/// The position of reclaim in its source segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Walk {
    source: Number,
    /// The number of units and places processed.
    passed: u8,
    /// The address up to which space was reserved when a record was last evaluated, or when reclaim
    /// began.
    upto: Address,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Copy {
    walk: Walk,
    key: u8,
    value: Value,
    from: Address,
    to: Address,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Reclaimer {
    Idle,
    Walking(Walk),
    /// The copy is reserved. The record is evaluated next, under the lock.
    Reserved(Copy),
    /// The slot points to the copy. The group is still locked.
    Moved(Copy),
    /// The record was evaluated before the reservation. Reachable only without
    /// [`Rule::JudgeAfterReserve`].
    Judged(Copy),
}

impl Reclaimer {
    pub(crate) fn holds(self, key: u8) -> bool {
        matches!(self, Self::Moved(copy) if copy.key == key)
    }
}

pub(crate) fn steps(world: &World, scenario: &Scenario, rules: Rules, next: &mut Successors) {
    let turn = Turn { world, scenario, rules };
    match world.reclaimer {
        Reclaimer::Idle if world.budget.reclaims > 0 => turn.begin(next),
        Reclaimer::Idle => {}
        Reclaimer::Walking(walk) => next.extend(turn.walk(walk)),
        Reclaimer::Reserved(copy) => next.extend(turn.judge(copy)),
        Reclaimer::Judged(copy) => next.extend(turn.reserve_judged(copy)),
        Reclaimer::Moved(copy) => next.push(turn.complete(copy)),
    }
}

struct Turn<'a> {
    world: &'a World,
    scenario: &'a Scenario,
    rules: Rules,
}

impl Turn<'_> {
    fn goto(&self, mut world: World, what: &'static str, to: Reclaimer) -> (Step, World) {
        world.reclaimer = to;
        (Step::of("reclaim", what), world)
    }

    fn begin(&self, next: &mut Successors) {
        let region = self.world.region.as_ref().unwrap();
        let full = |used: &Use| match *used {
            Use::Segment(number) => {
                let end = region.end_of(number);
                (number != region.current && end <= region.synced).then_some(number)
            }
            _ => None,
        };
        let mut sources: Vec<Number> = region.extents.iter().filter_map(full).collect();
        sources.sort_unstable();
        let oldest = usize::from(self.rules.keep(Rule::ReclaimFromTail));
        let takes = if oldest == 1 { 1 } else { sources.len() };
        for source in sources.into_iter().take(takes) {
            let mut world = self.world.clone();
            world.budget.reclaims -= 1;
            let upto = region.reserved_up_to();
            let walk = Walk { source, passed: 0, upto };
            next.push(self.goto(world, "takes a segment", Reclaimer::Walking(walk)));
        }
    }

    /// Advances to the next record that its key's slot points to, or to the end.
    fn walk(&self, mut walk: Walk) -> Option<(Step, World)> {
        let mut world = self.world.clone();
        let extent = world.region().extent_of(walk.source)?;
        while usize::from(walk.passed) < usize::from(world.disk.units()) * RECORDS {
            let (unit, place) = (walk.passed / RECORDS as u8, usize::from(walk.passed) % RECORDS);
            let records = world.disk.records(extent, unit);
            let record = records.get(place).copied();
            walk.passed += 1;
            let Some(Record::Item { key, value, .. }) = record else { continue };
            let from = Address::new(walk.source, unit, place);
            let slot = *world.slot(key);
            walk.upto = world.region().reserved_up_to();
            if world.region().home(slot) != Some(from) {
                continue;
            }
            let copy = Copy { walk, key, value, from, to: Address::NONE };
            return self.found(world, copy);
        }
        self.give_up(world, walk)
    }

    fn found(&self, mut world: World, mut copy: Copy) -> Option<(Step, World)> {
        if !self.rules.keep(Rule::JudgeAfterReserve) {
            if world.is_locked(self.scenario, copy.key) || self.is_dead(&mut world, copy) {
                return None;
            }
            return Some(self.goto(world, "judges a record", Reclaimer::Judged(copy)));
        }
        if !world.region().has_room(false) {
            return Some(self.goto(world, "finds no room", Reclaimer::Idle));
        }
        // A copy has the newest dictionary.
        let dictionary = world.region().dictionary;
        let record = Record::Item { key: copy.key, value: copy.value, dictionary };
        copy.to = world.region().reserve(record, State::Reserved);
        Some(self.goto(world, "reserves room for a copy", Reclaimer::Reserved(copy)))
    }

    fn is_dead(&self, world: &mut World, copy: Copy) -> bool {
        let slot = *world.slot(copy.key);
        copy.value.expires && world.struck || world.region().is_flushed(slot)
    }

    fn move_slot(&self, world: &mut World, copy: Copy) {
        *world.slot(copy.key) = match *world.slot(copy.key) {
            Slot::Memory { value, .. } => Slot::Memory { value, home: copy.to },
            _ => world.region().disk_slot(copy.to).unwrap(),
        };
    }

    fn judge(&self, copy: Copy) -> Option<(Step, World)> {
        let mut world = self.world.clone();
        if world.is_locked(self.scenario, copy.key) {
            return None;
        }
        let walk = Walk { upto: world.region().reserved_up_to(), ..copy.walk };
        let copy = Copy { walk, ..copy };
        let slot = *world.slot(copy.key);
        if world.region().home(slot) != Some(copy.from) {
            world.region().void(copy.to);
            return Some(self.goto(world, "voids a copy", Reclaimer::Walking(walk)));
        }
        if self.is_dead(&mut world, copy) {
            if self.rules.keep(Rule::EmptyDeadSlot) {
                *world.slot(copy.key) = Slot::Empty;
            }
            world.region().void(copy.to);
            return Some(self.goto(world, "voids a dead copy", Reclaimer::Walking(walk)));
        }
        self.move_slot(&mut world, copy);
        Some(self.goto(world, "moves the slot", Reclaimer::Moved(copy)))
    }

    fn reserve_judged(&self, mut copy: Copy) -> Option<(Step, World)> {
        let mut world = self.world.clone();
        if !world.region().has_room(false) || world.is_locked(self.scenario, copy.key) {
            return None;
        }
        // A copy has the newest dictionary.
        let dictionary = world.region().dictionary;
        let record = Record::Item { key: copy.key, value: copy.value, dictionary };
        copy.to = world.region().reserve(record, State::Complete);
        let slot = *world.slot(copy.key);
        if world.region().home(slot) == Some(copy.from) {
            self.move_slot(&mut world, copy);
        }
        copy.walk.upto = world.region().reserved_up_to();
        Some(self.goto(world, "reserves after it judged", Reclaimer::Walking(copy.walk)))
    }

    fn complete(&self, copy: Copy) -> (Step, World) {
        let mut world = self.world.clone();
        world.region().complete(copy.to);
        self.goto(world, "marks the copy complete", Reclaimer::Walking(copy.walk))
    }

    fn give_up(&self, mut world: World, walk: Walk) -> Option<(Step, World)> {
        let region = world.region();
        let judged = walk.upto < region.synced || walk.upto == Address::NONE;
        let erasing = region.extents.contains(&Use::Erasing);
        if !judged && self.rules.keep(Rule::GiveUpAfterSync)
            || erasing && self.rules.keep(Rule::EraseBeforeNext)
        {
            return None;
        }
        let extent = region.extent_of(walk.source)?;
        let reusable = !self.rules.keep(Rule::EraseBeforeReuse);
        region.extents[usize::from(extent)] = if reusable { Use::Free } else { Use::Erasing };
        world.disk.erase(extent);
        Some(self.goto(world, "gives the segment up", Reclaimer::Idle))
    }
}
