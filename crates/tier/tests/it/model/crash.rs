//! The ways in which a process ends, and the start of the next one.

use super::disk::Manifest;
use super::reclaimer::Reclaimer;
use super::recovery::Recovery;
use super::world::{Phase, Step, Successors, World};

pub(crate) fn steps(world: &World, next: &mut Successors) {
    if world.phase == Phase::Down {
        return starts(world, next);
    }
    if world.budget.kills > 0 {
        let mut killed = end(world);
        killed.budget.kills -= 1;
        next.push((Step::of("operator", "kills the process"), killed));
    }
    if world.budget.power_losses > 0 {
        for disk in world.disk.power_losses() {
            let mut lost = end(world);
            lost.budget.power_losses -= 1;
            lost.disk = disk;
            next.push((Step::of("power", "is lost"), lost));
        }
    }
    if world.budget.stops > 0 && world.phase == Phase::Running {
        next.extend(stop(world));
    }
}

/// Ends the process. Its memory, threads and connections are lost.
fn end(world: &World) -> World {
    let mut ended = world.clone();
    ended.clients.iter_mut().for_each(super::client::Client::is_cut_off);
    ended.reclaimer = Reclaimer::Idle;
    ended.region = None;
    ended.phase = Phase::Down;
    ended.failed = false;
    ended
}

fn stop(world: &World) -> Option<(Step, World)> {
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
    ended.disk.replace_manifest(Manifest { durable, ..manifest }, true);
    Some((Step::of("operator", "stops the process cleanly"), ended))
}

fn starts(world: &World, next: &mut Successors) {
    if world.struck && world.budget.set_back {
        let mut world = world.clone();
        world.struck = false;
        world.budget.set_back = false;
        next.push((Step::of("operator", "sets the clock back"), world));
    }
    let mut world = world.clone();
    world.phase = Phase::Recovering(Box::new(Recovery::Begin));
    next.push((Step::of("operator", "starts the process"), world));
}
