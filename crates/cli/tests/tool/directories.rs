//! `larder fsck`, `inspect` and `export` on the directory of a disk tier.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use larder::{Cache, DiskTier, Durability, TierMode};
use tempfile::TempDir;

use super::larder;

/// The length of a segment of the log.
const SEGMENT_BYTES: usize = 4 << 20;

fn open(path: &Path, mode: TierMode) -> Cache {
    // The buffers are large enough for all evicted items, so that the server drops none.
    let disk = DiskTier::new(path, 64 << 20).mode(mode).dirty_bytes(64 << 20);
    let disk = match mode {
        TierMode::Store => disk.durability(Durability::Sync),
        TierMode::Cache => disk,
    };
    Cache::builder().memory_bytes(2 << 20).tier(disk).open().unwrap()
}

/// Makes a directory with more items than memory holds. Some were replaced, some deleted.
fn made(folder: &TempDir, mode: TierMode) -> (String, BTreeMap<Vec<u8>, Vec<u8>>) {
    let path = folder.path().join("tier");
    let cache = open(&path, mode);
    let mut items = BTreeMap::new();
    for number in 0..2000_u32 {
        let (key, value) = (format!("user:{}", number % 1500), vec![number as u8; 3000]);
        cache.set(&key, &value, None).unwrap();
        items.insert(key.into_bytes(), value);
    }
    for number in 0..100 {
        assert!(cache.delete(format!("user:{number}")).unwrap());
        items.remove(format!("user:{number}").as_bytes());
    }
    cache.set("other", "v", Some(Duration::from_secs(1000))).unwrap();
    items.insert(b"other".to_vec(), b"v".to_vec());
    drop(cache);
    (path.display().to_string(), items)
}

fn printed(args: &[&str]) -> String {
    String::from_utf8(larder(b"", args).printed()).unwrap()
}

fn exported(args: &[&str], dump: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    printed(&[args, &["--quiet", dump.to_str().unwrap()]].concat());
    read(dump)
}

fn read(dump: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let file = std::io::BufReader::new(std::fs::File::open(dump).unwrap());
    let mut reader = larder_dump::Reader::new(file).unwrap();
    let mut items = BTreeMap::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        let mut value = Vec::new();
        while let larder_dump::Piece::Bytes(bytes) = reader.next_piece().unwrap() {
            value.extend_from_slice(bytes);
        }
        assert!(items.insert(entry.key().to_vec(), value).is_none(), "an item comes once");
    }
    items
}

#[test]
fn a_directory_is_checked_described_and_exported_without_a_change() {
    for mode in [TierMode::Store, TierMode::Cache] {
        let folder = tempfile::tempdir().unwrap();
        let (path, items) = made(&folder, mode);
        let said = printed(&["fsck", &path]);
        let expected = format!("checked {} items in ", items.len());
        assert!(said.contains(&expected) && said.contains("no damage found"), "{mode:?}: {said}");
        assert!(said.contains("the last stop was clean"), "{mode:?}: {said}");
        let shown = printed(&["inspect", &path]);
        let words = if mode == TierMode::Store { "mode        store" } else { "mode        cache" };
        for part in [words, &format!("items       {}, ", items.len()), "size        67108864 bytes"]
        {
            assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
        }
        let dump = folder.path().join("items.dump");
        let found = exported(&["export", &path], &dump);
        assert!(found == items, "{mode:?}: {} of {} items", found.len(), items.len());
        let found = exported(&["export", "--prefix", "oth", &path], &dump);
        assert_eq!(found.len(), 1, "{mode:?}");
        let cache = open(path.as_ref(), mode);
        assert_eq!(cache.tier().unwrap().started.items, items.len() as u64, "{mode:?}");
        larder(b"", &["fsck", &path]).failed(2, "another process uses this directory");
    }
}

#[test]
fn a_flipped_bit_that_costs_nothing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, items) = made(&folder, TierMode::Store);
    let manifest = folder.path().join("tier/MANIFEST");
    let mut bytes = std::fs::read(&manifest).unwrap();
    bytes[60] ^= 4;
    std::fs::write(&manifest, bytes).unwrap();
    let checked = larder(b"", &["fsck", &path]);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(checked.exit_code, 1, "{checked:?}");
    assert!(said.contains("1 flipped bit in MANIFEST or in headers of the log"), "{said}");
    let dump = folder.path().join("items.dump");
    assert_eq!(exported(&["export", &path], &dump).len(), items.len());
}

