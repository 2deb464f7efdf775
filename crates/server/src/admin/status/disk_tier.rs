//! The disk tier of the document, beside its rows of `stats larder`.

use larder_options::TierMode;
use serde_json::{Value, json};

use crate::server::Server;

/// Returns the terms of the disk tier and its trouble; null without one.
pub(super) fn tier(server: &Server) -> Value {
    let (Some(terms), Some(status)) = (&server.options.disk_tier, server.cache.tier()) else {
        return Value::Null;
    };
    // A cache syncs what it writes, but a crash empties it: no change of it is ever durable.
    let (mode, durability) = match terms.mode {
        TierMode::Store => ("store", Some(terms.durability.to_string())),
        TierMode::Cache => ("cache", None),
    };
    json!({ "mode": mode, "durability": durability, "trouble": status.trouble })
}
