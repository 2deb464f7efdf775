//! Two keys that share a place in the index of the disk: a change affects only one of them, and
//! ends in time.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use larder::{Cache, DiskTier, Durability};
use larder_tier::format::KeyHasher;

fn open(path: &Path) -> Cache {
    let disk = DiskTier::new(path, 64 << 20).durability(Durability::Async);
    Cache::builder().memory_bytes(2 << 20).tier(disk).open().unwrap()
}

/// Returns two keys that the index cannot distinguish. Their hashes agree in the 12 bits that
/// select a partition of the index, and in the 21 bits of the tag.
fn pair(path: &Path) -> [String; 2] {
    // The key of the hash; see docs/tier-format.md.
    let manifest = fs::read(path.join("MANIFEST")).unwrap();
    let hasher = KeyHasher::new(manifest[64..80].try_into().unwrap());
    let mut seen = HashMap::new();
    (0..2_000_000_u32)
        .find_map(|number| {
            let key = format!("k{number}");
            let low = hasher.identity(key.as_bytes()) as u64;
            let other = seen.insert((low & 0xFFF, low >> 43), number)?;
            Some([format!("k{other}"), key])
        })
        .expect("of two million keys some share a tag")
}

#[test]
fn a_change_of_an_item_that_only_the_disk_has_ends_although_another_key_shares_its_tag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(open(&path));
    let [a, b] = pair(&path);
    let (sender, done) = channel();
    let changes = thread::spawn(move || {
        let changes: [fn(&Cache, &str); 4] = [
            |cache, key| assert!(cache.delete(key).unwrap()),
            |cache, key| assert_eq!(cache.increment(key, 1).unwrap(), Some(8)),
            |cache, key| assert!(cache.touch(key, Some(Duration::from_secs(100))).unwrap()),
            |cache, key| cache.set(key, "new", None).unwrap(),
        ];
        for change in changes {
            let cache = open(&path);
            cache.set(&a, "7", None).unwrap();
            cache.set(&b, "other", None).unwrap();
            drop(cache);
            // Memory is empty: both items are only on the disk.
            let cache = open(&path);
            change(&cache, &a);
            assert_eq!(cache.get(&b).as_deref(), Some(&b"other"[..]), "the other key stays");
        }
        sender.send(()).unwrap();
    });
    let ended = done.recv_timeout(Duration::from_secs(60));
    assert!(ended.is_ok() || changes.is_finished(), "a change asks the disk without end");
    changes.join().unwrap();
}
