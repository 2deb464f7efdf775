//! A cache in a file: permissions, refusals, and persistence.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::thread;
use std::time::Duration;

use larder::{Builder, Cache, OpenError, Opening, REGION_FORMAT, SharedError, Unusable};
use larder_region::Locks;
use larder_region::layout::superblock;
use larder_testkit::cache_file;
use larder_testkit::children::{Word, fork, sleep_for_ever};

const MEMORY_BYTES: u64 = 1 << 20;

fn builder(path: &Path) -> Builder {
    Cache::builder().memory_bytes(MEMORY_BYTES).shared(path)
}

fn open(path: &Path) -> Cache {
    builder(path).open().unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(builder: Builder) -> String {
    builder.open().expect_err("the cache was opened").to_string()
}

/// Changes a word of the file.
fn change(path: &Path, at: usize, change: impl Fn(u64) -> u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut word = [0; 8];
    file.read_exact_at(&mut word, at as u64).unwrap();
    let word = change(u64::from_le_bytes(word));
    file.write_all_at(&word.to_le_bytes(), at as u64).unwrap();
}

#[test]
fn the_file_has_the_requested_permissions() {
    let (folder, path) = cache_file();
    let group = fs::metadata(folder.path()).unwrap().gid();
    let cache = builder(&path).permissions(0o640).owner(None, Some(group)).open().unwrap();
    let file = fs::metadata(&path).unwrap();
    assert_eq!((file.mode() & 0o7777, file.gid()), (0o640, group));
    drop(cache);
    let (folder, path) = cache_file();
    drop(open(&path));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "other files were created");
}

#[test]
fn a_file_that_is_not_a_cache_is_refused_and_kept() {
    let (folder, path) = cache_file();
    fs::write(&path, "some unrelated bytes").unwrap();
    let said = refusal(builder(&path));
    assert!(said.contains("cache"), "{said}");
    assert!(said.contains("20"), "{said}");
    fs::write(&path, vec![7; MEMORY_BYTES as usize]).unwrap();
    assert!(refusal(builder(&path)).contains("LARDERRG"));
    assert_eq!(fs::read(&path).unwrap(), vec![7; MEMORY_BYTES as usize]);
    fs::write(&path, "").unwrap();
    assert!(refusal(builder(&path)).contains("it has 0 bytes"));

    let other = folder.path().join("other");
    symlink(&path, &other).unwrap();
    assert!(refusal(builder(&other)).contains("not a regular file"));
    assert!(refusal(builder(folder.path())).contains("not a regular file"));
    let missing = folder.path().join("missing").join("cache");
    assert!(refusal(builder(&missing)).contains("missing"));
}

