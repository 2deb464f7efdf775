//! A lock is released when its holder ends, and only then.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use larder_region::{Access, FileError, LockError, Locks, Memory, NewFile, file, forks, locks};
use larder_testkit::children::{Word, fork, sleep_for_ever};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("region.lock");
    (folder, path)
}

/// Opens the file, and creates it if it does not exist.
fn open(path: &Path) -> Locks {
    drop(File::options().create(true).append(true).open(path).unwrap());
    Locks::open(path).unwrap()
}

/// Maximum wait for a lock that is released.
///
/// A lock is released with a delay if another test forks at the same moment: until the child has
/// closed its inherited descriptors, it also holds the lock.
const WHILE: Duration = Duration::from_secs(10);

#[test]
fn a_byte_belongs_to_one_opening_at_a_time() {
    let (_folder, path) = place();
    let (one, other) = (open(&path), open(&path));
    assert!(one.try_lock(7).unwrap());
    assert!(one.try_lock(7).unwrap(), "an opening is blocked by its own lock");
    assert!(!one.is_locked_by_other(7).unwrap());
    assert!(other.is_locked_by_other(7).unwrap());
    assert!(!other.try_lock(7).unwrap());
    assert!(other.try_lock(6).unwrap(), "the byte before is locked");
    assert!(other.try_lock(8).unwrap(), "the byte after is locked");
    one.unlock(7).unwrap();
    assert!(!other.is_locked_by_other(7).unwrap());
    assert!(other.try_lock(7).unwrap());
    assert!(other.try_lock(i64::MAX as u64).unwrap());
    assert!(matches!(other.try_lock(1 << 63), Err(LockError::System { .. })));
    drop(other);
    assert!(one.lock_within(7, WHILE).unwrap());
}

#[test]
fn waiting_ends_with_the_lock_or_the_timeout() {
    let (_folder, path) = place();
    let (one, other) = (open(&path), open(&path));
    assert!(one.try_lock(0).unwrap());
    let begun = Instant::now();
    assert!(!other.lock_within(0, Duration::from_millis(30)).unwrap());
    assert!(begun.elapsed() >= Duration::from_millis(30));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.lock_within(0, WHILE).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        drop(one);
        assert!(waiter.join().unwrap());
    });
}

#[test]
fn a_killed_process_loses_its_locks() {
    let (_folder, path) = place();
    let locks = open(&path);
    let word = Word::new();
    let child = fork(|| {
        let own = Locks::open(&path);
        word.say(own.as_ref().is_ok_and(|own| own.try_lock(5).unwrap_or(false)).into());
        sleep_for_ever()
    });
    assert_eq!(word.hear(), 1);
    assert!(locks.is_locked_by_other(5).unwrap());
    assert!(!locks.try_lock(5).unwrap());
    child.kill();
    assert_eq!(child.wait(), -libc::SIGKILL);
    assert!(locks.lock_within(5, WHILE).unwrap());
}

#[test]
fn a_child_does_not_keep_the_locks_of_a_killed_parent() {
    for is_named in [true, false] {
        let (_folder, path) = place();
        let locks = if is_named { open(&path) } else { Locks::anonymous().unwrap() };
        let (held, grown) = (Word::new(), Word::new());
        let parent = fork(|| {
            let own = locks.reopened();
            held.say(own.as_ref().is_ok_and(|own| own.try_lock(3).unwrap_or(false)).into());
            let child = fork(|| {
                grown.say(std::process::id());
                sleep_for_ever()
            });
            std::mem::forget(child);
            sleep_for_ever()
        });
        assert_eq!(held.hear(), 1);
        let child = grown.hear() as libc::pid_t;
        assert!(locks.is_locked_by_other(3).unwrap(), "forking a child released the lock");
        parent.kill();
        parent.wait();
        let is_free = locks.lock_within(3, Duration::from_secs(1)).unwrap();
        // SAFETY: signals the grandchild, which only sleeps. First checks that it is alive.
        let was_there =
            unsafe { libc::kill(child, 0) == 0 && libc::kill(child, libc::SIGKILL) == 0 };
        assert!(was_there, "child lives: {was_there}, lock free: {is_free}");
        assert!(is_free, "child lives: {was_there}, lock free: {is_free}");
    }
}

