//! The hash from which traces, keys and values are derived.

/// The finaliser of splitmix64 after its increment: a bijection in which every bit of the result
/// depends on every bit of `number`.
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_of_splitmix64_with_seed_0_is_as_published() {
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
    }
}
