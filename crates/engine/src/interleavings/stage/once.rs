//! Plays a scene once, on threads of the operating system. This is for Miri, which chooses the
//! order itself and lets loads return any value that the memory orderings allow. Miri repeats the
//! scene with many seeds.

pub(crate) use std::thread;

pub(crate) fn explore(scene: impl Fn()) {
    scene();
}

pub(crate) use explore as explore_some;

/// Does nothing: Miri preempts threads at any point.
pub(crate) fn preempt(_preempt: bool) {}
