//! Memory that processes share, and its files.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use larder_region::{Access, FileError, Memory, NewFile, ShareError, file};
use larder_testkit::children::{Word, fork, sleep_for_ever};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect};
use tempfile::TempDir;

/// Returns a folder on a tmpfs, if there is one.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = folder.path().join("region");
    (folder, path)
}

fn names_in(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    names.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

const BYTES: usize = 1 << 20;

#[test]
fn a_file_shorter_than_the_region_is_refused() {
    let file = file::memfd("short", BYTES as u64 - 1).unwrap();
    let error = Memory::shared(&file, BYTES).unwrap_err();
    assert!(matches!(error, ShareError::Short { expected: BYTES, found: 1_048_575 }), "{error}");
    let all_of_it = Memory::shared(&file, BYTES - 1).unwrap();
    all_of_it.word(usize::MAX).store(1, Relaxed);

    let (_folder, path) = place();
    File::create(&path).unwrap();
    let empty = file::open(&path).unwrap();
    assert!(matches!(Memory::shared(&empty, 0), Err(ShareError::Short { found: 0, .. })));
    assert!(matches!(Memory::read_only(&empty), Err(ShareError::Short { found: 0, .. })));
}

#[test]
fn writes_of_one_process_are_visible_to_another() {
    let memory = Memory::shared_anonymous(BYTES).unwrap();
    let file = file::memfd("both", BYTES as u64).unwrap();
    let mapped = Memory::shared(&file, BYTES).unwrap();
    let child = fork(|| {
        memory.word(64).store(5, Release);
        mapped.write(4096, b"of the child");
        0
    });
    assert_eq!(child.wait(), 0);
    assert_eq!(memory.word(64).load(Acquire), 5);
    assert!(mapped.equals(4096, b"of the child"));
}

#[test]
fn a_reader_sees_writes_made_after_it_mapped_the_file() {
    let file = file::memfd("seen", BYTES as u64).unwrap();
    let memory = Memory::shared(&file, BYTES).unwrap();
    let unsealed = Memory::read_only(&file).unwrap_err();
    assert!(matches!(unsealed, ShareError::Unsealed), "{unsealed}");
    file::seal(&file).unwrap();
    let reader = Memory::read_only(&file).unwrap();
    assert!(reader.is_read_only());
    assert!(!memory.is_read_only());
    assert_eq!((reader.bytes(), reader.word(8).load(Relaxed)), (BYTES, 0));
    memory.word(8).store(9, Relaxed);
    memory.write(BYTES - 3, b"end");
    assert_eq!(reader.word(8).load(Relaxed), 9);
    assert!(reader.equals(BYTES - 3, b"end"));

    reader.release(0, BYTES);
    reader.take(0, BYTES).unwrap();
    assert!(memory.equals(BYTES - 3, b"end"), "a read-only mapping released pages");
    let child = fork(|| {
        reader.word(8).store(1, Relaxed);
        0
    });
    assert_eq!(child.wait(), -libc::SIGSEGV);
}

#[test]
fn a_file_open_for_reading_can_be_read_but_not_shared() {
    let (_folder, path) = place();
    let new = NewFile::create(&path, BYTES as u64, &Access::default()).unwrap();
    new.publish().unwrap();
    let file = File::open(&path).unwrap();
    assert_eq!(Memory::read_only(&file).unwrap().bytes(), BYTES);
    let error = Memory::shared(&file, BYTES).unwrap_err();
    assert!(matches!(error, ShareError::Map(_)), "{error}");
}

#[test]
fn a_file_with_sealed_length_can_be_mapped_for_writing_but_not_truncated() {
    let file = file::memfd("sealed", BYTES as u64).unwrap();
    assert!(!file::is_length_sealed(&file));
    file::seal_length(&file).unwrap();
    assert!(file::is_length_sealed(&file));
    assert!(!file::is_sealed(&file));
    assert!(file.set_len(0).is_err());
    assert!(file.set_len(2 * BYTES as u64).is_err());
    assert!(file::seal(&file).is_err(), "the seals were changed");
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions()) & 0o777,
        0o600
    );
    let passed = File::from(file::open_again(&file).unwrap());
    let (one, other) =
        (Memory::shared(&file, BYTES).unwrap(), Memory::shared(&passed, BYTES).unwrap());
    one.word(8).store(7, Relaxed);
    assert_eq!(other.word(8).load(Relaxed), 7);
    one.release(0, BYTES);
    assert_eq!(other.word(8).load(Relaxed), 0, "the released page kept its content");
    Memory::read_only(&passed).unwrap();
    let sealed = file::memfd("sealed", BYTES as u64).unwrap();
    file::seal(&sealed).unwrap();
    assert!(!file::is_length_sealed(&sealed));
}

