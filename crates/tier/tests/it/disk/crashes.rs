//! The state of the simulated disk after a process or the machine ends.

use std::collections::BTreeSet;

use larder_tier::disk::simulated::{Fates, Fault, SimulatedDisk, When};
use larder_tier::disk::{Call, Directory, File, PAGE_BYTES, Page, zeroed_pages};

use super::page;

/// The number of seeds for tests that expect several outcomes.
const SEEDS: u64 = 64;

/// Returns a disk with these durable pages in the file `log`.
fn disk(seed: u64, pages: &[Page]) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    let directory = disk.open();
    let log = directory.create("log").unwrap();
    directory.sync().unwrap();
    log.write_pages(0, pages).unwrap();
    log.sync_data().unwrap();
    disk
}

/// Returns the pages of `log`, as the current process reads them.
fn pages(disk: &SimulatedDisk) -> Vec<Page> {
    let log = disk.open().open("log").unwrap().unwrap();
    let len = usize::try_from(log.len().unwrap()).unwrap();
    let mut pages = zeroed_pages(len.div_ceil(PAGE_BYTES));
    log.read_pages(0, &mut pages).unwrap();
    pages
}

/// Returns the first byte of each sector, and fails if a sector is mixed.
fn sectors(page: &Page) -> Vec<u8> {
    let sectors = page.bytes().chunks(512);
    sectors
        .map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is mixed");
            sector[0]
        })
        .collect()
}

#[test]
fn synced_pages_survive_every_power_loss() {
    for seed in 0..SEEDS {
        let disk = disk(seed, &[page(1), page(2)]);
        disk.lose_power();
        disk.lose_power();
        assert_eq!(pages(&disk), [page(1), page(2)], "seed {seed}");
    }
}

#[test]
fn an_unsynced_page_is_kept_lost_or_torn() {
    let mut fates = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk(seed, &[page(1)]);
        disk.open().create("log").unwrap().write_pages(0, &[page(2)]).unwrap();
        disk.lose_power();
        let bytes: BTreeSet<u8> = sectors(&pages(&disk)[0]).into_iter().collect();
        fates.insert(bytes.into_iter().collect::<Vec<_>>());
    }
    let expected = [vec![1], vec![1, 2], vec![2]];
    assert_eq!(fates, expected.into(), "the sets of bytes in the page, over all seeds");
}

#[test]
fn unsynced_pages_meet_their_fates_independently() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..4 * SEEDS {
        let disk = disk(seed, &[page(1), page(1)]);
        disk.set_fates(Fates { kept: 1, lost: 1, torn: 0 });
        disk.open().create("log").unwrap().write_pages(0, &[page(2), page(2)]).unwrap();
        disk.lose_power();
        outcomes.insert(pages(&disk).iter().map(|page| page.bytes()[0]).collect::<Vec<_>>());
    }
    assert_eq!(outcomes, [vec![1, 1], vec![1, 2], vec![2, 1], vec![2, 2]].into());
}

#[test]
fn any_of_several_unsynced_writes_may_be_the_one_that_is_kept() {
    let mut kept = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk(seed, &[page(1)]);
        disk.set_fates(Fates::ALL_KEPT);
        let log = disk.open().create("log").unwrap();
        (2..=4).for_each(|byte| log.write_pages(0, &[page(byte)]).unwrap());
        disk.lose_power();
        kept.insert(pages(&disk)[0].bytes()[0]);
    }
    assert_eq!(kept, [2, 3, 4].into());
}

#[test]
fn torn_pages_hold_sectors_of_two_writes() {
    for seed in 0..SEEDS {
        let disk = disk(seed, &[page(1)]);
        disk.set_fates(Fates::ALL_TORN);
        disk.open().create("log").unwrap().write_pages(0, &[page(2)]).unwrap();
        disk.lose_power();
        let sectors = sectors(&pages(&disk)[0]);
        assert!(sectors.contains(&1) && sectors.contains(&2), "seed {seed}: {sectors:?}");
    }
}