#[test]
fn a_truncated_cache_is_refused() {
    let (_folder, path) = cache_file();
    drop(open(&path));
    let whole = fs::read(&path).unwrap();
    for bytes in [8, 100, 4096, MEMORY_BYTES as usize / 2, MEMORY_BYTES as usize - 1] {
        fs::write(&path, &whole[..bytes]).unwrap();
        let error = builder(&path).open().unwrap_err();
        assert!(
            matches!(&error, OpenError::Shared(SharedError::Unusable { .. })),
            "{bytes} bytes: {error}"
        );
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(open(&path).opening(), &Opening::Attached);
}

#[test]
fn each_field_of_another_layout_is_named() {
    let (_folder, path) = cache_file();
    drop(open(&path));
    let whole = fs::read(&path).unwrap();
    for (at, name) in [
        (superblock::MAGIC, "LARDERRG"),
        (superblock::FORMAT, "format"),
        (superblock::SEGMENT_BYTES, "bytes of a segment"),
        (superblock::REGION_BYTES, "size in bytes"),
        (superblock::SEGMENTS, "number of segments"),
        (superblock::THREAD_SLOTS, "number of thread slots"),
        (superblock::THREAD_SLOT_BYTES, "bytes of a thread slot"),
        (superblock::STRIPES, "number of stripes"),
        (superblock::TTL_CLASSES, "number of TTL classes"),
        (superblock::MEMORY_BYTES, "memory in bytes"),
        (superblock::CAPACITY_BYTES, "capacity in bytes"),
        // The tables of an additional peer are outside the memory.
        (superblock::PEERS, "size in bytes"),
        (superblock::PEER_BYTES, "bytes of a peer"),
        (superblock::BOOT, "before the system booted"),
    ] {
        fs::write(&path, &whole).unwrap();
        change(&path, at, |word| word + 1);
        let said = refusal(builder(&path));
        assert!(said.contains(name), "{name}: {said}");
    }
    fs::write(&path, &whole).unwrap();
    open(&path).validate().unwrap();
}

#[test]
fn a_folder_that_does_not_exist_is_named() {
    let (folder, _) = cache_file();
    let said = refusal(builder(&folder.path().join("missing").join("cache")));
    assert!(said.contains("cannot create") && said.contains("No such file"), "{said}");
}

/// On a machine with another byte order, all numbers of the file are reversed.
#[test]
fn a_cache_of_a_machine_with_another_byte_order_is_refused_or_replaced() {
    let (_folder, path) = cache_file();
    open(&path).set("k", "v", None).unwrap();
    for at in (0..256).step_by(8) {
        change(&path, at, u64::swap_bytes);
    }
    let said = refusal(builder(&path));
    assert!(said.contains("another byte order"), "{said}");
    let cache = builder(&path).replaces_unusable(true).open().unwrap();
    assert!(matches!(cache.opening(), Opening::Replaced(why) if why.contains("byte order")));
    assert_eq!(cache.get("k"), None, "the items of the other machine cannot be read");
}

#[test]
fn no_flipped_bit_of_the_superblock_crashes_a_process() {
    let (_folder, path) = cache_file();
    drop(open(&path));
    let whole = fs::read(&path).unwrap();
    for bit in 0..256 * 8 {
        fs::write(&path, &whole).unwrap();
        change(&path, bit / 64 * 8, |word| word ^ 1 << (bit % 64));
        if let Ok(cache) = builder(&path).open() {
            cache.set("k", "v", None).unwrap();
            assert_eq!(cache.get("k").as_deref(), Some(&b"v"[..]), "bit {bit}");
            cache.validate().unwrap();
        }
    }
}

#[test]
fn an_existing_cache_keeps_its_settings_unless_they_must_match_exactly() {
    let (_folder, path) = cache_file();
    drop(builder(&path).cas(true).open().unwrap());
    let cache = Cache::open_shared(&path).unwrap();
    assert_eq!((cache.opening(), cache.memory_limit()), (&Opening::Attached, MEMORY_BYTES));
    cache.set("k", "v", None).unwrap();
    assert_ne!(cache.peek(b"k").unwrap().cas, 0, "the existing setting of cas tokens was not kept");

    drop(builder(&path).cas(true).exactly(true).open().unwrap());
    let said = refusal(builder(&path).exactly(true));
    assert!(said.contains("cas tokens is 1, expected 0"), "{said}");
    let said = refusal(builder(&path).cas(true).memory_bytes(2 << 20).exactly(true));
    assert!(said.contains("memory in bytes is 1048576, expected 2097152"), "{said}");
    let said = refusal(builder(&path).cas(true).evict(false).exactly(true));
    assert!(said.contains("eviction is 1, expected 0"), "{said}");
}

#[test]
fn an_unusable_cache_is_replaced_if_no_process_uses_it() {
    let (_folder, path) = cache_file();
    let used = open(&path);
    used.set("k", "v", None).unwrap();
    change(&path, superblock::FORMAT, |word| word ^ 1);
    let said = refusal(builder(&path).replaces_unusable(true));
    assert!(said.contains("format"), "{said}");
    assert_eq!(used.get("k").as_deref(), Some(&b"v"[..]));
    drop(used);

    let cache = builder(&path).replaces_unusable(true).open().unwrap();
    assert!(matches!(cache.opening(), Opening::Replaced(why) if why.contains("format")));
    assert_eq!(cache.get("k"), None);
    drop(cache);
    // A file that is not a cache is not replaced.
    fs::write(&path, "some unrelated bytes").unwrap();
    let said = refusal(builder(&path).replaces_unusable(true));
    assert!(said.contains("it has 20 bytes"), "{said}");
    assert_eq!(fs::read(&path).unwrap(), b"some unrelated bytes");
}

#[test]
fn a_cache_of_another_boot_is_not_used() {
    let (_folder, path) = cache_file();
    drop(open(&path));
    change(&path, superblock::BOOT + 8, |word| !word);
    let error = builder(&path).open().unwrap_err();
    let OpenError::Shared(SharedError::Unusable { reason: Unusable::Rebooted, .. }) = &error else {
        panic!("{error}");
    };
    assert!(error.to_string().contains("cache"), "{error}");
}

#[test]
fn one_of_many_concurrent_processes_creates_the_cache_and_all_use_it() {
    for _ in 0..20 {
        let (_folder, path) = cache_file();
        let caches: Vec<Cache> = thread::scope(|scope| {
            let opening: Vec<_> = (0..6).map(|_| scope.spawn(|| open(&path))).collect();
            opening.into_iter().map(|opening| opening.join().unwrap()).collect()
        });
        let created = caches.iter().filter(|cache| cache.opening() == &Opening::Created).count();
        assert_eq!(created, 1);
        let identity = caches[0].identity().0;
        for (number, cache) in caches.iter().enumerate() {
            assert_eq!(cache.identity().0, identity);
            cache.set(format!("k{number}"), "v", None).unwrap();
        }
        assert!(caches.iter().all(|cache| cache.len() == 6));
        caches[0].validate().unwrap();
    }
}

#[test]
fn time_advances_while_no_process_uses_the_cache() {
    let (_folder, path) = cache_file();
    let cache = open(&path);
    cache.set("short", "v", Some(Duration::from_secs(1))).unwrap();
    cache.set("long", "v", Some(Duration::from_secs(100))).unwrap();
    let before = cache.now();
    drop(cache);
    thread::sleep(Duration::from_millis(2100));
    let cache = open(&path);
    assert!((before + 2..=before + 10).contains(&cache.now()), "{before}, {}", cache.now());
    assert_eq!((cache.get("short"), cache.get("long").is_some()), (None, true));
}

#[test]
fn items_of_a_killed_process_are_kept() {
    let (_folder, path) = cache_file();
    let stored = Word::new();
    let child = fork(|| {
        let cache = open(&path);
        cache.set("k", "of the child", None).unwrap();
        cache.set("large", [7; 100_000], None).unwrap();
        stored.say(1);
        sleep_for_ever()
    });
    stored.hear();
    child.kill();
    assert_eq!(child.wait(), -libc::SIGKILL);
    let cache = open(&path);
    assert_eq!(cache.opening(), &Opening::Attached);
    assert_eq!(cache.get("k").as_deref(), Some(&b"of the child"[..]));
    assert_eq!(cache.get("large"), Some(vec![7; 100_000]));
    assert_eq!(cache.identity().1, [u64::from(std::process::id())]);
    cache.validate().unwrap();
}

#[test]
fn a_live_process_is_detected_under_every_name_of_its_file() {
    let (folder, path) = cache_file();
    let cache = open(&path);
    cache.set("k", "v", None).unwrap();
    // Simulates a cleaner that removes unknown files.
    for entry in fs::read_dir(folder.path()).unwrap() {
        let name = entry.unwrap().path();
        if name != path {
            fs::remove_file(name).unwrap();
        }
    }
    let link = folder.path().join("link");
    fs::hard_link(&path, &link).unwrap();
    for name in [&path, &link] {
        assert!(refusal(builder(name).alone(true)).contains("in use by"), "{}", name.display());
        let said = refusal(builder(name).cas(true).exactly(true).replaces_unusable(true));
        assert!(said.contains("in use by"), "{}: {said}", name.display());
        let other = open(name);
        assert_eq!(other.identity().1.len(), 2, "not both caches are attached");
        drop(other);
    }
    cache.set("k", "w", None).unwrap();
    assert_eq!(open(&link).get("k").as_deref(), Some(&b"w"[..]));
    drop(cache);
    builder(&link).alone(true).open().unwrap().validate().unwrap();
}

#[test]
fn a_cache_that_an_older_version_uses_is_not_replaced() {
    let (folder, path) = cache_file();
    drop(open(&path));
    change(&path, superblock::FORMAT, |word| word - u64::from(REGION_FORMAT) + 4);
    // The older version locks a separate file next to the region, starting at its first byte.
    let beside = folder.path().join("cache.lock");
    fs::write(&beside, "").unwrap();
    let older = Locks::open(&beside).unwrap();
    assert!(older.try_lock(3).unwrap());
    let replaced = builder(&path).replaces_unusable(true);
    let said = refusal(replaced.clone());
    assert!(said.contains("in use by another process"), "{said}");
    assert!(said.contains("format is 4"), "{said}");
    drop(older);
    assert!(matches!(replaced.open().unwrap().opening(), Opening::Replaced(_)));
}

#[test]
fn a_full_file_system_is_reported() {
    let folder = Path::new("/dev/shm");
    let Ok(size) = rustix::fs::statvfs(folder) else {
        return;
    };
    let bytes = size.f_blocks * size.f_frsize + (1 << 30);
    if bytes > 1 << 40 {
        return;
    }
    let folder = tempfile::tempdir_in(folder).unwrap();
    let said = refusal(builder(&folder.path().join("cache")).memory_bytes(bytes));
    assert!(said.contains("there is no space for the"), "{said}");
    assert!(!folder.path().join("cache").exists());
}

#[test]
fn too_many_processes_get_an_error() {
    let (_folder, path) = cache_file();
    let mut caches = Vec::new();
    let error = loop {
        // The number of threads per process has no effect.
        match builder(&path).maintainer(true).open() {
            Ok(cache) => {
                cache.set(format!("k{}", caches.len()), "v", None).unwrap();
                caches.push(cache);
            }
            Err(error) => break error,
        }
        assert!(caches.len() <= 256);
    };
    assert!(error.to_string().contains("processes use the cache"), "{error}");
    assert!(caches.len() >= 8, "{}", caches.len());
    caches.pop();
    caches.push(open(&path));
    caches[0].validate().unwrap();
}

#[test]
fn one_of_many_concurrent_processes_replaces_an_unusable_cache_and_all_use_it() {
    for _ in 0..20 {
        let (_folder, path) = cache_file();
        drop(open(&path));
        change(&path, superblock::FORMAT, |word| word ^ 1);
        let caches: Vec<Cache> = thread::scope(|scope| {
            let come = || builder(&path).replaces_unusable(true).open().unwrap();
            let opening: Vec<_> = (0..6).map(|_| scope.spawn(come)).collect();
            opening.into_iter().map(|opening| opening.join().unwrap()).collect()
        });
        let identity = caches[0].identity().0;
        assert!(caches.iter().all(|cache| cache.identity().0 == identity));
        let replaced = |cache: &&Cache| matches!(cache.opening(), Opening::Replaced(_));
        assert_eq!(caches.iter().filter(replaced).count(), 1);
    }
}
