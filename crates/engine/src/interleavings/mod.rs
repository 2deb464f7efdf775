//! The engine under every order of its threads that matters: what readers, writers and evictors promise
//! each other, one test a promise.
//!
//! The engine is the real one. Its threads are tasks of `shuttle`, which may let another go on before any
//! access to the region, and in the middle of any copy. A test describes one [`Scene`](stage::Scene) and what must hold
//! at its end; [`explore`](stage::explore) plays it again and again, each time in another order. What is explored is
//! sequentially consistent. Whether the memory orderings suffice is for Miri to say, which plays the same
//! scenes (docs/concurrency.md).

mod items;
mod memory;
mod stage;
