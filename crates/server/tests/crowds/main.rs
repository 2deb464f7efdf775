//! Thousands of connections at the same time. The tests raise the limit of open files of their
//! process, so they are in a separate program.

mod hostile;
mod readers;

use std::path::PathBuf;

/// Returns the larderd to test.
fn binary() -> PathBuf {
    larder_testkit::server::larderd(env!("CARGO_BIN_EXE_larderd"))
}
