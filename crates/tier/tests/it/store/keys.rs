//! Keys that the catalog cannot distinguish: both keys of a pair have the same partition and the
//! same tag.

use std::collections::HashMap;
use std::sync::OnceLock;

use larder_tier::format::KeyHasher;

use super::HASH_KEY;

/// Returns the bits of a key in the catalog: 12 bits for the table and a tag of 21.
fn filed_by(hasher: &KeyHasher, key: &[u8]) -> (u64, u64) {
    let low = hasher.identity(key) as u64;
    (low & 0xFFF, low >> 43)
}

/// Returns pairs of keys that share a tag. They are the same in each run.
pub(crate) fn pairs() -> &'static [[Vec<u8>; 2]] {
    static PAIRS: OnceLock<Vec<[Vec<u8>; 2]>> = OnceLock::new();
    PAIRS.get_or_init(|| {
        let hasher = KeyHasher::new(&HASH_KEY);
        let (mut seen, mut pairs) = (HashMap::new(), Vec::new());
        for number in 0..1_200_000_u32 {
            let key = format!("k{number}").into_bytes();
            if let Some(other) = seen.insert(filed_by(&hasher, &key), number) {
                pairs.push([format!("k{other}").into_bytes(), key]);
            }
        }
        pairs
    })
}
