//! The contract of the disk traits, tested on real files and on the simulated disk.

use std::fs;
use std::path::Path;

use larder_tier::disk::platform::RealDirectory;
use larder_tier::disk::simulated::SimulatedDisk;
use larder_tier::disk::{Directory, DiskError, File, PAGE_BYTES, SMALL_BYTES_MAX, zeroed_pages};

use super::page;

/// Runs a part of the contract on a real directory in the temporary file system, on one in a memory
/// file system if the machine has it, and on the simulated disk.
fn on_every_disk(contract: impl Contract) {
    for parent in [std::env::temp_dir().as_path(), Path::new("/dev/shm")] {
        if parent.is_dir() {
            let parent = tempfile::tempdir_in(parent).unwrap();
            contract.holds(&RealDirectory::open(parent.path().join("tier")).unwrap());
        }
    }
    contract.holds(&SimulatedDisk::new(1).open());
}

/// A part of the contract, for any directory.
trait Contract {
    fn holds<D: Directory>(&self, directory: &D);
}

/// Defines a test that runs on every disk.
macro_rules! contract {
    ($(#[$about:meta])* fn $name:ident($directory:ident) $body:block) => {
        $(#[$about])*
        #[test]
        fn $name() {
            struct Part;
            impl Contract for Part {
                fn holds<D: Directory>(&self, $directory: &D) $body
            }
            on_every_disk(Part);
        }
    };
}

/// Reads one page.
fn read(file: &impl File, at: u64) -> Result<u8, DiskError> {
    let mut pages = zeroed_pages(1);
    file.read_pages(at, &mut pages)?;
    let first = pages[0].bytes()[0];
    assert_eq!(pages[0], page(first), "page {at} of {} is mixed", file.path().display());
    Ok(first)
}

fn is_behind_the_end(error: &DiskError) -> bool {
    matches!(error, DiskError::Io { error, .. } if error.kind() == std::io::ErrorKind::UnexpectedEof)
}

contract! {
    fn a_missing_file_is_none_and_a_created_one_is_empty(directory) {
        assert!(directory.open("log").unwrap().is_none());
        assert_eq!(directory.create("log").unwrap().len().unwrap(), 0);
        assert_eq!(directory.open("log").unwrap().unwrap().len().unwrap(), 0);
    }
}

contract! {
    fn creating_a_file_that_exists_keeps_its_pages(directory) {
        directory.create("log").unwrap().write_pages(0, &[page(7)]).unwrap();
        assert_eq!(read(&directory.create("log").unwrap(), 0).unwrap(), 7);
    }
}

contract! {
    fn pages_read_as_written_and_gaps_as_zero(directory) {
        let file = directory.create("log").unwrap();
        file.write_pages(3, &[page(3), page(4)]).unwrap();
        file.write_pages(1, &[page(1)]).unwrap();
        file.write_pages(4, &[page(9)]).unwrap();
        assert_eq!(file.len().unwrap(), 5 * PAGE_BYTES as u64);
        let mut pages = zeroed_pages(5);
        pages[0] = page(0xff);
        file.read_pages(0, &mut pages).unwrap();
        let bytes: Vec<u8> = pages.iter().map(|page| page.bytes()[0]).collect();
        assert_eq!(bytes, [0, 1, 0, 3, 9]);
        file.write_pages(0, &[]).unwrap();
        file.read_pages(9, &mut []).unwrap();
    }
}

contract! {
    fn a_page_behind_the_end_is_an_error(directory) {
        let file = directory.create("log").unwrap();
        assert!(is_behind_the_end(&read(&file, 0).unwrap_err()));
        file.write_pages(0, &[page(1)]).unwrap();
        assert!(is_behind_the_end(&read(&file, 1).unwrap_err()));
        let error = file.read_pages(0, &mut zeroed_pages(2)).unwrap_err();
        assert!(is_behind_the_end(&error), "page 1 of 2 is missing, but the read gives {error}");
    }
}

contract! {
    fn a_file_that_ends_within_a_page_is_filled_with_zeros(directory) {
        let file = directory.create("log").unwrap();
        file.write_pages(0, &[page(1), page(2)]).unwrap();
        file.set_len(5000).unwrap();
        assert_eq!(file.len().unwrap(), 5000);
        let mut pages = zeroed_pages(2);
        pages[1] = page(0xff);
        file.read_pages(0, &mut pages).unwrap();
        assert_eq!(pages[0], page(1));
        assert_eq!(pages[1].bytes()[..904], [2; 904]);
        assert_eq!(pages[1].bytes()[904..], [0; PAGE_BYTES - 904], "bytes after the end");
    }
}

contract! {
    fn a_cut_file_grows_with_zeros(directory) {
        let file = directory.create("log").unwrap();
        file.write_pages(0, &[page(1), page(2), page(3)]).unwrap();
        file.set_len(PAGE_BYTES as u64 + 1).unwrap();
        file.set_len(3 * PAGE_BYTES as u64).unwrap();
        let mut pages = zeroed_pages(3);
        file.read_pages(0, &mut pages).unwrap();
        assert_eq!(pages[0], page(1), "the page before the cut stays");
        assert_eq!(pages[1].bytes()[0], 2, "the byte before the cut stays");
        assert_eq!(pages[1].bytes()[1..], [0; PAGE_BYTES - 1], "bytes after the cut");
        assert_eq!(pages[2], page(0), "the page after the cut");
    }
}

contract! {
    fn allocated_pages_are_zero_whatever_they_held(directory) {
        let file = directory.create("log").unwrap();
        file.write_pages(0, &[page(1), page(2), page(3)]).unwrap();
        file.write_pages(256, &[page(4), page(5)]).unwrap();
        file.write_pages(600, &[page(6)]).unwrap();
        file.allocate(1, 600).unwrap();
        file.allocate(1, 0).unwrap();
        assert_eq!(file.len().unwrap(), 601 * PAGE_BYTES as u64);
        assert_eq!(read(&file, 0).unwrap(), 1, "the page before the range stays");
        for at in [1, 2, 256, 257, 600] {
            assert_eq!(read(&file, at).unwrap(), 0, "page {at} of the range");
        }
    }
}

contract! {
    fn synced_pages_are_read_from_the_device(directory) {
        let file = directory.create("log").unwrap();
        file.write_pages(0, &[page(1)]).unwrap();
        file.sync_data().unwrap();
        file.write_pages(1, &[page(2)]).unwrap();
        file.drop_cached().unwrap();
        assert_eq!([0, 1].map(|at| read(&file, at).unwrap()), [1, 2]);
    }
}

contract! {
    fn a_range_that_no_file_can_have_is_an_error(directory) {
        let file = directory.create("log").unwrap();
        for first in [u64::MAX, u64::MAX / PAGE_BYTES as u64, i64::MAX as u64 / PAGE_BYTES as u64] {
            file.write_pages(first, &[page(1)]).unwrap_err();
            file.read_pages(first, &mut zeroed_pages(1)).unwrap_err();
            file.allocate(first, 1).unwrap_err();
        }
        assert_eq!(file.len().unwrap(), 0);
    }
}

contract! {
    fn a_renamed_file_replaces_the_other_and_stays_open(directory) {
        let old = directory.create("old").unwrap();
        directory.create("new").unwrap().write_pages(0, &[page(2)]).unwrap();
        old.write_pages(0, &[page(1)]).unwrap();
        directory.rename("new", "old").unwrap();
        directory.sync().unwrap();
        assert!(directory.open("new").unwrap().is_none());
        assert_eq!(read(&directory.open("old").unwrap().unwrap(), 0).unwrap(), 2);
        assert_eq!(read(&old, 0).unwrap(), 1, "an open file outlives its name");
        directory.rename("none", "old").unwrap_err();
    }
}

contract! {
    fn a_small_file_is_replaced_whole(directory) {
        assert_eq!(directory.read_small("MANIFEST").unwrap(), None);
        let long = vec![1; 10_000];
        for content in [&b"first"[..], &long, &[2; PAGE_BYTES], b"", b"last"] {
            directory.replace_small("MANIFEST", content).unwrap();
            let read = directory.read_small("MANIFEST").unwrap();
            assert!(read.as_deref() == Some(content), "{} bytes are not back", content.len());
        }
    }
}

contract! {
    fn a_rest_of_an_interrupted_replacement_is_overwritten(directory) {
        directory.create("MANIFEST.new").unwrap().write_pages(0, &[page(1), page(2)]).unwrap();
        directory.replace_small("MANIFEST", b"new").unwrap();
        assert_eq!(directory.read_small("MANIFEST").unwrap().as_deref(), Some(&b"new"[..]));
    }
}

contract! {
    fn a_long_file_is_no_small_file(directory) {
        let long = vec![0; SMALL_BYTES_MAX + 1];
        let error = directory.replace_small("MANIFEST", &long).unwrap_err();
        assert!(matches!(error, DiskError::TooLong { .. }), "{error}");
        directory.create("MANIFEST").unwrap().set_len(1 << 40).unwrap();
        let error = directory.read_small("MANIFEST").unwrap_err();
        assert!(matches!(error, DiskError::TooLong { bytes, .. } if bytes == 1 << 40), "{error}");
    }
}

contract! {
    fn the_lock_is_held_once_and_names_itself(directory) {
        let lock = directory.lock().unwrap();
        let error = directory.lock().map(drop).unwrap_err();
        assert!(matches!(error, DiskError::Locked { .. }), "{error}");
        assert!(error.to_string().contains("lock is locked"), "{error}");
        drop(lock);
        drop(directory.lock().unwrap());
    }
}

contract! {
    fn the_space_is_that_of_a_file_system(directory) {
        let space = directory.space().unwrap();
        assert!(space.free_bytes <= space.total_bytes && space.total_bytes > 0, "{space:?}");
    }
}

contract! {
    fn threads_write_disjoint_pages(directory) {
        let file = directory.create("log").unwrap();
        std::thread::scope(|scope| {
            for byte in 1..=4 {
                let file = &file;
                scope.spawn(move || {
                    for round in 0..16 {
                        file.write_pages(round * 4 + u64::from(byte) - 1, &[page(byte)]).unwrap();
                    }
                });
            }
        });
        for at in 0..64 {
            assert_eq!(u64::from(read(&file, at).unwrap()), at % 4 + 1, "page {at}");
        }
    }
}

#[test]
fn errors_name_the_path_and_the_call() {
    let parent = tempfile::tempdir().unwrap();
    let directory = RealDirectory::open(parent.path().join("tier")).unwrap();
    directory.create("log").unwrap();
    fs::remove_file(parent.path().join("tier/log")).unwrap();
    let error = directory.rename("log", "MANIFEST").unwrap_err().to_string();
    assert!(error.starts_with("cannot rename a file to "), "{error}");
    assert!(error.contains("tier/MANIFEST: No such file"), "{error}");
}

contract! {
    fn two_files_exchange_their_names_and_a_missing_one_changes_nothing(directory) {
        directory.create("one").unwrap().write_pages(0, &[page(1)]).unwrap();
        assert!(!directory.exchange("one", "other").unwrap(), "there is no other file");
        assert_eq!(read(&directory.open("one").unwrap().unwrap(), 0).unwrap(), 1);
        directory.create("other").unwrap().write_pages(0, &[page(2)]).unwrap();
        assert!(directory.exchange("one", "other").unwrap());
        assert_eq!(read(&directory.open("one").unwrap().unwrap(), 0).unwrap(), 2);
        assert_eq!(read(&directory.open("other").unwrap().unwrap(), 0).unwrap(), 1);
    }
}

contract! {
    fn pages_whose_space_is_given_back_are_zero(directory) {
        let file = directory.create("log").unwrap();
        file.write_pages(0, &[page(1), page(2), page(3)]).unwrap();
        file.deallocate(1, 1).unwrap();
        file.deallocate(2, 0).unwrap();
        let found = [0, 1, 2].map(|at| read(&file, at).unwrap());
        assert_eq!(found, [1, 0, 3]);
        assert_eq!(file.len().unwrap(), 3 * PAGE_BYTES as u64, "the length stays");
        assert!(file.space().unwrap().free_bytes <= file.space().unwrap().total_bytes);
    }
}

contract! {
    fn a_small_file_that_is_replaced_leaves_its_space_to_the_next(directory) {
        for content in [b"first".as_slice(), b"second", b"third"] {
            directory.replace_small("small", content).unwrap();
            assert_eq!(directory.read_small("small").unwrap().as_deref(), Some(content));
        }
        assert!(directory.open("small.new").unwrap().is_some(), "there is no spare file");
    }
}