#[test]
fn locks_opened_before_a_fork_can_only_be_reopened_in_the_child() {
    let (_folder, path) = place();
    for locks in [open(&path), Locks::anonymous().unwrap()] {
        assert!(locks.try_lock(1).unwrap());
        let before = forks();
        let child = fork(|| {
            if forks() == before {
                return 1;
            }
            let asked = [locks.try_lock(2).is_err(), locks.unlock(1).is_err()];
            if asked != [true; 2]
                || !matches!(locks.is_locked_by_other(1), Err(LockError::MadeBeforeFork { .. }))
            {
                return 2;
            }
            let Ok(own) = locks.reopened() else { return 3 };
            match (own.try_lock(1), own.is_locked_by_other(1), own.try_lock(2)) {
                (Ok(false), Ok(true), Ok(true)) => 0,
                _ => 4,
            }
        });
        assert_eq!(child.wait(), 0);
        assert_eq!(forks(), before);
        assert!(locks.lock_within(2, WHILE).unwrap(), "the parent's locks no longer work");
        let other = locks.reopened().unwrap();
        assert!(other.is_locked_by_other(1).unwrap(), "the child released a lock of its parent");
    }
}

#[test]
fn a_child_that_drops_inherited_locks_releases_no_lock_and_closes_no_other_file() {
    let (_folder, path) = place();
    // With and without the ability of the child to reopen the file.
    for files_max in [None, Some(0)] {
        let mut locks = Some(open(&path));
        // Children that other tests fork at this moment may hold the lock briefly.
        assert!(locks.as_ref().unwrap().lock_within(0, WHILE).unwrap());
        let child = fork(|| {
            // The child opens other files in between, and forks again.
            let before = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            let Ok(own) = Locks::open(&path) else { return 1 };
            let fewer = rustix::process::Rlimit { current: files_max.or(before.current), ..before };
            let limit = |to| rustix::process::setrlimit(rustix::process::Resource::Nofile, to);
            if limit(fewer).is_err() {
                return 2;
            }
            let grandchild = fork(|| {
                if limit(before).is_err() {
                    return 3;
                }
                match own.reopened() {
                    Err(LockError::Lost { .. }) if files_max.is_some() => (),
                    Ok(_) if files_max.is_none() => (),
                    _ => return 4,
                }
                // These files use the free descriptor numbers, including the number of a closed
                // descriptor.
                let others: Vec<_> = (0..8).filter_map(|_| File::open("/dev/null").ok()).collect();
                drop(own);
                drop(locks.take());
                let are_there = others.iter().all(|other| other.metadata().is_ok());
                std::mem::forget(others);
                if are_there { 0 } else { 5 }
            });
            grandchild.wait()
        });
        assert_eq!(child.wait(), 0, "with files limited to {files_max:?}");
        assert!(open(&path).is_locked_by_other(0).unwrap());
    }
}

#[test]
fn a_fork_during_opening_and_closing_leaks_no_lock() {
    let (_folder, path) = place();
    let probe = open(&path);
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let opener = scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                let locks = open(&path);
                assert!(locks.lock_within(9, WHILE).unwrap());
                drop(locks);
            }
        });
        let mut sleepers = Vec::new();
        for _ in 0..300 {
            sleepers.push(fork(|| sleep_for_ever()));
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        opener.join().unwrap();
        assert!(probe.lock_within(9, WHILE).unwrap(), "a sleeping child holds the lock");
    });
}

