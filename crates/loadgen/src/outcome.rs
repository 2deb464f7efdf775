//! The outcome of a subcommand.

/// The outcome of a subcommand that ran without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The subcommand did all that the caller asked for.
    Done,
    /// An item is missing, nothing was stored, or a check failed; stderr says which.
    Missed,
}
