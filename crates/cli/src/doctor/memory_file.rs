//! The state of a memory file.

use larder::Inspection;
use larder_loadgen::argument::{counted, were};

use super::Finding;

/// Examines a memory file.
pub(super) fn examine(inspection: &Inspection) -> Vec<Finding> {
    [is_old, has_killed_processes].into_iter().filter_map(|rule| rule(inspection)).collect()
}

fn is_old(inspection: &Inspection) -> Option<Finding> {
    (!inspection.is_of_this_boot()).then(|| {
        let items = counted(inspection.report().items, "item");
        let sentence = format!(
            "the file is older than the last boot of this system: the next larderd that uses it \
             begins empty. Its {items} can be saved first: larder export FILE items.dump"
        );
        Finding::new("file-old", sentence)
    })
}

fn has_killed_processes(inspection: &Inspection) -> Option<Finding> {
    if !inspection.knows_liveness() || !inspection.is_of_this_boot() {
        return None;
    }
    let killed = inspection.peers().iter().filter(|peer| !peer.lives).count();
    (killed > 0).then(|| {
        let killed = were(killed as u64, "process");
        let sentence = format!(
            "{killed} killed while using the file, and their unfinished changes are not repaired: \
             start larderd with the file, or run larder fsck"
        );
        Finding::new("file-killed", sentence)
    })
}
