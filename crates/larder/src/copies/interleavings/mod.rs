//! Model tests: the room of the copies with its threads in many orders.
//!
//! The tests run the real code. Its threads are tasks of `shuttle`, which may switch to another
//! thread before any access to a lock or an atomic. A test describes a scene on a
//! [`Stage`](stage::Stage): two or three threads of a near cache with its origin, each a few
//! commands long. Many scenes have the name of a scenario of decision 43, which finds errors of the
//! protocol; the scene finds errors of the code. Every read is judged by the promises of this
//! decision, and so is the state at the end.

mod clock;
mod every_order;
mod flights;
mod keeping;
mod origins;
mod stage;
mod subscriptions;
