//! Workers like the workers of a web server: a root process forks them, and they change their user
//! or their root directory before they use a shared cache.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use larder::{Builder, Cache, Refusal, StoreError};
use larder_testkit::cache_file;
use larder_testkit::children::{Child, Word, fork, sleep_for_ever};

/// The user and the group of a worker, which have no permissions on most systems.
const UNPRIVILEGED: u32 = 65534;

fn builder() -> Builder {
    Cache::builder().memory_bytes(32 << 20).processes_max(128).substitute(false)
}

/// Returns a cache in a file of mode 0600, and a cache in anonymous memory.
fn caches(folder: &Path) -> [Cache; 2] {
    let path = folder.join("cache");
    [builder().shared(path).open().unwrap(), builder().anonymous_shared(true).open().unwrap()]
}

/// True if the test may change its user. Otherwise prints that the test is skipped.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        larder_testkit::skip("only root can change its user and its root directory");
    }
    is_root
}

/// Changes to a user without permissions.
fn drop_rights() {
    // SAFETY: the calls take only numbers. The process has only one thread, since it was just
    // forked.
    let done = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setgid(UNPRIVILEGED) == 0
            && libc::setuid(UNPRIVILEGED) == 0
    };
    assert!(done, "cannot change the user: {}", std::io::Error::last_os_error());
}

/// Makes `folder` the root directory.
fn change_root(folder: &Path) {
    let name = CString::new(folder.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name ends with a zero.
    assert_eq!(unsafe { libc::chroot(name.as_ptr()) }, 0, "{}", std::io::Error::last_os_error());
    std::env::set_current_dir("/").unwrap();
}

/// Joins the cache, stores and reads. Returns 0 if all results are correct.
fn work(cache: &Cache, worker: u32) -> i32 {
    if let Some(why) = cache.lost() {
        eprintln!("worker {worker}: {why}");
        return 1;
    }
    let is_right = cache.get("of the parent").as_deref() == Some(b"v")
        && cache.delete(format!("for {worker}")).unwrap()
        && cache.set(format!("of {worker}"), worker.to_le_bytes(), None).is_ok();
    i32::from(!is_right) * 2
}

/// Checks that workers and their parent can read each other's changes. Each worker first calls
/// `become_worker`.
fn see_each_other(cache: &Cache, workers: u32, become_worker: impl Fn()) {
    cache.set("of the parent", "v", None).unwrap();
    for worker in 0..workers {
        cache.set(format!("for {worker}"), "v", None).unwrap();
    }
    let (worked, checked) = (Word::new(), Word::new());
    let children: Vec<Child> = (0..workers)
        .map(|worker| {
            fork(|| {
                become_worker();
                let outcome = work(cache, worker);
                worked.say(outcome as u32);
                checked.hear();
                let is_there = |other: u32| {
                    cache.get(format!("of {other}")).as_deref() == Some(&other.to_le_bytes())
                        && !cache.contains(format!("for {other}"))
                };
                outcome + 4 * i32::from(!(0..workers).all(is_there))
            })
        })
        .collect();
    let outcomes: Vec<u32> = children.iter().map(|_| worked.hear()).collect();
    assert!(outcomes.iter().all(|outcome| *outcome == 0), "{outcomes:?}");
    for worker in 0..workers {
        let found = cache.get(format!("of {worker}"));
        assert_eq!(found.as_deref(), Some(&worker.to_le_bytes()[..]));
        assert!(!cache.contains(format!("for {worker}")));
    }
    assert_eq!(cache.identity().1.len(), workers as usize + 1);
    children.iter().for_each(|_| checked.say(1));
    for child in children {
        assert_eq!(child.wait(), 0);
    }
    cache.maintain();
    cache.validate().unwrap();
}

#[test]
fn a_hundred_workers_use_32_mebibytes() {
    let (folder, _path) = cache_file();
    for cache in caches(folder.path()) {
        see_each_other(&cache, 100, || ());
    }
}

#[test]
fn workers_that_drop_their_rights_share_the_cache_of_root() {
    if !is_root() {
        return;
    }
    let (folder, _path) = cache_file();
    for cache in caches(folder.path()) {
        see_each_other(&cache, 5, drop_rights);
    }
}

#[test]
fn workers_in_an_empty_root_directory_share_the_cache() {
    if !is_root() {
        return;
    }
    let (folder, _path) = cache_file();
    let empty = tempfile::tempdir().unwrap();
    for cache in caches(folder.path()) {
        see_each_other(&cache, 5, || {
            change_root(empty.path());
            drop_rights();
        });
    }
}

#[test]
fn a_grandchild_shares_the_cache_whether_its_parent_has_used_it_or_not() {
    let (folder, _path) = cache_file();
    for cache in caches(folder.path()) {
        for is_used in [false, true] {
            see_each_other(&cache, 1, || ());
            let child = fork(|| {
                if is_used && work_again(&cache) != 0 {
                    return 1;
                }
                let grandchild = fork(|| {
                    if rustix::process::geteuid().is_root() {
                        drop_rights();
                    }
                    work_again(&cache)
                });
                2 * grandchild.wait() + work_again(&cache)
            });
            assert_eq!(child.wait(), 0, "used: {is_used}");
        }
    }
}

fn work_again(cache: &Cache) -> i32 {
    let key = std::process::id().to_le_bytes();
    let is_right = cache.lost().is_none()
        && cache.set(key, "v", None).is_ok()
        && cache.get(key).is_some()
        && cache.get("of the parent").is_some();
    i32::from(!is_right)
}

#[test]
fn workers_forked_beside_busy_threads_share_the_cache() {
    let cache = builder().anonymous_shared(true).open().unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for of_thread in 0..2 {
            let (cache, is_over) = (&cache, &is_over);
            scope.spawn(move || {
                let mut key = 0_u32;
                while !is_over.load(Relaxed) {
                    key = key.wrapping_add(1) % 500;
                    cache.set(format!("busy {of_thread} {key}"), key.to_le_bytes(), None).unwrap();
                }
            });
        }
        cache.set("of the parent", "v", None).unwrap();
        for _ in 0..20 {
            let child = fork(|| {
                if rustix::process::geteuid().is_root() {
                    drop_rights();
                }
                work_again(&cache)
            });
            assert_eq!(child.wait(), 0);
        }
        is_over.store(true, Relaxed);
    });
    cache.validate().unwrap();
}

