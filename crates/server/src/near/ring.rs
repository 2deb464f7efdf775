//! Which origin each key belongs to: libmemcached's ketama with weights.
//!
//! Each origin has points on a circle of 32-bit hashes, about 160 times its share of the weights. A
//! key belongs to the origin of the first point at or after its hash. If a weight changes, few keys
//! move. The hashes are MD5, and the points and their order are those of libmemcached's weighted
//! ketama, including its rounding in `float`, so that a program that uses the servers itself finds
//! the same owners.

use larder_options::Origin;
use md5::{Digest, Md5};

use super::weights::Weights;

/// The points of all origins.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Hashes, in ascending order, with the numbers of their origins.
    points: Box<[(u32, u16)]>,
    weights: Weights,
}

impl Ring {
    pub(super) fn new(origins: &[Origin], weights: Weights) -> Self {
        let mut points = Vec::new();
        for (number, origin) in origins.iter().enumerate() {
            let name = origin.address.ketama_name();
            for sum in 0..weights.sums_of(number) {
                let sum: [u8; 16] = Md5::digest(format!("{name}-{sum}")).into();
                let (hashes, _) = sum.as_chunks::<HASH_BYTES>();
                let hashes = hashes.iter().map(|bytes| u32::from_le_bytes(*bytes));
                points.extend(hashes.map(|hash| (hash, number as u16)));
            }
        }
        // Origins with the same hash stay in their order.
        points.sort_by_key(|(hash, _)| *hash);
        Self { points: points.into(), weights }
    }

    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Returns the number of the origin that a key belongs to.
    pub(super) fn owner_of(&self, key: &[u8]) -> usize {
        let sum: [u8; 16] = Md5::digest(key).into();
        let hash = sum.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let at = self.points.partition_point(|(point, _)| *point < hash);
        // After the last point the circle begins again.
        let owner = self.points.get(at).or(self.points.first());
        owner.map_or(0, |(_, origin)| usize::from(*origin))
    }

    /// Returns the part of all hashes that belongs to each origin.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.weights.count()];
        let mut before = self.points.last().map_or(0, |(hash, _)| *hash);
        for (hash, origin) in &self.points {
            shares[usize::from(*origin)] += f64::from(hash.wrapping_sub(before)) / CIRCLE;
            before = *hash;
        }
        shares
    }
}

const HASH_BYTES: usize = 4;

/// The number of hashes.
const CIRCLE: f64 = 4_294_967_296.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(list: &str) -> Ring {
        let origins = Origin::parse_list(list).expect("a list of origins");
        let weights = Weights::given(&origins).expect("each origin has points");
        Ring::new(&origins, weights)
    }

    /// The owners of the keys key:0 to key:99 in libmemcached 1.1.4, with MD5 and weighted ketama.
    #[test]
    fn the_owners_of_keys_are_those_of_libmemcached() {
        for (list, owners) in [
            (
                "10.0.1.1:11211,10.0.1.2:11211,10.0.1.3:11211,10.0.1.4:11211,cache.example:11211",
                "3343312233013121120104311240413242422221314020124331041430130103443421303443321433212320130404421101",
            ),
            (
                "10.0.1.1:11211,10.0.1.2:11212,10.0.1.3:22122,10.0.1.4:1,cache.example:11211",
                "0314333303123403020134302140304343224231214130112323231410110310431423301420103210213340030401221223",
            ),
            (
                "/run/a.sock,/run/b.sock,10.0.1.1:11211",
                "1001112022211120211112121122120200110101001222112012200211102121011002122020021002111012202121201120",
            ),
            (
                "10.0.1.1:11211:600,10.0.1.2:11212:300,10.0.1.3:22122:200,10.0.1.4:1:350,cache.example:11211:1000",
                "0314333003103400024144302140300043444431414130444444030410144310431404301424404440244440030404421120",
            ),
            (
                "10.0.1.1:11211,10.0.1.2:11211,10.0.1.3:11211:100,10.0.1.4:11211,cache.example:11211",
                "2222222222222222222222222222222222222222222222222222222222222222222222322222222222242222222222222222",
            ),
        ] {
            let ring = ring(list);
            let found: String = (0..100)
                .map(|key| ring.owner_of(format!("key:{key}").as_bytes()).to_string())
                .collect();
            assert_eq!(found, owners, "{list}");
        }
    }

    #[test]
    fn shares_follow_weights() {
        let shares = ring("a:1:1,b:1:2,c:1:5").shares();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
        for (share, expected) in shares.iter().zip([0.125, 0.25, 0.625]) {
            assert!((share - expected).abs() < 0.05, "{shares:?}");
        }
    }

    #[test]
    fn few_keys_move_when_a_weight_changes() {
        let (before, after) = (ring("a:1,b:1,c:1,d:1"), ring("a:1,b:1,c:1,d:1:2"));
        let owners = (0..10_000).map(|key: u32| {
            (before.owner_of(&key.to_le_bytes()), after.owner_of(&key.to_le_bytes()))
        });
        let moved: Vec<_> = owners.filter(|(before, after)| before != after).collect();
        // The share of the last one grows from 0.25 to 0.4.
        assert!((1000..2200).contains(&moved.len()), "{} of 10000", moved.len());
    }

    /// A server that clients know by name may be encrypted for the near cache only.
    #[test]
    fn tls_does_not_change_the_owners() {
        let (plain, tls) = (ring("a:1,b:1"), ring("tls:a:1,tls:b:1"));
        assert!(
            (0..1000u32).all(|key| {
                plain.owner_of(&key.to_le_bytes()) == tls.owner_of(&key.to_le_bytes())
            })
        );
    }
}
