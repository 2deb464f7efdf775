//! The identity of this build.

/// The version of Larder.
pub const LARDER_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit of the build: the first digits of its hash, or `unknown`.
pub const LARDER_COMMIT: &str = env!("LARDER_COMMIT");

/// Version and commit, as programs show them after their name.
pub const LARDER_BUILD: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("LARDER_COMMIT"), ")");