#[test]
fn a_worker_beyond_the_processes_reads_and_its_changes_fail_until_another_one_leaves() {
    let cache = builder().processes_max(2).anonymous_shared(true).open().unwrap();
    let large = vec![7; 900_000];
    cache.set("k", "v", None).unwrap();
    cache.set("large", &large, None).unwrap();
    let joined = Word::new();
    let first = fork(|| {
        joined.say(u32::from(cache.get("k").is_none()));
        sleep_for_ever()
    });
    assert_eq!(joined.hear(), 0);
    let (checked, changed, left) = (Word::new(), Word::new(), Word::new());
    let second = fork(|| {
        let is_lost = |error: &StoreError| *error == StoreError::Journal(Refusal::Lost);
        let wrong = [
            cache.lost().is_none_or(|why| !why.to_string().contains("2 processes use the cache")),
            !cache.only_reads(),
            cache.get("k").as_deref() != Some(b"v"),
            cache.get("large").as_deref() != Some(&large[..]),
            cache.get("none").is_some(),
            !cache.contains("k"),
            cache.try_get_to("k", &mut Vec::new(), |_| ()) != Ok(true),
            cache.set("k", "mine", None).as_ref().err().is_none_or(|error| !is_lost(error)),
            cache.get("k").as_deref() != Some(b"v"),
            cache.delete("k").is_ok(),
            cache.increment("k", 1).is_ok(),
            cache.touch("k", None).is_ok(),
            cache.try_clear().is_ok(),
            cache.remove_prefix("").is_ok(),
            cache.begin_load(b"k", Duration::from_secs(1)).is_ok(),
            // A grandchild also cannot change the cache.
            fork(|| i32::from(cache.set("k", "mine", None).is_ok())).wait() != 0,
        ];
        checked.say(wrong.iter().position(|wrong| *wrong).map_or(0, |at| at as u32 + 1));
        changed.hear();
        let sees_change = cache.get("k").as_deref() == Some(b"changed");
        left.hear();
        let begun = Instant::now();
        while cache.set("of the second", "v", None).is_err() {
            if begun.elapsed() > Duration::from_secs(20) {
                return 2;
            }
            thread::sleep(Duration::from_millis(20));
        }
        i32::from(!sees_change || cache.only_reads() || cache.lost().is_some())
    });
    assert_eq!(checked.hear(), 0, "the check of this number is wrong");
    cache.set("k", "changed", None).unwrap();
    changed.say(1);
    drop(first);
    left.say(1);
    assert_eq!(second.wait(), 0, "1: a wrong value, 2: it did not join");
    assert_eq!(cache.get("of the second").as_deref(), Some(&b"v"[..]));
    let third = fork(|| i32::from(cache.get("k").is_none() || cache.lost().is_some()));
    assert_eq!(third.wait(), 0, "the row of a process that ended is not free");
}

