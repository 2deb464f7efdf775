//! Playing a scene once, on threads of the system: under Miri, which chooses the order itself, and lets loads
//! see what the memory orderings allow them to see. It is run with many seeds.

pub(super) use std::thread;

pub(super) fn explore(scene: impl Fn()) {
    scene();
}

pub(super) use explore as explore_some;

/// Miri stops threads wherever it likes.
pub(super) fn preempt(_preempt: bool) {}
