//! Items that a restart would lose.

use larder_loadgen::argument::counted;

use super::facts::Facts;
use super::{Finding, Rule};

pub(super) const RULES: &[Rule] = &[loses_items];

fn loses_items(facts: &Facts) -> Option<Finding> {
    let items = facts.number("curr_items");
    let is_private = facts.setting("memory_file") == "(null)";
    let is_larder = facts.number("segment_bytes") > 0;
    let has_disk = !facts.setting("tier_path").is_empty();
    // The items of a near cache are copies.
    let is_near = !facts.word("near_state").is_empty();
    (is_larder && !is_near && is_private && !has_disk && items > 0).then(|| {
        let items = counted(items, "item");
        let sentence = format!(
            "a restart loses the items of the cache ({items}): start larderd with -e FILE on a \
             tmpfs or with --tier-path to keep them, or pass --ignore restart to larder doctor if \
             that is intended"
        );
        Finding::new("restart", sentence)
    })
}
