//! Small engines for tests.

use larder_item::Epoch;

use crate::open::Config;

/// A cache of one mebibyte with eviction and versions.
pub(crate) const SMALL: Config = Config {
    memory_bytes: 1 << 20,
    memory_bytes_max: 1 << 20,
    huge_pages: false,
    item_bytes_max: 1 << 18,
    keeps_versions: true,
    evicts: true,
    hash_seed: 1,
    epoch: Epoch { unix_secs: 0 },
    peers: 0,
};

/// Returns two peers of one small region.
#[cfg(not(any(feature = "interleavings", miri)))]
pub(crate) fn two_peers() -> (crate::engine::Engine, crate::engine::Engine) {
    two_peers_of(&SMALL)
}

/// Returns two peers of one region.
#[cfg(not(any(feature = "interleavings", miri)))]
pub(crate) fn two_peers_of(config: &Config) -> (crate::engine::Engine, crate::engine::Engine) {
    use larder_region::{Locks, Memory};

    use crate::engine::Engine;
    use crate::superblock::{AttachError, Birth};

    let bytes = Engine::shared_bytes(config).unwrap();
    let memory = Memory::shared_anonymous(bytes).unwrap();
    let locks = Locks::anonymous().unwrap();
    let (again, relocked) = (memory.again(), locks.reopened().unwrap());
    let one = Engine::create_shared(memory, locks, config, &Birth::default()).unwrap();
    let check = |_: &Config, _: &Birth| Ok::<(), AttachError>(());
    (one, Engine::attach(again, relocked, config.item_bytes_max, check).unwrap().peer().unwrap())
}
