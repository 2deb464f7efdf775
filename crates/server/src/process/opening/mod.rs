//! Serves clients while the cache opens, which may take minutes if a disk tier must read its log.
//!
//! ```text
//! cache opens within 100 ms ─▶ the workers serve, and nothing of this is seen
//! otherwise ─▶ a thread accepts; version, stats and mn are answered,
//!              other requests wait, then fail ─▶ the workers get the connections
//! ```
//!
//! A connection is passed on to a worker, which must receive every request that has no response
//! yet. So this module first only peeks at a request in the kernel's buffer, and removes it from
//! the socket once it has the response.

mod exchange;
mod guest;
mod opens;
mod room;
#[cfg(test)]
mod tests;

pub(crate) use opens::Opens;
pub(crate) use room::Opening;
