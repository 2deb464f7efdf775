//! The outcome of a subcommand.

/// The outcome of a subcommand that ran without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The subcommand did everything that the user requested.
    Done,
    /// An item is missing, an item was not stored, or a check failed. The reason is on stderr.
    Missed,
}
