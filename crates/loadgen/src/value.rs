//! Values that a reader can verify.

use crate::mix::mix;

/// Replaces `value` with the value of `seed`: `value_bytes` arbitrary bytes, including line ends.
/// Different seeds give different values, so that a misplaced, stale or damaged value is detected.
pub fn write_value(seed: u64, value_bytes: usize, value: &mut Vec<u8>) {
    value.clear();
    value.reserve(value_bytes + 8);
    // Mixes the seed again, so that the values of adjacent seeds have no common 8-byte words.
    let mut word = mix(seed);
    while value.len() < value_bytes {
        value.extend_from_slice(&mix(word).to_le_bytes());
        word = word.wrapping_add(1);
    }
    value.truncate(value_bytes);
}

/// True if `value` is the value of `seed`.
pub fn is_value(seed: u64, value: &[u8]) -> bool {
    let mut word = mix(seed);
    let (words, rest) = value.as_chunks::<8>();
    for found in words {
        if *found != mix(word).to_le_bytes() {
            return false;
        }
        word = word.wrapping_add(1);
    }
    mix(word).to_le_bytes().starts_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_depends_on_its_seed_and_length_only() {
        let (mut one, mut again, mut other) = (Vec::new(), b"rest".to_vec(), Vec::new());
        for value_bytes in [0, 1, 7, 8, 9, 1000] {
            write_value(1, value_bytes, &mut one);
            write_value(1, value_bytes, &mut again);
            assert_eq!((one.len(), &one), (value_bytes, &again));
        }
        write_value(2, 1000, &mut other);
        assert_ne!(one, other);
    }

    #[test]
    fn a_value_with_one_changed_byte_is_detected() {
        let mut value = Vec::new();
        for value_bytes in [0, 1, 7, 8, 9, 100] {
            write_value(3, value_bytes, &mut value);
            assert!(is_value(3, &value), "{value_bytes}");
            for at in 0..value_bytes {
                value[at] ^= 1;
                assert!(!is_value(3, &value), "{value_bytes} {at}");
                value[at] ^= 1;
            }
        }
        assert!(!is_value(4, &value));
    }
}
