//! Which build this is.

/// The version of Larder.
pub const LARDER_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that was built: the first digits of its hash, or `unknown`.
pub const LARDER_COMMIT: &str = env!("LARDER_COMMIT");

/// Both, as programs show them behind their name.
pub const LARDER_BUILD: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("LARDER_COMMIT"), ")");