#[test]
fn a_sealed_file_is_writable_only_through_existing_mappings() {
    let file = file::memfd("sealed", BYTES as u64).unwrap();
    let memory = Memory::shared(&file, BYTES).unwrap();
    assert!(!file::is_sealed(&file));
    file::seal(&file).unwrap();
    assert!(file::is_sealed(&file));
    memory.write(0, b"still");
    memory.word(8192).store(1, Relaxed);

    // Like a process that receives the descriptor through a socket: with the same descriptor, and
    // with a reopened descriptor.
    let again = File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
    for mut passed in [Some(file.try_clone().unwrap()), again.ok()].into_iter().flatten() {
        assert!(matches!(Memory::shared(&passed, BYTES), Err(ShareError::Map(_))));
        assert_eq!(passed.write(b"x").unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert_eq!(passed.set_len(0).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert_eq!(passed.set_len(2 << 20).unwrap_err().raw_os_error(), Some(libc::EPERM));
        let punched = rustix::fs::fallocate(
            &passed,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            0,
            4096,
        );
        assert_eq!(punched, Err(Errno::PERM));
        assert!(file::seal(&passed).is_err(), "the seals were changed");
        assert!(!can_be_made_writable(&passed));
    }
    assert!(memory.equals(0, b"still"));
    assert_eq!(memory.word(8192).load(Relaxed), 1);
    memory.release(0, BYTES);
    assert!(memory.equals(0, b"still"), "a sealed file lost its content");
    assert!(file::extend(&file, 2 << 20).is_err());
}

/// Tries to make a read-only mapping writable.
fn can_be_made_writable(file: &impl AsFd) -> bool {
    // SAFETY: the mapping is new, and no reference into it exists.
    unsafe {
        let access = ProtFlags::READ;
        let base = mmap(std::ptr::null_mut(), BYTES, access, MapFlags::SHARED, file, 0).unwrap();
        let changed = mprotect(base, BYTES, MprotectFlags::READ | MprotectFlags::WRITE);
        rustix::mm::munmap(base, BYTES).unwrap();
        changed.is_ok()
    }
}

#[test]
fn released_memory_is_free_in_every_mapping_and_can_be_taken_again() {
    let (_folder, path) = place();
    let new = NewFile::create(&path, BYTES as u64, &Access::default()).unwrap();
    let file = new.publish().unwrap();
    let on_disk = || file.metadata().unwrap().blocks() * 512;
    assert!(on_disk() >= BYTES as u64, "the file is not fully allocated: {} bytes", on_disk());
    let (one, other) =
        (Memory::shared(&file, BYTES).unwrap(), Memory::shared(&file, BYTES).unwrap());
    one.write(0, &[7; 5 * 4096]);
    one.release(100, 3 * 4096);
    assert_eq!(on_disk(), (BYTES - 2 * 4096) as u64);
    let mut out = Vec::new();
    other.read(0, 5 * 4096, &mut out);
    let zeros: Vec<bool> = out.chunks(4096).map(|page| page.iter().all(|b| *b == 0)).collect();
    assert_eq!(zeros, [false, true, true, false, false]);
    one.take(4000, 3 * 4096).unwrap();
    assert_eq!(on_disk(), BYTES as u64);
    assert!(other.equals(0, &[7; 4096]), "taking memory changed the content");

    let anonymous = Memory::shared_anonymous(BYTES).unwrap();
    anonymous.write(0, &[7; 8192]);
    anonymous.release(0, 4096);
    assert_eq!((anonymous.word(0).load(Relaxed), anonymous.word(4096).load(Relaxed) as u8), (0, 7));
}

#[test]
fn extending_a_file_takes_no_memory() {
    let (_folder, path) = place();
    let new = NewFile::create(&path, BYTES as u64, &Access::default()).unwrap();
    file::extend(new.file(), 1 << 40).unwrap();
    file::extend(new.file(), 1).unwrap();
    let found = new.file().metadata().unwrap();
    assert_eq!((found.len(), found.blocks() * 512), (1 << 40, BYTES as u64));
    let memory = Memory::shared(new.file(), 1 << 40).unwrap();
    memory.take(BYTES, 8192).unwrap();
    assert_eq!(new.file().metadata().unwrap().blocks() * 512, BYTES as u64 + 8192);
}

#[test]
fn a_full_file_system_is_an_error_that_names_the_file_and_the_bytes() {
    let (folder, path) = place();
    // More memory than any machine has.
    let bytes = 1 << 60;
    let error = NewFile::create(&path, bytes, &Access::default()).unwrap_err();
    assert!(matches!(error, FileError::Full { .. }), "{error}");
    for part in [path.to_str().unwrap(), "1152921504606846976"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(names_in(folder.path()).is_empty(), "a temporary file was left behind");
}

#[test]
fn a_file_beyond_the_size_limit_is_an_error_and_not_a_signal() {
    let (_folder, path) = place();
    let child = fork(|| {
        let limit = rustix::process::Rlimit { current: Some(8192), maximum: Some(8192) };
        if rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).is_err() {
            return 1;
        }
        let limited = |made| matches!(made, Err(FileError::Limited { limit_bytes: 8192, .. }));
        let made = NewFile::create(&path, 8193, &Access::default()).map(drop);
        match (
            limited(made),
            limited(file::memfd("long", 8193).map(drop)),
            file::memfd("fits", 8192),
        ) {
            (true, true, Ok(fits)) if limited(file::extend(&fits, 8193)) => 0,
            _ => 2,
        }
    });
    assert_eq!(child.wait(), 0);
}

#[test]
fn a_file_appears_complete_or_not_at_all() {
    let (folder, path) = place();
    let new = NewFile::create(&path, 4096, &Access::default()).unwrap();
    assert!(!path.exists());
    let busy = NewFile::create(&path, 4096, &Access::default()).unwrap_err();
    assert!(matches!(busy, FileError::Busy { .. }), "{busy}");
    // A child that is forked in between changes nothing when it drops the inherited file.
    let mut inherited = Some(new);
    assert_eq!(fork(|| (drop(inherited.take()), 0).1).wait(), 0);
    assert!(NewFile::create(&path, 4096, &Access::default()).is_err());
    let file = inherited.unwrap().publish().unwrap();
    assert_eq!(names_in(folder.path()), ["region"]);

    drop(NewFile::create(&path, 4096, &Access::default()).unwrap());
    assert_eq!(names_in(folder.path()), ["region"], "a dropped file was not removed");
    let second = NewFile::create(&path, 8192, &Access::default()).unwrap();
    let exists = second.publish().unwrap_err();
    assert!(matches!(exists, FileError::Exists { .. }), "{exists}");
    assert_eq!(names_in(folder.path()), ["region"]);

    let third = NewFile::create(&path, 8192, &Access::default()).unwrap().replace().unwrap();
    assert_eq!(
        file::open(&path).unwrap().metadata().unwrap().ino(),
        third.metadata().unwrap().ino()
    );
    assert_eq!((file.metadata().unwrap().len(), file.metadata().unwrap().nlink()), (4096, 0));
}

#[test]
fn the_next_creator_removes_the_remains_of_a_killed_one() {
    let (folder, path) = place();
    let word = Word::new();
    let child = fork(|| {
        let new = NewFile::create(&path, BYTES as u64, &Access::default());
        word.say(new.is_ok().into());
        sleep_for_ever()
    });
    assert_eq!(word.hear(), 1);
    assert!(matches!(
        NewFile::create(&path, 4096, &Access::default()),
        Err(FileError::Busy { .. })
    ));
    child.kill();
    child.wait();
    assert_eq!(names_in(folder.path()), [".region.new"]);
    NewFile::create(&path, 4096, &Access::default()).unwrap().publish().unwrap();
    assert_eq!(names_in(folder.path()), ["region"]);
}

#[test]
fn one_of_many_creators_publishes() {
    let (folder, path) = place();
    let published = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    match NewFile::create(&path, 4096, &Access::default()).map(NewFile::publish) {
                        Ok(Ok(_)) => drop(published.fetch_add(1, Relaxed)),
                        Ok(Err(FileError::Exists { .. })) | Err(FileError::Busy { .. }) => (),
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    assert_eq!((published.into_inner(), names_in(folder.path())), (1, vec!["region".into()]));
}

#[test]
fn a_file_has_the_requested_owner_and_permissions() {
    let (_folder, path) = place();
    // In a child, since the umask belongs to the entire process.
    for umask in [0, 0o777] {
        for (access, expected) in [(Access::default(), 0o600), (Access::mode(0o664), 0o664)] {
            let child = fork(|| {
                // SAFETY: no memory is involved.
                unsafe { libc::umask(umask) };
                let new = NewFile::create(&path, 4096, &access);
                let Ok(Ok(file)) = new.map(NewFile::replace) else { return 1 };
                match (file.metadata(), path.metadata()) {
                    (Ok(one), Ok(other)) if one.ino() == other.ino() => {
                        (other.mode() & 0o7777 != expected).into()
                    }
                    _ => 2,
                }
            });
            assert_eq!(child.wait(), 0, "umask {umask:o}, {access:?}");
        }
    }
    let user = rustix::process::getuid().as_raw();
    let other = Access { mode: 0o640, owner: Some(user + 1), group: Some(54_321) };
    let path = path.with_file_name("given");
    match NewFile::create(&path, 4096, &other).map(NewFile::publish) {
        Ok(given) => {
            let given = given.unwrap().metadata().unwrap();
            assert_eq!(
                (given.uid(), given.gid(), given.mode() & 0o7777),
                (user + 1, 54_321, 0o640)
            );
        }
        Err(error) => assert!(user != 0, "{error}"),
    }
}

#[test]
fn a_denied_access_names_the_file_and_its_mode() {
    let (folder, path) = place();
    let chmod = |path: &Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    NewFile::create(&path, 4096, &Access::mode(0o400)).unwrap().publish().unwrap();
    chmod(folder.path(), 0o555);
    let child = fork(|| {
        // SAFETY: no memory is involved. Root has all permissions, so the child becomes another
        // user.
        let is_other = unsafe {
            libc::getuid() != 0 || libc::setgid(54_321) == 0 && libc::setuid(54_321) == 0
        };
        if !is_other {
            return 1;
        }
        let opened = file::open(&path).map(drop).unwrap_err();
        let made = NewFile::create(&folder.path().join("new"), 1, &Access::default()).unwrap_err();
        let names = |error: &FileError, of: &Path, expected| match error {
            FileError::Permission { of: found, mode, .. } => found == of && *mode == expected,
            _ => false,
        };
        if !names(&opened, &path, 0o400) || !opened.to_string().contains("mode 400") {
            return 2;
        }
        if names(&made, folder.path(), 0o555) { 0 } else { 3 }
    });
    let ended = child.wait();
    chmod(folder.path(), 0o755);
    assert_eq!(ended, 0);
}

#[test]
fn files_that_are_not_regular_are_refused() {
    let (folder, path) = place();
    assert!(matches!(file::open(&path), Err(FileError::Missing { .. })));
    let (link, pipe) = (folder.path().join("link"), folder.path().join("pipe"));
    std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for wrong in [link.as_path(), &pipe, folder.path(), Path::new("/dev/null")] {
        let error = file::open(wrong).unwrap_err();
        assert!(matches!(error, FileError::NotRegular { .. }), "{error}");
        assert!(error.to_string().contains(wrong.to_str().unwrap()), "{error}");
    }
    assert!(NewFile::create(Path::new("/"), 1, &Access::default()).is_err());
}