#[test]
fn any_two_unsynced_writes_may_share_a_torn_page() {
    let mut mixes = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk(seed, &[page(1)]);
        disk.set_fates(Fates::ALL_TORN);
        let log = disk.open().create("log").unwrap();
        (2..=3).for_each(|byte| log.write_pages(0, &[page(byte)]).unwrap());
        disk.lose_power();
        let mix: BTreeSet<u8> = sectors(&pages(&disk)[0]).into_iter().collect();
        mixes.insert(mix.into_iter().collect::<Vec<_>>());
    }
    assert_eq!(mixes, [vec![1, 2], vec![1, 3], vec![2, 3]].into());
}

#[test]
fn a_killed_process_leaves_its_writes_in_the_cache() {
    for seed in 0..SEEDS {
        let disk = disk(seed, &[page(1)]);
        let directory = disk.open();
        let log = directory.create("log").unwrap();
        let other = directory.create("other").unwrap();
        log.write_pages(0, &[page(2), page(3)]).unwrap();
        disk.kill();
        assert_eq!(pages(&disk), [page(2), page(3)], "seed {seed}");
        assert!(disk.open().open("other").unwrap().is_some());
        other.len().unwrap_err();
        log.write_pages(0, &[page(9)]).unwrap_err();
        directory.create("log").map(drop).unwrap_err();
        assert_eq!(disk.platter("log").unwrap()[..PAGE_BYTES], *page(1).bytes());
        disk.set_fates(Fates::ALL_LOST);
        disk.lose_power();
        assert_eq!(pages(&disk)[0], page(1), "seed {seed}: the cache ends with the power");
    }
}

#[test]
fn the_end_of_a_process_frees_its_lock_and_no_other() {
    let disk = SimulatedDisk::new(1);
    let old = disk.open().lock().unwrap();
    disk.kill();
    let directory = disk.open();
    let _lock = directory.lock().unwrap();
    drop(old);
    directory.lock().map(drop).unwrap_err();
}

#[test]
fn directory_changes_survive_in_their_order() {
    let mut survivors = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = SimulatedDisk::new(seed);
        let directory = disk.open();
        directory.create("a").unwrap();
        directory.create("b").unwrap();
        directory.rename("b", "c").unwrap();
        disk.lose_power();
        let directory = disk.open();
        let exists = |name: &&str| directory.open(name).unwrap().is_some();
        survivors.insert(["a", "b", "c"].into_iter().filter(exists).collect::<String>());
    }
    let expected = ["", "a", "ab", "ac"].map(str::to_owned);
    assert_eq!(survivors, expected.into(), "the names after a power loss, over all seeds");
}

#[test]
fn lengths_survive_in_their_order_and_lost_pages_of_a_longer_file_are_zero() {
    let mut lengths = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk(seed, &[page(1)]);
        disk.set_fates(Fates::ALL_LOST);
        let log = disk.open().create("log").unwrap();
        log.write_pages(1, &[page(2)]).unwrap();
        log.write_pages(2, &[page(3)]).unwrap();
        disk.lose_power();
        let pages = pages(&disk);
        let expected = [page(1), page(0), page(0)];
        assert_eq!(pages, expected[..pages.len()], "seed {seed}");
        lengths.insert(pages.len());
    }
    assert_eq!(lengths, [1, 2, 3].into());
}

#[test]
fn a_kept_cut_takes_the_pages_before_it_and_a_lost_one_those_after_it() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..4 * SEEDS {
        let disk = disk(seed, &[page(1), page(1)]);
        disk.set_fates(Fates { kept: 1, lost: 1, torn: 0 });
        let log = disk.open().create("log").unwrap();
        log.write_pages(0, &[page(5)]).unwrap();
        log.set_len(0).unwrap();
        log.write_pages(0, &[page(2)]).unwrap();
        disk.lose_power();
        outcomes.insert(pages(&disk).iter().map(|page| page.bytes()[0]).collect::<Vec<_>>());
    }
    let expected = [vec![], vec![0], vec![1, 1], vec![2], vec![5, 1]];
    assert_eq!(outcomes, expected.into(), "the pages after a power loss, over all seeds");
}

