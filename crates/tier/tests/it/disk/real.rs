//! Real files: protection against other users and other processes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use larder_tier::disk::platform::RealDirectory;
use larder_tier::disk::{Directory, DiskError};
use tempfile::TempDir;

/// Returns a temporary directory and the path of a tier in it.
fn place() -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("tier");
    (parent, path)
}

fn mode(path: &PathBuf) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn the_directory_and_its_files_are_private() {
    let (_parent, path) = place();
    let directory = RealDirectory::open(&path).unwrap();
    directory.create("log").unwrap();
    directory.replace_small("MANIFEST", b"content").unwrap();
    let _lock = directory.lock().unwrap();
    assert_eq!(mode(&path), 0o700);
    for name in ["log", "MANIFEST", "lock"] {
        assert_eq!(mode(&path.join(name)), 0o600, "mode of {name}");
    }
}

#[test]
fn a_directory_that_others_can_open_is_refused() {
    let (_parent, path) = place();
    drop(RealDirectory::open(&path).unwrap());
    for wide in [0o750, 0o701, 0o1777] {
        fs::set_permissions(&path, fs::Permissions::from_mode(wide)).unwrap();
        let error = RealDirectory::open(&path).unwrap_err();
        let expected = format!("has mode {wide:04o}");
        assert!(error.to_string().contains(&expected), "{error}, expected {expected}");
        assert!(error.to_string().contains("chmod 700"), "{error} lacks the remedy");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    RealDirectory::open(&path).unwrap();
}

#[test]
fn a_file_that_others_can_open_is_refused() {
    let (_parent, path) = place();
    let directory = RealDirectory::open(&path).unwrap();
    directory.create("log").unwrap();
    fs::set_permissions(path.join("log"), fs::Permissions::from_mode(0o640)).unwrap();
    for error in [directory.open("log").map(drop), directory.create("log").map(drop)] {
        let error = error.unwrap_err();
        assert!(matches!(error, DiskError::Mode { mode: 0o640, .. }), "{error}");
    }
}

#[test]
fn links_are_not_followed() {
    let (parent, path) = place();
    let directory = RealDirectory::open(&path).unwrap();
    fs::write(parent.path().join("victim"), b"precious").unwrap();
    symlink("../victim", path.join("log")).unwrap();
    for error in [directory.open("log").map(drop), directory.create("log").map(drop)] {
        let error = error.unwrap_err();
        assert!(matches!(error, DiskError::Link { .. }), "{error}");
    }
    symlink("../victim", path.join("MANIFEST.new")).unwrap();
    directory.replace_small("MANIFEST", b"content").unwrap_err();
    assert_eq!(fs::read(parent.path().join("victim")).unwrap(), b"precious");
    symlink(&path, parent.path().join("link")).unwrap();
    let error = RealDirectory::open(parent.path().join("link")).unwrap_err();
    assert!(matches!(error, DiskError::Link { .. }), "{error}");
}

#[test]
fn a_directory_in_the_place_of_a_file_is_refused() {
    let (_parent, path) = place();
    let directory = RealDirectory::open(&path).unwrap();
    fs::create_dir(path.join("log")).unwrap();
    let error = directory.open("log").unwrap_err();
    assert!(matches!(error, DiskError::NotAFile { .. }), "{error}");
}

#[test]
fn a_missing_parent_and_a_file_are_no_directories() {
    let (parent, path) = place();
    let error = RealDirectory::open(path.join("deeper")).unwrap_err().to_string();
    assert!(error.starts_with("cannot open the directory "), "{error}");
    assert!(error.contains(&format!("mkdir -p {}, or", path.display())), "{error}");
    fs::write(parent.path().join("file"), b"").unwrap();
    let error = RealDirectory::open(parent.path().join("file")).unwrap_err().to_string();
    assert!(error.contains("Not a directory"), "{error}");
    assert!(error.ends_with("; name a directory, or a path that does not exist yet"), "{error}");
}

#[test]
fn a_second_open_directory_finds_the_lock_held() {
    let (_parent, path) = place();
    let first = RealDirectory::open(&path).unwrap();
    let second = RealDirectory::open(&path).unwrap();
    let lock = first.lock().unwrap();
    let error = second.lock().unwrap_err().to_string();
    let name = path.join("lock");
    assert!(error.starts_with(&format!("{} is locked", name.display())), "{error}");
    drop(lock);
    second.lock().unwrap();
}

#[test]
fn a_memory_file_system_is_cautioned_of() {
    let Ok(parent) = tempfile::tempdir_in("/dev/shm") else { return };
    let directory = RealDirectory::open(parent.path().join("tier")).unwrap();
    let caution = directory.caution().unwrap().map(|caution| caution.to_string());
    let text = caution.unwrap_or_default();
    assert!(text.contains("a reboot deletes it"), "/dev/shm has the caution {text:?}");
}
