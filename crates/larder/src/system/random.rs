//! Random numbers from the operating system.

use std::hash::{BuildHasher, Hasher, RandomState};

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns a random number from the operating system.
pub(crate) fn random() -> u64 {
    u64::from_ne_bytes(random_bytes())
}

/// Returns random bytes from the operating system.
pub(crate) fn random_bytes<const COUNT: usize>() -> [u8; COUNT] {
    const { assert!(COUNT <= 256, "longer requests may be interrupted") };
    let mut bytes = [0; COUNT];
    if getrandom(&mut bytes, GetRandomFlags::empty()) != Ok(COUNT) {
        // A sandbox has refused the call. The standard library finds another source, or panics.
        for part in bytes.chunks_mut(8) {
            let number = RandomState::new().build_hasher().finish().to_ne_bytes();
            part.copy_from_slice(&number[..part.len()]);
        }
    }
    bytes
}
