//! Bytes to commands.

use crate::Parsed;

/// Finds the commands in a connection's bytes.
#[derive(Clone, Debug, Default)]
pub struct Parser {}

impl Parser {
    /// Looks at the bytes that have arrived and are not used up yet.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Parsed<'a> {
        let _ = input;
        Parsed::NeedMore
    }
}
