//! A small generator of random numbers for tests.

/// A sequence of numbers that its seed determines (Marsaglia, "Xorshift RNGs", 2003).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the sequence of a seed other than 0. Each thread needs a different seed.
    pub fn with_seed(seed: u64) -> Self {
        assert_ne!(seed, 0, "the sequence of the seed 0 is all zeros");
        Self(seed)
    }

    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "the sequence has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns one of the choices.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
