//! Random numbers of the system.

use std::hash::{BuildHasher, Hasher, RandomState};

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns a random number of the system.
pub(crate) fn random() -> u64 {
    u64::from_ne_bytes(random_bytes())
}

/// Returns random bytes of the system.
pub(crate) fn random_bytes<const COUNT: usize>() -> [u8; COUNT] {
    const { assert!(COUNT <= 256, "longer requests may be interrupted") };
    let mut bytes = [0; COUNT];
    if getrandom(&mut bytes, GetRandomFlags::empty()) != Ok(COUNT) {
        // A sandbox refuses the call. The standard library finds another source, or ends the
        // process.
        for part in bytes.chunks_mut(8) {
            let number = RandomState::new().build_hasher().finish().to_ne_bytes();
            part.copy_from_slice(&number[..part.len()]);
        }
    }
    bytes
}
