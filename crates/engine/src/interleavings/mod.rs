//! Model tests: the engine with its threads in many orders. Each test states one guarantee that
//! readers, writers and evictors give each other.
//!
//! The tests run the real engine. Its threads are tasks of `shuttle`, which may switch to another
//! thread before any access to the region and in the middle of any copy. A test describes a
//! [`Scene`](stage::Scene), which is a small engine with the threads that use it at the same time,
//! and the conditions at its end. [`explore`](stage::explore) runs ("plays") the scene repeatedly,
//! each time with the steps of its threads in another order, under sequential consistency. Miri
//! plays the same scenes to check the memory orderings (docs/concurrency.md).

mod items;
mod memory;
mod stage;
