//! Request traces to replay.

use std::path::PathBuf;

/// Returns the folder of the request traces: the environment variable `LARDER_TRACES`, or
/// `shared/traces` in the parent folder of the checkout. Returns `None` and prints a line if the
/// default does not exist. Then tests that need traces are skipped.
///
/// # Panics
/// `LARDER_TRACES` does not name a folder.
#[track_caller]
pub fn traces() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("LARDER_TRACES") {
        let folder = PathBuf::from(folder);
        assert!(folder.is_dir(), "LARDER_TRACES is {}, expected a folder", folder.display());
        return Some(folder);
    }
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces"));
    if !folder.is_dir() {
        crate::skip("no traces found: set LARDER_TRACES to their folder");
        return None;
    }
    Some(folder)
}
