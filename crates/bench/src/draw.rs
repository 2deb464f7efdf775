//! Pseudo-random numbers, the same in every run.

/// The finaliser of splitmix64 after its increment: a bijection in which every bit of the result
/// depends on every bit of `number`.
#[inline]
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A generator of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Draws {
    seed: u64,
    drawn: u64,
}

impl Draws {
    /// Creates the generator for a seed. Adjacent seeds have no numbers in common.
    pub fn new(seed: u64) -> Self {
        Self { seed: mix(seed), drawn: 0 }
    }

    /// Returns the next number.
    pub fn next_number(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.seed.wrapping_add(self.drawn))
    }

    /// Returns the next number, below `bound`, which must not be 0. The bias of the remainder is
    /// far below the resolution of a measurement.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_number() % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_of_splitmix64_with_seed_0_is_as_published() {
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn neighbouring_seeds_share_no_numbers() {
        let first = |seed| {
            let mut draws = Draws::new(seed);
            [(); 100].map(|()| draws.next_number())
        };
        assert_eq!(first(1), first(1));
        assert!(first(1).iter().all(|number| !first(2).contains(number)));
    }
}