#[test]
fn a_process_that_finds_a_file_full_reads_it_and_its_changes_fail() {
    let (_folder, path) = cache_file();
    let open = |substitute| {
        let builder = Cache::builder().memory_bytes(1 << 20).processes_max(2);
        builder.substitute(substitute).shared(&path).open()
    };
    let (first, second) = (open(true).unwrap(), open(false).unwrap());
    let full = open(true).unwrap_err().to_string();
    assert!(full.contains("2 processes use the cache"), "{full}");
    first.set("k", "v", None).unwrap();
    let third = open(false).unwrap();
    assert!(third.only_reads() && !second.only_reads());
    assert_eq!(third.get("k").as_deref(), Some(&b"v"[..]));
    assert_eq!(third.delete("k"), Err(StoreError::Journal(Refusal::Lost)));
    first.set("k", "other", None).unwrap();
    assert_eq!(third.get("k").as_deref(), Some(&b"other"[..]));
    drop(second);
    let fourth = open(false).unwrap();
    assert_eq!(fourth.delete("k"), Ok(true));
    assert!(!third.contains("k"));
}

/// Each process has an entry in the region. The entries of a thousand processes need more memory
/// than the cache has.
#[test]
fn a_thousand_workers_of_a_small_cache_see_each_other() {
    const WORKERS: u32 = 1000;
    let cache = Cache::builder().memory_bytes(1 << 20).processes_max(4096).substitute(false);
    let cache = cache.anonymous_shared(true).open().unwrap();
    let (joined, begin, done) = (Word::new(), Word::new(), Word::new());
    let workers: Vec<Child> = (0..WORKERS)
        .map(|worker| {
            fork(|| {
                let is_joined = cache.set("last", worker.to_le_bytes(), None).is_ok();
                joined.say(u32::from(is_joined && cache.lost().is_none()));
                begin.hear();
                let sees = cache.get("k").as_deref() == Some(b"v");
                done.say(u32::from(sees && cache.delete("k") == Ok(true)));
                0
            })
        })
        .collect();
    assert_eq!((0..WORKERS).map(|_| joined.hear()).sum::<u32>(), WORKERS, "not all have joined");
    for _ in &workers {
        cache.set("k", "v", None).unwrap();
        // One of the workers receives it.
        begin.say(1);
        assert_eq!(done.hear(), 1, "a worker does not see a store, or its delete fails");
        assert!(!cache.contains("k"), "the delete of a worker is lost");
    }
    workers.into_iter().for_each(|worker| assert_eq!(worker.wait(), 0));
    cache.validate().unwrap();
}

#[test]
fn an_existing_file_keeps_its_number_of_processes() {
    let (_folder, path) = cache_file();
    let open = |processes, exactly| {
        let builder = Cache::builder().memory_bytes(32 << 20).processes_max(processes);
        builder.exactly(exactly).shared(&path).open()
    };
    let first = open(3, false).unwrap();
    let (_second, _third) = (open(0, true).unwrap(), open(200, false).unwrap());
    let full = open(3, true).unwrap_err().to_string();
    assert!(full.contains("3 processes use the cache"), "{full}");
    drop(first);
    let other = open(4, true).unwrap_err().to_string();
    assert!(other.contains("number of processes is 3, expected 4"), "{other}");
    let inspected = larder::Inspection::open(&path).unwrap();
    assert_eq!(inspected.peers().len(), 2);
}

#[test]
fn workers_lose_no_addition_to_one_signed_counter() {
    const ADDITIONS: i64 = 20_000;
    let cache = builder().anonymous_shared(true).open().unwrap();
    let begin = Word::new();
    let children: Vec<Child> = [1_i64, -1, 3, -2]
        .into_iter()
        .map(|delta| {
            fork(|| {
                begin.hear();
                let is_added = |_| cache.add_signed("n", delta, None).is_ok();
                i32::from(!(0..ADDITIONS).all(is_added))
            })
        })
        .collect();
    children.iter().for_each(|_| begin.say(1));
    for child in children {
        assert_eq!(child.wait(), 0);
    }
    assert_eq!(cache.add_signed("n", 0, None).unwrap(), ADDITIONS);
    assert_eq!(cache.len(), 1);
}

#[test]
fn a_child_of_a_worker_without_rights_to_the_file_has_no_cache() {
    if !is_root() {
        return;
    }
    let (folder, _path) = cache_file();
    let [named, anonymous] = caches(folder.path());
    for cache in [&named, &anonymous] {
        cache.set("of the parent", "v", None).unwrap();
    }
    let worker = fork(|| {
        drop_rights();
        let before = work_again(&named) + work_again(&anonymous);
        let grandchild = fork(|| {
            let why = named.lost().map(ToString::to_string).unwrap_or_default();
            let is_told = why.contains("permission was denied");
            let has_cache = named.set("k", "of its own", None).is_ok();
            // Every user may open the lock file of anonymous memory.
            i32::from(!is_told) + 2 * i32::from(has_cache) + 4 * work_again(&anonymous)
        });
        before + grandchild.wait()
    });
    assert_eq!(worker.wait(), 0);
    assert!(!named.contains("k"));
}
