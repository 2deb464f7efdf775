//! Request traces to replay.

use std::path::PathBuf;

/// The folder of the request traces: the one that environment variable `LARDER_TRACES` names, else
/// `shared/traces` beside the checkout. `None`, with a line that says so, where it is absent and
/// nobody named one: what needs traces is then skipped.
///
/// # Panics
/// `LARDER_TRACES` names no folder.
pub fn traces() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("LARDER_TRACES") {
        let folder = PathBuf::from(folder);
        assert!(folder.is_dir(), "LARDER_TRACES is {}, expected a folder", folder.display());
        return Some(folder);
    }
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces"));
    if !folder.is_dir() {
        println!("skipped: there are no traces; name their folder in LARDER_TRACES");
        return None;
    }
    Some(folder)
}
