//! larderd: the cache as a daemon, a drop-in for memcached.
//!
//! ```text
//! listener ─▶ inbox ─▶ worker ─▶ connection ─▶ session ─▶ execute ─▶ cache
//! ```
//!
//! One listener accepts connections and hands them to the workers in turn; a worker is a thread with an
//! io_uring, or an epoll instance, of its own, and no request ever leaves it. A session turns bytes into commands
//! and responses into bytes, and performs no I/O.
//!
//! **System calls**: with io_uring one for each turn of the loop, whatever came and whatever is sent: the kernel
//! receives into buffers that the worker has given it, and sends with the next wait. With epoll a request that comes
//! alone costs one receive, one send and its share of one wait; those that come together share all three. Either
//! way a worker lets the memory fetch what the keys of up to 16 connections lead to, executes, and sends. TLS and UDP
//! receive and send by themselves on both, and the ring tells them when.
//!
//! **Memory**: a worker has 128 KiB for input, with io_uring 2 MiB more, and at most 4 MiB for answers, which its
//! connections use in turn. A connection that waits for a command has none. Answers are rendered as the socket takes
//! them: a connection whose peer does not read keeps at most 64 KiB and one value in one piece, and at most as much
//! input that came meanwhile. Together connections keep at most 64 MiB beyond 16 KiB each: when half of that is in use
//! every connection renders and receives less at a time (`budget`). Only if they hold more in spite of that the one
//! is closed that holds most and makes no progress. Large values are sent from the cache's own memory: until they are sent their segments are held, a quarter of all segments
//! at most, beyond which they are copied.
//!
//! **Fairness**: where several connections have something to do, each executes at most `-R` commands in
//! its turn; 50 keys of a list count as a command, statistics as all of a turn's. A connection that is
//! alone goes on, up to 64 KiB of input or output. Every time a connection has used up its commands and has more to do, `conn_yields` is
//! counted.
//!
//! | room | what it owns |
//! |---|---|
//! | `net` | the listener, the workers and their loops (`ring`: io_uring, `poller`: epoll), connections, buffers, UDP |
//! | `tls` | encryption between a socket and a session, certificates, cipher suites |
//! | `session` | bytes to commands and responses to bytes without I/O; `execute` runs the commands |
//! | `admin` | statistics, `watch`, prefix counters, dumps, the crawler, the connection table |
//! | `process` | start and stop, privileges, limits, signals, the service manager, the upgrade |
//!
//! `server` is what all threads share; `clock` reads the time; `log` is what `-v` shows.
#![deny(unsafe_code)]
// The macros panic where nobody reads standard error any more: `log::say` does not.
#![warn(clippy::print_stderr)]

mod admin;
mod clock;
mod log;
mod net;
mod process;
mod server;
mod session;
mod tls;

pub use net::datagrams::reply;
pub use net::output::Output;
pub use process::failure::Failure;
pub use process::start::run;
pub use server::Server;
pub use session::execute::Executor;
pub use session::{Allowance, Next, Progress, Session};
