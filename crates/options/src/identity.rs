//! The identity of this build.

/// The version of Larder.
pub const LARDER_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit of the build: the first digits of its hash, or `unknown`.
pub const LARDER_COMMIT: &str = env!("LARDER_COMMIT");

/// Version, commit and date of the commit (or of `SOURCE_DATE_EPOCH`), as the tool shows them after
/// its name.
pub const LARDER_BUILD: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("LARDER_COMMIT"),
    ", ",
    env!("LARDER_DATE"),
    ")"
);

/// Same as [`LARDER_BUILD`], but with the features of larderd, which larderd shows after its name.
pub const LARDERD_BUILD: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("LARDER_COMMIT"),
    ", ",
    env!("LARDER_DATE"),
    ", features ",
    env!("LARDER_FEATURES"),
    ")"
);
