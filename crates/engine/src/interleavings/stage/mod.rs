//! The stage of the model tests: threads, scenes, and the exploration of their orders.

pub(crate) mod actor;
#[cfg(not(miri))]
mod explore;
pub(crate) mod keys;
#[cfg(miri)]
mod once;
pub(crate) mod scene;

pub(crate) use actor::Actor;
#[cfg(not(miri))]
pub(crate) use explore::{explore, explore_some, preempt, thread};
#[cfg(miri)]
pub(crate) use once::{explore, explore_some, preempt, thread};
pub(crate) use scene::Scene;
