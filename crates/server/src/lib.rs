//! larderd: the cache as a daemon, a drop-in replacement for memcached.
//!
//! ```text
//! listener ─▶ inbox ─▶ worker ─▶ connection ─▶ session ─▶ execute ─▶ cache
//! ```
//!
//! A single listener thread accepts connections and distributes them over the workers in turn. Each
//! worker is a thread with its own io_uring or epoll instance. One worker serves a request from
//! start to end. It serves its connections in turns: a *turn* is the work that it does for one
//! connection before it serves the next. A *session* is the protocol state of a connection. It
//! parses bytes into commands and renders responses into bytes, and performs no I/O.
//!
//! **System calls**: with io_uring a worker makes one system call for each turn of its loop,
//! regardless of how much it receives and sends. The kernel receives into buffers that the worker
//! provides, and the worker submits its sends with its next wait. With epoll a single request costs
//! one receive, one send and its share of one wait. Requests that arrive together share all three.
//! In both cases a worker first prefetches the memory for the keys of up to 16 connections, then
//! executes their commands, then sends the responses. TLS and UDP sockets make their own receive
//! and send calls; for them the ring only reports readiness.
//!
//! **Memory**: each worker has 128 KiB for input (2 MiB more with io_uring) and at most 4 MiB for
//! responses. Its connections use these buffers in turn. A connection that waits for a command
//! holds no buffer. Responses are rendered as the socket accepts them: a connection whose peer does
//! not read keeps at most 64 KiB plus one contiguous value, and at most the same amount of input
//! that arrives in that time.
//!
//! All connections together keep at most 64 MiB beyond 16 KiB each. When half of that is in use,
//! every connection renders and receives less at a time (see `budget`). If connections still exceed
//! the budget, the worker closes the connection that holds the most and makes no progress. Large
//! values are sent directly from the cache's memory. Their segments stay pinned until they are
//! sent. At most a quarter of all segments is pinned; beyond that, values are copied.
//!
//! **Fairness**: when several connections have work to do, each executes at most `-R` commands per
//! turn. Fifty keys of a list count as one command, and a statistics command ends the turn. A
//! connection with no competitors continues, up to 64 KiB of input or output. `conn_yields` counts
//! how often a connection uses up its commands and has more to do.
//!
//! The modules from the top down. Each module imports only modules below it:
//!
//! | module | contents |
//! |---|---|
//! | `process` | start and stop, privileges, limits, signals, the service manager, the upgrade, the answers to clients while the cache opens |
//! | `admin` | the admin listener: health, readiness, metrics and items over HTTP |
//! | `net` | the listener, the workers and their loops (`ring`: io_uring, `poller`: epoll), connections, UDP |
//! | `session` | bytes to commands and responses to bytes without I/O; `execute` runs the commands |
//! | `stats` | the responses of `stats` |
//! | `server` | the state that all threads share: the cache, passwords, leases |
//! | `users` | users with rights: their file, logins, the permission of a connection |
//! | `warming` | copies of items that `larder warm` makes into the server while clients use it |
//! | `followers` | near caches: which items they may have copied, and the streams that report changes to them |
//! | `near` | a near cache: the copies, the thread that has the connections to the origin, and which commands it passes on |
//! | `discovery` | the servers of the cluster, which clients discover: their file or their DNS name |
//! | `restore` | the dump that a stop writes and a start loads, and the limit on the lives of restored items |
//! | `observe` | `watch`, prefix counters, dumps, the crawler, size classes, the connection table |
//! | `memory` | the memory that the process may use, and `-m` as a percentage of it |
//! | `tls` | encryption between a socket and a session, certificates, cipher suites |
//! | `buffers` | output, backlog and the budget of all connections |
//! | `watched` | the thread that reads files again when they change |
//! | `clock`, `log`, `stop`, `succession`, `waker`, `priority`, `secret`, `failure`, `leftovers`, `words` | the time, the lines on standard error, the request to stop, the other process of an upgrade, waking a thread, its priority, comparing secrets, the error of a server that does not start, its files, helpers for messages |
#![deny(unsafe_code)]
// These macros panic when standard error is closed; the log does not.
#![warn(clippy::print_stderr)]

mod admin;
mod buffers;
mod clock;
mod discovery;
mod failure;
mod followers;
mod leftovers;
mod log;
mod memory;
mod near;
mod net;
mod observe;
mod priority;
mod process;
mod restore;
mod secret;
mod server;
mod session;
mod stats;
mod stop;
mod succession;
mod tls;
mod users;
mod waker;
mod warming;
mod watched;
mod words;

pub use buffers::output::Output;
pub use failure::Failure;
pub use memory::bound as memory_bound;
pub use net::datagrams::reply;
pub use process::check::check;
pub use process::start::run;
pub use process::steps::Step;
pub use server::Server;
pub use session::execute::Executor;
pub use session::{Allowance, Next, Progress, Session};
pub use users::file::{Entry as UserEntry, EntrySecret as UserSecret, parse as parse_users};
