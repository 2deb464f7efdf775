//! How a peer wants to be answered.

/// The language of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The classic text protocol.
    #[default]
    Text,
}

/// How one command is to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The language of the answer.
    pub dialect: Dialect,
    /// The peer does not want to hear the outcome (`noreply`).
    pub quiet: bool,
}
