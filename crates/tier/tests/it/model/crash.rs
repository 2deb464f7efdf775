//! How a process ends, and how the next one starts.

use super::address::Address;
use super::disk::{Manifest, Record};
use super::reclaimer::Reclaimer;
use super::recovery::Recovery;
use super::region::{Region, Slot, State, Use};
use super::rules::{Rule, Rules};
use super::scenario::{Memory, Scenario};
use super::world::{Phase, Step, Successors, World};

pub(crate) fn steps(world: &World, scenario: &Scenario, rules: Rules, next: &mut Successors) {
    match world.phase {
        Phase::Down => return starts(world, rules, next),
        Phase::Attaching(done) => next.push(attach(world, done, rules)),
        Phase::Running | Phase::Recovering(_) => {}
    }
    next.extend(hand_over(world, scenario, rules));
    if world.budget.kills > 0 {
        next.push((Step::of("operator", "kills the process"), kill(world, scenario, rules)));
    }
    if world.budget.power_losses > 0 {
        for disk in world.disk.power_losses() {
            let mut lost = end(world);
            lost.budget.power_losses -= 1;
            lost.disk = disk;
            lost.boot += 1;
            lost.region = lost.old_region.clone();
            next.push((Step::of("power", "is lost"), lost));
        }
    }
    if world.budget.stops > 0 && world.phase == Phase::Running {
        next.extend(stop(world, scenario));
    }
}

/// The process is gone, its threads and connections with it.
fn end(world: &World) -> World {
    let mut ended = world.clone();
    ended.clients.iter_mut().for_each(super::client::Client::is_cut_off);
    ended.reclaimer = Reclaimer::Idle;
    ended.phase = Phase::Down;
    ended.failed = false;
    ended
}

fn kill(world: &World, scenario: &Scenario, rules: Rules) -> World {
    let mut ended = end(world);
    ended.budget.kills -= 1;
    if scenario.memory == Memory::Private {
        ended.region = None;
    } else if let Phase::Recovering(_) = world.phase {
        let mut half = Region::empty(&world.disk);
        half.boot = world.boot;
        if !rules.keep(Rule::RegionEpochLast) {
            half.epoch = world.disk.manifest().epoch;
        }
        ended.region = Some(half);
    } else if ended.budget.aside {
        ended.budget.aside = false;
        ended.aside = ended.region.take();
    }
    ended
}

fn stop(world: &World, scenario: &Scenario) -> Option<(Step, World)> {
    let region = world.region.as_ref()?;
    let idle = world.clients.iter().all(super::client::Client::is_idle);
    let walking = world.reclaimer != Reclaimer::Idle;
    if !idle || walking || !region.buffers.is_empty() || world.disk.is_dirty() || world.failed {
        return None;
    }
    let mut ended = end(world);
    ended.budget.stops -= 1;
    let manifest = ended.disk.manifest();
    let durable = manifest.durable.max(region.synced);
    ended.disk.replace_manifest(Manifest { clean: true, durable, ..manifest }, true);
    match scenario.memory {
        Memory::Private => ended.region = None,
        Memory::Shared => {}
        Memory::File => ended.old_region = ended.region.clone(),
    }
    Some((Step::of("operator", "stops the process cleanly"), ended))
}

fn starts(world: &World, rules: Rules, next: &mut Successors) {
    if world.struck && world.budget.set_back {
        let mut world = world.clone();
        world.struck = false;
        world.budget.set_back = false;
        next.push((Step::of("operator", "sets the clock back"), world));
    }
    if world.aside.is_some() {
        let mut world = world.clone();
        world.region = world.aside.take();
        next.push((Step::of("operator", "starts with the region put aside"), start(world, rules)));
    }
    next.push((Step::of("operator", "starts the process"), start(world.clone(), rules)));
}

fn start(mut world: World, rules: Rules) -> World {
    let manifest = world.disk.manifest();
    let fits = |region: &Region| {
        let epoch = region.epoch == manifest.epoch || !rules.keep(Rule::EpochMatches);
        let boot = region.boot == world.boot || manifest.clean || !rules.keep(Rule::BootMatches);
        epoch && boot
    };
    if !world.region.as_ref().is_some_and(fits) {
        world.region = None;
        world.phase = Phase::Recovering(Box::new(Recovery::Begin));
        return world;
    }
    world.phase = Phase::Attaching(0);
    world
}

/// The next step of a process that attaches to the region.
fn attach(world: &World, done: u8, rules: Rules) -> (Step, World) {
    let mut world = world.clone();
    world.phase = Phase::Attaching(done + 1);
    let what = match done {
        0 => {
            if rules.keep(Rule::CleanIsCleared) {
                let manifest = Manifest { clean: false, ..world.disk.manifest() };
                world.disk.replace_manifest(manifest, true);
            }
            "clears the clean mark"
        }
        1 => {
            world.region().boot = world.boot;
            "notes the boot"
        }
        2 => {
            repair(&mut world, rules);
            world.spec.attach();
            "repairs what was reserved"
        }
        _ => {
            erase_again(&mut world, rules);
            world.phase = Phase::Running;
            "serves with the region"
        }
    };
    (Step::of("start", what), world)
}

/// A new process takes over from one that lives.
fn hand_over(world: &World, scenario: &Scenario, rules: Rules) -> Option<(Step, World)> {
    let inside = (0..scenario.keys).any(|key| world.is_inside(scenario, key));
    let walks = world.reclaimer != Reclaimer::Idle;
    let waits = (inside || walks) && rules.keep(Rule::HandOverBetween);
    if world.budget.handovers == 0 || world.phase != Phase::Running || world.failed || waits {
        return None;
    }
    let mut world = world.clone();
    world.budget.handovers -= 1;
    world.reclaimer = Reclaimer::Idle;
    repair(&mut world, rules);
    erase_again(&mut world, rules);
    Some((Step::of("operator", "hands over to a new process"), world))
}

/// Decides the reservations that the dead process left, and writes again what may not be durable.
fn repair(world: &mut World, rules: Rules) {
    let region = world.region.as_mut().unwrap();
    for at in 0..region.buffers.len() {
        let (number, unit) = (region.buffers[at].number, region.buffers[at].unit);
        for place in 0..region.buffers[at].reservations.len() {
            let reservation = region.buffers[at].reservations[place];
            if reservation.state == State::Complete {
                continue;
            }
            let address = Address::new(number, unit, place);
            let named = match reservation.record {
                Record::Item { key, .. } => {
                    region.home(region.slots[usize::from(key)]) == Some(address)
                }
                Record::Tombstone { key } => region.slots[usize::from(key)] == Slot::Empty,
                _ => true,
            };
            let rule = if named { Rule::RepairCompletes } else { Rule::RepairVoids };
            if named == rules.keep(rule) {
                region.complete(address);
            } else {
                region.void(address);
            }
        }
        if rules.keep(Rule::RepairWritesAgain) {
            region.buffers[at].written = false;
        }
    }
}

/// Repeats the erasures that may not be durable.
fn erase_again(world: &mut World, rules: Rules) {
    let region = world.region.as_ref().unwrap();
    if rules.keep(Rule::RepairErasesAgain) {
        for extent in 0..region.extents.len() {
            if region.extents[extent] == Use::Erasing {
                world.disk.erase(extent as u8);
            }
        }
    }
}
