//! Which of several servers each key belongs to: libmemcached's ketama with weights.
//!
//! Each server has points on a circle of 32-bit hashes, about 160 times its share of the weights. A
//! key belongs to the server of the first point at or after its hash. If a weight changes, or a
//! server joins or leaves, few keys move. The hashes are MD5, and the points and their order are
//! those of libmemcached's weighted ketama, including its rounding in `float`, so that a program
//! that uses the servers itself finds the same owners.
//!
//! ```
//! use larder_ring::Ring;
//!
//! let ring = Ring::new(&["10.0.1.1", "10.0.1.2", "10.0.1.3"], &[1, 1, 1]);
//! assert_eq!(ring.owner_of(b"key:1"), 2);
//! ```

#![forbid(unsafe_code)]

use md5::{Digest, Md5};

/// The points of all servers.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Hashes, in ascending order, with the numbers of their servers.
    points: Box<[(u32, u16)]>,
    server_count: usize,
}

impl Ring {
    /// Creates the ring of at most 65,536 servers. `names` are those of libmemcached: `host` if the
    /// port is 11211, otherwise `host:port`, and `path:0` for a unix socket. `weights` has the
    /// weight of each server.
    ///
    /// Cost: 40 MD5 sums for each server.
    pub fn new(names: &[impl AsRef<str>], weights: &[u32]) -> Self {
        let mut points = Vec::new();
        for (number, name) in names.iter().enumerate() {
            for sum in 0..sums_of(weights, number) {
                let sum: [u8; 16] = Md5::digest(format!("{}-{sum}", name.as_ref())).into();
                let (hashes, _) = sum.as_chunks::<HASH_BYTES>();
                let hashes = hashes.iter().map(|bytes| u32::from_le_bytes(*bytes));
                points.extend(hashes.map(|hash| (hash, number as u16)));
            }
        }
        // Servers with the same hash stay in their order.
        points.sort_by_key(|(hash, _)| *hash);
        Self { points: points.into(), server_count: names.len() }
    }

    /// Returns the number of the server that a key belongs to.
    ///
    /// Cost: an MD5 sum and a binary search, about 200 ns.
    pub fn owner_of(&self, key: &[u8]) -> usize {
        self.owner_at(hash_of(key))
    }

    /// Returns the number of the server that the keys with a hash belong to.
    ///
    /// Cost: a binary search.
    pub fn owner_at(&self, hash: u32) -> usize {
        let at = self.points.partition_point(|(point, _)| *point < hash);
        // After the last point the circle begins again.
        let owner = self.points.get(at).or(self.points.first());
        owner.map_or(0, |(_, server)| usize::from(*server))
    }

    /// Returns the part of all hashes that belongs to each server.
    pub fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.server_count];
        let mut before = self.points.last().map_or(0, |(hash, _)| *hash);
        for (hash, server) in &self.points {
            shares[usize::from(*server)] += f64::from(hash.wrapping_sub(before)) / CIRCLE;
            before = *hash;
        }
        shares
    }
}

/// Returns the place of a key on the circle, which is the same for all rings.
pub fn hash_of(key: &[u8]) -> u32 {
    let sum: [u8; 16] = Md5::digest(key).into();
    sum.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Returns the number of MD5 sums of a server, each of which is four points; 0 if its weight is so
/// much lower than the others that it owns no keys. libmemcached computes it in `float`.
pub fn sums_of(weights: &[u32], server: usize) -> u32 {
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let share = weights[server] as f32 / total as f32;
    let sums = share * POINTS / POINTS_PER_SUM * weights.len() as f32;
    ((f64::from(sums) + 0.000_000_000_1) as f32).floor() as u32
}

/// The points of each server if all weights are the same.
const POINTS: f32 = 160.0;
const POINTS_PER_SUM: f32 = 4.0;
const HASH_BYTES: usize = 4;

/// The number of hashes.
const CIRCLE: f64 = 4_294_967_296.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(ring: &Ring) -> Vec<usize> {
        (0..10_000u32).map(|key| ring.owner_of(&key.to_le_bytes())).collect()
    }

    /// The owners of the keys key:0 to key:99 in libmemcached 1.1.4, with MD5 and weighted ketama.
    #[test]
    fn the_owners_of_keys_are_those_of_libmemcached() {
        let names = ["10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.1.4", "cache.example"];
        let ring = Ring::new(&names, &[1; 5]);
        let found: String = (0..100)
            .map(|key| ring.owner_of(format!("key:{key}").as_bytes()).to_string())
            .collect();
        assert_eq!(
            found,
            "33433122330131211201043112404132424222213140201243310414301301034434213034433214332123201304\
             04421101"
        );
    }

    #[test]
    fn few_keys_move_when_a_weight_changes() {
        let names = ["a:1", "b:1", "c:1", "d:1"];
        let (before, after) =
            (owners(&Ring::new(&names, &[1; 4])), owners(&Ring::new(&names, &[1, 1, 1, 2])));
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        // The share of the last one grows from 0.25 to 0.4.
        assert!((1000..2200).contains(&moved), "{moved} of 10000");
    }

    #[test]
    fn keys_move_only_to_a_server_that_joins() {
        let names = ["a:1", "b:1", "c:1", "d:1"];
        let (before, after) =
            (owners(&Ring::new(&names[..3], &[1; 3])), owners(&Ring::new(&names, &[1; 4])));
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
        assert!(moved.clone().all(|(_, after)| *after == 3), "some keys moved between the others");
        assert!((2000..3000).contains(&moved.count()));
    }
}
