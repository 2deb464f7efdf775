//! The tests of the test kit, and those that read the whole tree, in one program: each file is a
//! module.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod arrows;
mod book;
mod figures;
mod identifiers;
mod memcached;
mod plain;
mod platforms;
mod programs;
mod proxy;
mod region_format;
mod tidy;
mod tracked;
mod variables;

use std::path::{Path, PathBuf};

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}
