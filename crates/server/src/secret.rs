//! Comparing secrets.

use std::hint::black_box;

/// Compares a secret with a claim. The duration must not reveal how many bytes match, so the loop
/// always visits all bytes of the shorter one, and `black_box` prevents the compiler from leaving
/// it early. The duration may reveal the length.
pub(crate) fn equal(secret: &[u8], claim: &[u8]) -> bool {
    let pairs = secret.iter().zip(claim);
    let difference =
        pairs.fold(0, |difference, (left, right)| black_box(difference | (left ^ right)));
    secret.len() == claim.len() && difference == 0
}
