//! The limits of a turn, and its result.

use crate::buffers::output::OUTPUT_BYTES_HIGH;

/// How much a session may do in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// How many commands it executes.
    pub commands_max: usize,
    /// How many keys of lists it looks up.
    pub keys_max: usize,
    /// The session starts nothing more once its output has this length, without the pieces that are
    /// sent from the cache's memory. It exceeds that by one contiguous value at most.
    pub out_bytes_max: usize,
    /// True if an item is started only if it fits the rest of that length. The first item of an
    /// output is always started.
    pub is_tight: bool,
}

impl Allowance {
    /// Allows `commands_max` commands, and the output of a connection while memory is not short.
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
    /// How many bytes of the input have been consumed.
    pub consumed: usize,
    /// What the caller must do next.
    pub next: Next,
}

/// What a session waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// Pass more input.
    #[default]
    Input,
    /// Send the output, which is long; then continue with the remaining input.
    Drain,
    /// The turn is used up. The session can continue with the remaining input at any time.
    Turn,
    /// The session did something slow. As [`Self::Turn`], but others get their turn first, even if
    /// none was waiting.
    GiveWay,
    /// Send the output, then the cache's memory; then continue with the remaining input.
    Region,
    /// Look the keys of the next commands up on the disk; then continue with the remaining input.
    Disk,
    /// Wait for watch lines, regardless of input. The session continues when its worker is woken.
    Lines,
    /// Send the output, then close the connection.
    Close,
}
