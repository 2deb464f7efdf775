//! The identifier of a connection in events.

/// Identifies a connection of a worker, even after it is closed: a token is reused only after a
/// very long time. As a number it has 60 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token {
    place: u32,
    generation: u32,
}

impl Token {
    /// Creates the token of the connection that is number `generation` in a slot.
    pub(crate) fn new(place: u32, generation: u32) -> Self {
        Self { place, generation }
    }

    /// Returns the number of the slot.
    pub(crate) fn place(self) -> u32 {
        self.place
    }

    /// Returns how many connections used the slot before this one.
    pub(crate) fn generation(self) -> u32 {
        self.generation
    }

    /// Returns the generation of the next connection in the same slot.
    pub(crate) fn next_generation(self) -> u32 {
        (self.generation + 1) % GENERATIONS
    }
}

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        Self::from(token.generation) << 32 | Self::from(token.place)
    }
}

impl From<u64> for Token {
    fn from(bits: u64) -> Self {
        Self { place: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// How many connections use a slot before a token repeats.
const GENERATIONS: u32 = 1 << 28;
