//! `larder inspect` and `larder fsck` on a cache that the test keeps in a file.

use std::path::Path;
use std::time::Duration;

use larder::Cache;
use tempfile::TempDir;

use super::larder;

fn cache_in(folder: &TempDir) -> (Cache, String) {
    let path = folder.path().join("cache");
    let cache = Cache::builder().memory_bytes(4 << 20).shared(&path).open().unwrap();
    (cache, path.display().to_string())
}

fn printed(args: &[&str]) -> String {
    String::from_utf8(larder(b"", args).printed()).unwrap()
}

#[test]
fn inspect_describes_a_cache_in_use_and_lists_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, path) = cache_in(&folder);
    cache.set("user:7", "Ada", Some(Duration::from_secs(600))).unwrap();
    cache.set("user:8", "Bob", None).unwrap();
    cache.set("large", vec![7; 300_000], None).unwrap();
    let shown = printed(&["inspect", &path, "--keys", "user:", "--limit", "1", "--segments"]);
    for part in
        ["items       3, without", "uses it", "1 of 2 keys with the prefix \"user:\"", " active "]
    {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
    let largest = shown.lines().skip_while(|line| !line.starts_with("largest")).nth(1).unwrap();
    assert!(largest.contains("300000"), "{shown}");
    assert!(largest.ends_with("large"), "{shown}");
    assert_eq!(cache.len(), 3, "inspect must not change the cache");
}

#[test]
fn fsck_checks_a_cache_in_use_and_one_without_users() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, path) = cache_in(&folder);
    cache.set("k", "v", None).unwrap();
    let said = printed(&["fsck", &path]);
    assert!(said.contains("checked 1 item in"), "{said}");
    assert!(said.contains("1 process uses it"), "{said}");
    drop(cache);
    for args in [&["fsck", &path][..], &["fsck", &path, "--read-only"]] {
        let said = printed(args);
        assert!(said.contains("no process uses it: no damage found"), "{said}");
    }
}

#[test]
fn a_file_without_a_cache_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes");
    std::fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
    for subcommand in ["inspect", "fsck"] {
        larder(b"", &[subcommand, path.to_str().unwrap()])
            .failed(2, "it is not the file of a cache");
        larder(b"", &[subcommand, "/nowhere/cache"])
            .failed(2, "there is no file or directory /nowhere/cache");
    }
    assert!(!Path::new("/nowhere").exists());
}

#[test]
fn a_damaged_index_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, path) = cache_in(&folder);
    for number in 0..1000_u32 {
        cache.set(number.to_le_bytes(), "v", None).unwrap();
    }
    drop(cache);
    let mut region = std::fs::read(&path).unwrap();
    let at = region.windows(4).rposition(|bytes| bytes == 999_u32.to_le_bytes()).unwrap();
    region[at] ^= 1;
    std::fs::write(&path, region).unwrap();
    larder(b"", &["fsck", &path]).failed(1, "damaged");
}
