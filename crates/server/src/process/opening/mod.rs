//! The time in which the cache opens: a store may read its log for minutes.
//!
//! ```text
//! cache opens within 100 ms ─▶ the workers serve, and nothing of this is seen
//! otherwise ─▶ a thread accepts; version, stats and mn are answered,
//!              other requests wait, then fail ─▶ the workers get the connections
//! ```
//!
//! A connection is handed over with its unread bytes still in the kernel: what a request needs is
//! looked at there first, and is taken only once the request is answered.

mod exchange;
mod guest;
mod room;
#[cfg(test)]
mod tests;

pub(crate) use room::Opening;
