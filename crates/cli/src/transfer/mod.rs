//! `larder export` and `larder import`: copy items from a server, a memory file or a disk tier to a
//! *dump*, which is a file of items, and from a dump to a server.
//!
//! Values are streamed: both subcommands hold only a few blocks in memory, even if items are large.
//!
//! | file | what it does |
//! |---|---|
//! | `export.rs` | the subcommand; where the dump goes |
//! | `keys.rs` | lists the keys of a server |
//! | `fetch.rs` | fetches the items of these keys, many at a time |
//! | `memory_file.rs` | the items of a cache in a file |
//! | `directory.rs` | the items of the directory of a disk tier |
//! | `import.rs` | the subcommand; which items are sent |
//! | `store.rs` | sends items to a server and reads its answers |
//! | `wire.rs` | keys on the wire; whether a server accepts many requests together |
//! | `salvage.rs` | the items of a damaged directory |
//! | `progress.rs` | progress for the user; the rate limit |

mod directory;
pub(crate) mod export;
pub(crate) mod fetch;
pub(crate) mod import;
pub(crate) mod keys;
mod memory_file;
pub(crate) mod progress;
mod salvage;
mod store;
pub(crate) mod wire;

pub(crate) use fetch::now_unix_secs;
pub(crate) use progress::Progress;
pub(crate) use salvage::{DirectoryProgress, report, summary};
pub(crate) use wire::escaped;
