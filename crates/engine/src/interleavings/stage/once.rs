//! Playing a scene once, on threads of the system: under Miri, which chooses the order itself, and lets loads
//! see what the memory orderings allow them to see. It is run with many seeds.

pub(crate) use std::thread;

pub(crate) fn explore(scene: impl Fn()) {
    scene();
}

pub(crate) use explore as explore_some;

/// Miri stops threads wherever it likes.
pub(crate) fn preempt(_preempt: bool) {}
