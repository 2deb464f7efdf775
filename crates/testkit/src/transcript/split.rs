//! Cuts the bytes of a client into pieces.

use std::fmt;

/// A way to cut the bytes. Responses must not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// All bytes in one piece.
    Whole,
    /// One byte at a time. The middle of long input is cut into larger pieces to limit the time.
    Bytes,
    /// Pieces of random length.
    Random {
        /// Determines the lengths.
        seed: u64,
    },
}

impl Split {
    /// Returns the lengths of the pieces for `bytes` bytes.
    pub fn pieces(self, bytes: usize) -> Vec<usize> {
        let mut lengths = Vec::new();
        let mut random = if let Self::Random { seed } = self { seed } else { 0 };
        let mut done = 0;
        while done < bytes {
            let rest = bytes - done;
            let length = match self {
                Self::Whole => rest,
                Self::Bytes if done < SINGLE_BYTES || rest <= SINGLE_BYTES => 1,
                Self::Bytes => (rest - SINGLE_BYTES).min(ODD_LENGTH),
                Self::Random { .. } => random_length(&mut random).min(rest),
            };
            lengths.push(length);
            done += length;
        }
        lengths
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("whole"),
            Self::Bytes => f.write_str("byte by byte"),
            Self::Random { seed } => write!(f, "random pieces, LARDER_SEED={seed}"),
        }
    }
}

/// Returns a length that is usually short, and sometimes longer than a buffer.
fn random_length(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    let magnitude = 1_usize << (bits % 16);
    1 + (bits >> 16) as usize % magnitude
}

const SINGLE_BYTES: usize = 600;
const ODD_LENGTH: usize = 4093;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_to_the_whole() {
        for split in [Split::Whole, Split::Bytes, Split::Random { seed: 7 }] {
            for bytes in [0, 1, 2, 5000, 5001, 1 << 20] {
                let pieces = split.pieces(bytes);
                assert_eq!(pieces.iter().sum::<usize>(), bytes, "{split}");
                assert!(pieces.iter().all(|&length| length > 0), "{split}");
            }
        }
    }

    #[test]
    fn a_seed_determines_the_pieces() {
        let pieces = |seed| Split::Random { seed }.pieces(100_000);
        assert_eq!(pieces(1), pieces(1));
        assert_ne!(pieces(1), pieces(2));
    }
}
