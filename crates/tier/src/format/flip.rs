//! Finds one flipped bit by its effect on a checksum.
//!
//! CRC-32 is linear: flipping a bit changes the checksum by a value that depends only on the
//! distance of the bit from the end. These values are all different in messages shorter than 512
//! MiB, because the polynomial is primitive (Peterson and Brown, *Cyclic Codes for Error
//! Detection*, 1961).

/// The polynomial of CRC-32, its lowest power in the highest bit.
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// Repairs one flipped bit if it explains why the checksum of `bytes` is `found` and not `stored`.
/// The bit can be in `bytes` or in the stored checksum. Returns false if no single bit explains the
/// difference.
///
/// Damage to several bits looks like a single flip with a probability of `bytes.len()` / 2²⁹. The
/// caller must check the fields.
///
/// Cost: one step per bit.
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
