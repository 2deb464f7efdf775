//! Serves clients while the cache opens. A store may read its log for minutes.
//!
//! ```text
//! cache opens within 100 ms ─▶ the workers serve, and nothing of this is seen
//! otherwise ─▶ a thread accepts; version, stats and mn are answered,
//!              other requests wait, then fail ─▶ the workers get the connections
//! ```
//!
//! A connection is passed on while its unread bytes are still in the kernel: this module only peeks
//! at a request first, and removes it from the socket once it has the response.

mod exchange;
mod guest;
mod room;
#[cfg(test)]
mod tests;

pub(crate) use room::Opening;
