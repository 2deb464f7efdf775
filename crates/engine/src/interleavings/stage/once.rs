//! Plays a scene once, on threads of the system: under Miri, which chooses the order itself and
//! lets loads return any value that the memory orderings allow. Miri repeats it with many seeds.

pub(crate) use std::thread;

pub(crate) fn explore(scene: impl Fn()) {
    scene();
}

pub(crate) use explore as explore_some;

/// Miri preempts threads anywhere.
pub(crate) fn preempt(_preempt: bool) {}
