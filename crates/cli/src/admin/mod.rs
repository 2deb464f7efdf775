//! Subcommands that use larderd's admin listener, its HTTP server for operators.
//!
//! | file | what it does |
//! |---|---|
//! | `address.rs` | the options `--server` and `--token-file`, and their defaults |
//! | `client.rs` | HTTP requests and their responses |
//! | `refusal.rs` | the messages for responses that are errors |
//! | `drain.rs` | `larder drain` |
//! | `kill.rs` | `larder kill` |
//! | `keys.rs` | `larder keys` |
//! | `removal.rs` | `larder delete --prefix` |
//! | `hot.rs` | `larder hot` |
//! | `prefixes.rs` | `larder prefixes` |
//! | `json.rs` | reads members of the responses, among them keys |

pub(crate) mod address;
pub(crate) mod client;
pub(crate) mod drain;
pub(crate) mod hot;
pub(crate) mod json;
pub(crate) mod keys;
pub(crate) mod kill;
pub(crate) mod prefixes;
mod refusal;
pub(crate) mod removal;
