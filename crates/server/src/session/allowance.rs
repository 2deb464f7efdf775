//! The limits of a turn, and its result.

use crate::buffers::output::OUTPUT_BYTES_HIGH;

/// How much a session may do in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Maximum number of commands to execute.
    pub commands_max: usize,
    /// Maximum number of keys of lists to look up.
    pub keys_max: usize,
    /// The session starts nothing more once its output has this length, not counting pieces that
    /// are sent from the cache's memory. The output exceeds it by at most one contiguous value.
    pub out_bytes_max: usize,
    /// True if the session starts an item only if the item fits into the rest of `out_bytes_max`.
    /// It always starts the first item of an output, because an item longer than the limit could
    /// otherwise never be sent.
    pub is_tight: bool,
}

impl Allowance {
    /// Allows `commands_max` commands, and as much output as a connection may have while memory is
    /// not short.
    pub const fn of_commands(commands_max: usize) -> Self {
        Self {
            commands_max,
            keys_max: usize::MAX,
            out_bytes_max: OUTPUT_BYTES_HIGH,
            is_tight: false,
        }
    }
}

/// The result of [`Session::receive`](super::Session::receive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of input bytes that were consumed.
    pub consumed: usize,
    /// The next action of the caller.
    pub next: Next,
}

/// The event or action that a session waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// Pass more input.
    #[default]
    Input,
    /// Send the output, which is long; then continue with the remaining input.
    Drain,
    /// The session has executed as much as the [`Allowance`] permits. The session can continue with
    /// the remaining input at any time.
    Turn,
    /// The session executed something slow, such as a slice of a list or of statistics. Same as
    /// [`Self::Turn`], but other connections take their turn first, even if none was waiting.
    GiveWay,
    /// Send the output, then the descriptor of the cache's memory; then continue with the remaining
    /// input.
    Region,
    /// Look up the keys of the next commands on the disk; then continue with the remaining input.
    Disk,
    /// Wait for lines for a `watch` client, regardless of input. The session continues when its
    /// worker is woken.
    Lines,
    /// Wait for changes to report on a change stream, or for input. The session continues when its
    /// connection is woken.
    Changes,
    /// Wait until another thread has verified a password or read the certificates, regardless of
    /// input. The session continues when its worker is woken.
    Wake,
    /// Wait for the origin of a near cache, regardless of input. The session continues when its
    /// worker finds its connection in the inbox.
    Origin,
    /// Send the output, then close the connection.
    Close,
}
