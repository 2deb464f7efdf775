//! The disk tier in the status document, in addition to its rows of `stats larder`.

use larder_options::TierMode;
use serde_json::{Value, json};

use crate::server::Server;

/// Returns the settings of the disk tier and its trouble; null without a disk tier.
pub(super) fn tier(server: &Server) -> Value {
    let (Some(terms), Some(status)) = (&server.options.disk_tier, server.cache.tier()) else {
        return Value::Null;
    };
    // A cache syncs its writes, but a crash empties it, so its changes are never durable.
    let (mode, durability) = match terms.mode {
        TierMode::Store => ("store", Some(terms.durability.to_string())),
        TierMode::Cache => ("cache", None),
    };
    json!({ "mode": mode, "durability": durability, "trouble": status.trouble })
}
