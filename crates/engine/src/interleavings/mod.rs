//! The engine under every order of its threads that matters: what readers, writers and evictors promise
//! each other, one test a promise.
//!
//! The engine is the real one. Its threads are tasks of `shuttle`, which may let another go on before any
//! access to the region, and in the middle of any copy. A test describes one [`Scene`] and what must hold
//! at its end; [`explore`] plays it again and again, each time in another order. What is explored is
//! sequentially consistent. Whether the memory orderings suffice is for Miri to say, which plays the same
//! scenes (docs/concurrency.md).

mod actor;
mod altering;
mod evicting;
#[cfg(not(miri))]
mod explore;
mod extending;
mod growing;
mod keys;
mod large;
mod loading;
#[cfg(miri)]
mod once;
mod ordering;
mod pinning;
mod reading;
mod recaching;
mod recounting;
mod recycling;
mod relocating;
mod scene;
mod supplying;
mod sweeping;
mod uploading;
mod using;
mod writing;

use actor::Actor;
#[cfg(not(miri))]
use explore::{explore, explore_some, preempt, thread};
#[cfg(miri)]
use once::{explore, explore_some, preempt, thread};
use scene::Scene;