#[test]
fn bytes_behind_the_end_that_survives_are_zero_when_the_file_grows_again() {
    let mut lengths = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk(seed, &[page(1)]);
        disk.set_fates(Fates::ALL_KEPT);
        let log = disk.open().create("log").unwrap();
        log.set_len(100).unwrap();
        log.sync_data().unwrap();
        log.write_pages(0, &[page(2)]).unwrap();
        disk.lose_power();
        let log = disk.open().create("log").unwrap();
        let len = log.len().unwrap();
        lengths.insert(len);
        log.set_len(PAGE_BYTES as u64).unwrap();
        let mut expected = page(2);
        expected.bytes_mut()[usize::try_from(len).unwrap()..].fill(0);
        for when in ["after the power loss", "after a sync and another power loss"] {
            assert!(pages(&disk) == [expected.clone()], "seed {seed}: {len} bytes {when}");
            disk.open().create("log").unwrap().sync_data().unwrap();
            disk.lose_power();
        }
    }
    assert_eq!(lengths, [100, PAGE_BYTES as u64].into());
}

#[test]
fn a_small_file_is_the_old_or_the_new_one_after_every_power_loss() {
    let mut found = BTreeSet::new();
    for seed in 0..SEEDS {
        for calls in 1.. {
            let disk = SimulatedDisk::new(seed);
            disk.open().replace_small("MANIFEST", b"old").unwrap();
            disk.inject(When::nth_of_any(calls), Fault::PowerLoss);
            let result = disk.open().replace_small("MANIFEST", b"new, and longer");
            let has_returned = disk.deaths() == 0;
            disk.clear_faults();
            disk.lose_power();
            let content = disk.open().read_small("MANIFEST").unwrap().unwrap();
            let content = String::from_utf8_lossy(&content).into_owned();
            if has_returned {
                assert_eq!(content, "new, and longer", "seed {seed}: the replacement returned");
                break;
            }
            result.unwrap_err();
            found.insert(content);
        }
    }
    assert_eq!(found, ["new, and longer", "old"].map(str::to_owned).into());
}

/// After the kill, the new names are not durable. The next replacement must not write into the file
/// that has the name on the disk.
#[test]
fn a_small_file_survives_a_power_loss_in_the_replacement_after_a_kill() {
    let contents: [&[u8]; 3] = [b"old", b"new, and longer", b"the newest of all"];
    for seed in 0..SEEDS.min(20) {
        for (killed_at, lost_at) in (1..=12).flat_map(|kill| (1..=12).map(move |loss| (kill, loss)))
        {
            let disk = SimulatedDisk::new(seed);
            disk.open().replace_small("MANIFEST", contents[0]).unwrap();
            disk.inject(When::nth_of_any(killed_at), Fault::Kill);
            let _ = disk.open().replace_small("MANIFEST", contents[1]);
            disk.clear_faults();
            disk.inject(When::nth_of_any(lost_at), Fault::PowerLoss);
            let _ = disk.open().replace_small("MANIFEST", contents[2]);
            disk.clear_faults();
            disk.lose_power();
            let content = disk.open().read_small("MANIFEST").unwrap().unwrap();
            assert!(
                contents.contains(&&content[..]),
                "seed {seed}, killed at call {killed_at}, power lost at call {lost_at}: {:?}",
                content.escape_ascii().to_string()
            );
        }
    }
}

#[test]
fn equal_seeds_and_calls_give_equal_disks() {
    let run = |seed| {
        let disk = disk(seed, &vec![page(1); 64]);
        let log = disk.open().create("log").unwrap();
        (2..6).for_each(|byte| log.write_pages(0, &vec![page(byte); 64]).unwrap());
        disk.lose_power();
        (pages(&disk), disk.counts(Call::Write))
    };
    assert!(run(7) == run(7), "two runs of seed 7 differ");
    assert!(run(7) != run(8), "the seed changes nothing");
}