#[test]
fn damage_is_found_and_ends_an_export() {
    let folder = tempfile::tempdir().unwrap();
    let (path, items) = made(&folder, TierMode::Store);
    let log = folder.path().join("tier/log");
    let mut bytes = std::fs::read(&log).unwrap();
    // Damages two units, of which the second follows current items, and the first header.
    for at in [1_000_000, 3_000_000, 40] {
        bytes[at] ^= 1;
    }
    std::fs::write(&log, bytes).unwrap();
    let checked = larder(b"", &["fsck", &path]);
    checked.failed(1, "larder: damaged: extent 0: one bit of the header is flipped; nothing in it");
    checked.failed(1, "records at most\nlarder: damaged: segment 1 (extent 0), offset 2");
    checked.failed(1, "larder: 3 places are damaged, ");
    checked.failed(1, "does not start on it");
    let dump = folder.path().join("items.dump");
    let out = dump.to_str().unwrap();
    larder(b"", &["export", &path, out]).failed(2, "--past-damage");
    assert!(!dump.exists(), "no dump is taken for a whole one");
    let past = |which| larder(b"", &["export", "--quiet", "--past-damage", which, &path, out]);
    past("readable").failed(1, "where a newer value, a delete or a flush may be lost");
    let readable = read(&dump);
    assert!(readable.len() >= items.len() - 2, "{} of {}", readable.len(), items.len());
    past("current").failed(1, "they are left out");
    let current = read(&dump);
    assert!(current.len() < readable.len(), "{} items are called current", current.len());
    for (key, value) in &current {
        assert_eq!(items.get(key), Some(value), "{}", key.escape_ascii());
    }
    larder(b"", &["export", "--past-damage", "current", "--server", "127.0.0.1:1", out])
        .failed(2, "--past-damage is for the directory of a disk tier");
    // A server that starts from the index does not read the log, and one that starts from the
    // summary of the segment does not read its records.
    std::fs::remove_file(folder.path().join("tier/INDEX")).unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[SEGMENT_BYTES - 8] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let started = Cache::builder().tier(DiskTier::new(&path, 64 << 20)).open();
    let said = started.unwrap_err().to_string();
    assert!(said.contains("larder fsck DIR shows all damage"), "{said}");
}

#[test]
fn a_directory_of_something_else_is_refused_by_name() {
    let folder = tempfile::Builder::new().permissions(private()).tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for subcommand in ["fsck", "inspect"] {
        larder(b"", &[subcommand, path]).failed(2, "is not a directory of --tier-path");
    }
    larder(b"", &["doctor", path]).failed(2, "is not a directory of --tier-path");
}

fn private() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o700)
}

/// The checksum is right but the numbers are wrong. They must not make a command use much memory or
/// time.
#[test]
fn a_forged_number_of_segments_is_an_error_and_takes_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = made(&folder, TierMode::Store);
    let manifest = folder.path().join("tier/MANIFEST");
    let mut bytes = std::fs::read(&manifest).unwrap();
    bytes[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    let checksum = crc32(&bytes[..104]);
    bytes[104..108].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(&manifest, bytes).unwrap();
    let out = folder.path().join("items.dump");
    let out = out.to_str().unwrap();
    let within = |args: &[&str]| {
        let limited = format!("ulimit -v 1000000; exec \"$0\" {}", args.join(" "));
        let tool = env!("CARGO_BIN_EXE_larder");
        Command::new("sh").args(["-c", &limited, tool]).output().unwrap()
    };
    for (args, code) in [
        (&["fsck", &path][..], 1),
        (&["inspect", &path], 2),
        (&["export", "--quiet", &path, out], 2),
        (&["export", "--quiet", "--past-damage", "readable", &path, out], 1),
    ] {
        let output = within(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains("the log"), "{args:?}: {said}");
    }
}

/// Returns the CRC-32 of zlib.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 }
        })
    })
}
