//! Which origin each key belongs to.

use larder_options::Origin;

use super::weights::Weights;

/// The ring of the origins, and their weights.
#[derive(Debug)]
pub(crate) struct Ring {
    points: larder_ring::Ring,
    weights: Weights,
}

impl Ring {
    pub(super) fn new(origins: &[Origin], weights: Weights) -> Self {
        let names: Vec<_> = origins.iter().map(|origin| origin.address.ketama_name()).collect();
        Self { points: larder_ring::Ring::new(&names, weights.all()), weights }
    }

    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Returns the number of the origin that a key belongs to.
    pub(super) fn owner_of(&self, key: &[u8]) -> usize {
        self.points.owner_of(key)
    }

    /// Returns the part of all hashes that belongs to each origin.
    pub(crate) fn shares(&self) -> Vec<f64> {
        self.points.shares()
    }
}

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
