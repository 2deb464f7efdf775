//! The keyed hash of a key, which is part of the region's format.

use rapidhash::v3::rapidhash_v3_seeded;

use crate::index::Index;

impl Index {
    /// Hashes a key: rapidhash v3 with secrets made from the region's seed. docs/region-format.md
    /// describes it completely, for readers in other languages; conformance/region/hash.json
    /// contains test vectors for all of them.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        rapidhash_v3_seeded(key, &self.secrets)
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use std::fmt::Write;
    use std::path::Path;
    use std::{env, fs};

    use larder_item::KEY_BYTES_MAX;

    use crate::engine::Engine;
    use crate::fixtures::SMALL;
    use crate::open::Config;

    /// Arbitrary seeds, and the extreme values.
    const SEEDS: [u64; 5] = [0, 1, 0x0123_4567_89AB_CDEF, 1 << 63, u64::MAX];

    fn engine(hash_seed: u64) -> Engine {
        Engine::create(&Config { hash_seed, ..SMALL }).unwrap()
    }

    fn vectors() -> String {
        let mut out = String::from(
            "{\n  \"about\": \"rapidhash v3 with secrets made from a seed; hashes[n - 1] is of the key with n bytes, of \
             which byte i is (31 n + 17 i) mod 256\",\n  \"seeds\": [\n",
        );
        for seed in SEEDS {
            let engine = engine(seed);
            let hash = |bytes: usize| {
                let key: Vec<u8> = (0..bytes).map(|i| (31 * bytes + 17 * i) as u8).collect();
                format!("\"{:016x}\"", engine.index().hash(&key))
            };
            let hashes: Vec<String> = (1..=KEY_BYTES_MAX).map(hash).collect();
            let lines: Vec<String> = hashes.chunks(6).map(|line| line.join(", ")).collect();
            let end = if seed == u64::MAX { "" } else { "," };
            let lines = lines.join(",\n      ");
            writeln!(
                out,
                "    {{\"seed\": \"{seed:016x}\", \"hashes\": [\n      {lines}\n    ]}}{end}"
            )
            .unwrap();
        }
        out + "  ]\n}\n"
    }

    #[test]
    fn keys_hash_to_the_published_test_vectors() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/region/hash.json");
        if env::var_os("LARDER_BLESS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, vectors()).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == vectors(),
            "keys hash otherwise than conformance/region/hash.json says: that is another format. Where it is meant: \
             LARDER_BLESS=1 cargo test -p larder-engine keys_hash"
        );
    }
}
