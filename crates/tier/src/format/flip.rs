//! One flipped bit, found by its effect on a checksum.
//!
//! CRC-32 is linear: the flip of a bit changes the checksum by a value that depends only on how far
//! the bit is from the end. These values all differ in less than 512 MiB, because the polynomial is
//! primitive (Peterson and Brown, *Cyclic Codes for Error Detection*, 1961).

/// The polynomial of CRC-32, its lowest power in the highest bit.
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// Flips the bit back that explains why the checksum of `bytes` is `found` and not `stored`: one of
/// `bytes`, or of the stored checksum itself. Returns false if none does.
///
/// Damage of several bits looks like a flip with the probability `bytes.len()` / 2²⁹. The caller
/// checks the fields.
///
/// Cost: a step for each bit.
pub(crate) fn mend(bytes: &mut [u8], found: u32, stored: u32) -> bool {
    let difference = found ^ stored;
    if difference.is_power_of_two() {
        return true;
    }
    let mut change = 1;
    for from_end in 1..=bytes.len() * 8 {
        change = change >> 1 ^ if change & 1 == 1 { POLYNOMIAL } else { 0 };
        if change == difference {
            let bit = bytes.len() * 8 - from_end;
            bytes[bit / 8] ^= 1 << (bit % 8);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flipped_bit_is_found() {
        let whole: Vec<u8> = (0..200_u8).map(|byte| byte.wrapping_mul(37)).collect();
        let stored = crc32fast::hash(&whole);
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = crc32fast::hash(&bytes);
            assert!(mend(&mut bytes, found, stored), "bit {bit}");
            assert_eq!(bytes, whole, "bit {bit}");
        }
        for bit in 0..32 {
            let mut bytes = whole.clone();
            assert!(mend(&mut bytes, stored, stored ^ 1 << bit), "bit {bit} of the checksum");
            assert_eq!(bytes, whole, "bit {bit} of the checksum");
        }
    }

    #[test]
    fn two_flipped_bits_are_not_mended() {
        let whole = vec![7; 200];
        let stored = crc32fast::hash(&whole);
        for (first, second) in [(0, 1), (3, 800), (17, 1599)] {
            let mut bytes = whole.clone();
            bytes[first / 8] ^= 1 << (first % 8);
            bytes[second / 8] ^= 1 << (second % 8);
            let found = crc32fast::hash(&bytes);
            assert!(!mend(&mut bytes, found, stored), "bits {first} and {second}");
        }
    }
}
