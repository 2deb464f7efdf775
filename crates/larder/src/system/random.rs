//! Random numbers from the operating system.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns a random number from the operating system.
pub(crate) fn random() -> u64 {
    u64::from_ne_bytes(random_bytes())
}

/// Returns random bytes from the operating system.
pub(crate) fn random_bytes<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    if getrandom::fill(&mut bytes).is_err() {
        // A sandbox has refused the call. The standard library finds another source, or panics.
        for part in bytes.chunks_mut(8) {
            let number = RandomState::new().build_hasher().finish().to_ne_bytes();
            part.copy_from_slice(&number[..part.len()]);
        }
    }
    bytes
}
