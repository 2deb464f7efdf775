//! Subcommands that use larderd's admin listener.
//!
//! | file | what it does |
//! |---|---|
//! | `address.rs` | the options `--server` and `--token-file`, and their defaults |
//! | `client.rs` | a request over HTTP and its answer |
//! | `refusal.rs` | the words for an answer that is an error |
//! | `drain.rs` | `larder drain` |
//! | `keys.rs` | `larder keys` |
//! | `removal.rs` | `larder delete --prefix` |
//! | `hot.rs` | `larder hot` |
//! | `json.rs` | members of the answers; keys among them |

pub(crate) mod address;
pub(crate) mod client;
pub(crate) mod drain;
pub(crate) mod hot;
pub(crate) mod json;
pub(crate) mod keys;
mod refusal;
pub(crate) mod removal;