#[test]
fn the_locks_belong_to_the_file_under_all_of_its_names() {
    let (folder, path) = place();
    let one = open(&path);
    let (link, symbolic) = (folder.path().join("link"), folder.path().join("symbolic"));
    std::fs::hard_link(&path, &link).unwrap();
    let other = Locks::open(&link).unwrap();
    assert!(one.try_lock(1).unwrap());
    assert!(other.is_locked_by_other(1).unwrap());
    let file = File::open(&path).unwrap();
    assert!(one.is_of(&file));
    assert!(other.is_of(&file));
    assert!(locks::is_locked(&file, 1).unwrap(), "a read-only opening cannot query the lock");
    assert!(!locks::is_locked(&file, 2).unwrap());
    assert!(!one.is_of(&File::open(folder.path()).unwrap()));

    std::os::unix::fs::symlink(&path, &symbolic).unwrap();
    for wrong in [symbolic.as_path(), folder.path()] {
        let error = Locks::open(wrong).unwrap_err();
        assert!(matches!(error, LockError::File(FileError::NotRegular { .. })), "{error}");
    }
    let error = Locks::open(&folder.path().join("missing")).unwrap_err();
    assert!(matches!(error, LockError::File(FileError::Missing { .. })), "{error}");
}

#[test]
fn an_anonymous_file_has_locks_of_its_own() {
    let region = file::memfd("region", 4096).unwrap();
    let memory = Memory::shared(&region, 4096).unwrap();
    let (one, other) =
        (Locks::of(&region, "region").unwrap(), Locks::of(&region, "region").unwrap());
    assert!(one.try_lock(locks::BYTES_AT).unwrap());
    assert!(!other.try_lock(locks::BYTES_AT).unwrap());
    // In a second process that receives the descriptor.
    let child = fork(|| {
        let Ok(own) = Locks::of(&region, "region") else { return 1 };
        match (own.try_lock(locks::BYTES_AT), own.try_lock(locks::BYTES_AT + 1)) {
            (Ok(false), Ok(true)) => 0,
            _ => 2,
        }
    });
    assert_eq!(child.wait(), 0);
    // Neither a mapping nor another descriptor keeps a lock.
    drop(one);
    assert!(other.lock_within(locks::BYTES_AT, WHILE).unwrap());
    drop(memory);
}

#[test]
fn a_new_file_has_locks_before_it_has_its_name() {
    let (_folder, path) = place();
    let new = NewFile::create(&path, 4096, &Access::default()).unwrap();
    let locks = new.locks().unwrap();
    assert!(locks.try_lock(locks::BYTES_AT + 1).unwrap());
    let file = new.publish().unwrap();
    assert!(locks.is_of(&file));
    assert!(locks::is_locked(&file, locks::BYTES_AT + 1).unwrap());
    assert!(!locks::is_locked(&file, locks::BYTES_AT).unwrap(), "the creator's lock is still held");
}

#[test]
fn opening_too_many_lock_files_is_an_error() {
    // In a child, since other tests open files too.
    let child = fork(|| {
        let opened: Vec<_> = (0..300).map(|_| Locks::anonymous()).collect();
        let refused =
            opened.iter().filter(|locks| matches!(locks, Err(LockError::TooMany))).count();
        drop(opened);
        match (refused, Locks::anonymous()) {
            (44.., Ok(_)) => 0,
            _ => 1,
        }
    });
    assert_eq!(child.wait(), 0);
}

#[test]
fn a_passed_lock_file_has_locks_of_its_own() {
    let locks = Locks::anonymous().unwrap();
    assert!(locks.try_lock(1).unwrap());
    let to_pass = locks.to_pass().unwrap();
    let passed = Locks::of(&to_pass, "locks").unwrap();
    assert!(!passed.try_lock(1).unwrap());
    assert!(passed.try_lock(2).unwrap());
    drop(locks);
    let free = passed.lock_within(1, WHILE).unwrap();
    assert!(free, "the passed descriptor holds the lock");
    let again = Locks::of(&to_pass, "locks").unwrap();
    assert!(!again.try_lock(1).unwrap());
    assert!(!again.try_lock(2).unwrap());
}
