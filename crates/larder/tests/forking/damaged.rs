//! A damaged region. A region is the memory of a cache, here a file. Another program has changed
//! words in it. If the damage is detected, opening the file fails with the name of a field.
//! Otherwise the cache can be used, and no operation hangs or ends the process.

use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use larder::{Builder, Cache, Inspection, Opening};
use larder_region::layout::{GROUP_BYTES, SEGMENT_HEADER_BYTES, global};
use larder_region::{Layout, Sharing};
use larder_testkit::cache_file;
use larder_testkit::children::fork;

const MEMORY_BYTES: u64 = 4 << 20;

fn builder(path: &Path) -> Builder {
    Cache::builder().memory_bytes(MEMORY_BYTES).cas(true).shared(path)
}

/// Returns the bytes of a cache with items of many kinds and with overflow groups.
fn region(path: &Path) -> Vec<u8> {
    let cache = builder(path).open().unwrap();
    for number in 0..12_000 {
        cache.set(format!("key {number}"), [7; 40], None).unwrap();
    }
    cache.set("large", [7; 200_000], None).unwrap();
    cache.set("number", "5", None).unwrap();
    drop(cache);
    fs::read(path).unwrap()
}

fn layout(thread_slot_bytes: usize) -> Layout {
    let bytes = MEMORY_BYTES as usize;
    Layout::new(bytes, bytes, thread_slot_bytes, Sharing::Peers(0)).unwrap()
}

fn word(region: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(region[at..at + 8].try_into().unwrap())
}

fn half(region: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(region[at..at + 4].try_into().unwrap())
}

/// Performs all kinds of operations and ignores their results.
fn use_all(cache: &Cache) {
    for number in 0..2000 {
        let key = format!("key {}", number * 7);
        match number % 5 {
            0 => drop(cache.set(&key, [8; 50], None)),
            1 => drop(cache.get(&key)),
            2 => drop(cache.delete(&key)),
            3 => drop(cache.append(&key, "more")),
            _ => drop(cache.set(format!("new {number}"), [9; 300], None)),
        }
    }
    drop((
        cache.get("large"),
        cache.increment("number", 1),
        cache.set("large", [8; 100_000], None),
    ));
    cache.maintain();
    drop((cache.iterate().take(5000).count(), cache.report(), cache.validate()));
}

/// Opens the file in a child. Returns 0 if opening it fails, 1 if it is used, 101 after a panic,
/// and a signal after a hang.
fn judge(path: &Path) -> i32 {
    let inspects = fork(|| {
        if let Ok(inspection) = Inspection::open(path) {
            drop((inspection.report(), inspection.segments().count(), inspection.validate()));
            let mut shown = 0;
            inspection.dump(|_| {
                shown += 1;
                shown < 20_000
            });
        }
        0
    });
    assert_eq!(inspects.wait(), 0, "an inspection ended or hung the process");
    let uses = fork(|| match builder(path).open() {
        Ok(cache) => {
            use_all(&cache);
            1
        }
        Err(_) => 0,
    });
    uses.wait()
}

/// A damaged word: the text that the refusal contains, the offset, and the new value.
type Damage = (&'static str, usize, u64);

fn damages(region: &[u8]) -> Vec<Damage> {
    let layout = layout(half(region, 32) as usize);
    let group_at = |group: usize| {
        let named =
            half(region, layout.groups_directory_at + group / layout.groups_per_segment() * 4);
        layout.segment_at(named - 1) + group % layout.groups_per_segment() * GROUP_BYTES
    };
    let header_of =
        |segment: usize, field| layout.headers_at + segment * SEGMENT_HEADER_BYTES + field;
    let sealed = (0..layout.segments)
        .find(|segment| half(region, header_of(*segment, 0)) == 3)
        .expect("no segment is sealed");
    let control = word(region, group_at(3));
    let filled = word(region, header_of(sealed, 8));
    vec![
        ("number of groups", global::GROUPS, 0),
        ("number of groups", global::GROUPS, 1 << 40),
        ("number of overflow groups", global::OVERFLOW_GROUPS, u64::MAX),
        ("number of segments in use", global::SEGMENTS_USED, 0xFFFF_FFFF),
        ("never been used", global::FRESH_SEGMENT, 1 << 30),
        ("has been used", global::FRESH_SEGMENT, 0),
        ("limit of segments", global::SEGMENTS_MAX, 0),
        ("memory limit", global::MEMORY_LIMIT, u64::MAX),
        ("next sequence", global::NEXT_SEQUENCE, u64::MAX),
        ("flush sequence", global::FLUSH_SEQUENCE, u64::MAX),
        ("evictor place is held by thread slot", global::EVICTORS, u64::MAX),
        ("segments of ghost rows", global::GHOST_ROWS, u64::MAX),
        ("level of group 3", group_at(3), control ^ 1 << 30),
        ("level of group 3", group_at(3), control | 0x3F << 30),
        ("group 3 is locked", group_at(3), control | 20 << 52),
        ("group 3 has overflow group", group_at(3), control | 0x3FFF_FFFF),
        ("the state of segment", header_of(sealed, 0), 0xFF),
        ("is taken by thread slot", header_of(sealed, 0), 3 | 0xFFFF << 16),
        ("is filled to", header_of(sealed, 8), filled | 0xFFFF_FFFF),
        ("is filled to", header_of(sealed, 8), filled ^ 1),
        ("the sequence of segment", layout.sequences_at + sealed * 8, u64::MAX),
        ("the TTL class of segment", header_of(sealed, 32), 6),
        ("an appender has segment", layout.appenders_at + 8, 1 << 20),
        ("an appender is claimed", layout.appenders_at, 30),
        ("directory of groups", layout.groups_directory_at, u64::MAX),
    ]
}

#[test]
fn each_invalid_word_is_named_and_the_region_replaced() {
    let (_folder, path) = cache_file();
    let whole = region(&path);
    for (name, at, value) in damages(&whole) {
        fs::write(&path, &whole).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&value.to_le_bytes(), at as u64).unwrap();
        assert_eq!(judge(&path), 0, "{name} {value:#x}: the region was not refused");
        for said in [
            builder(&path).open().unwrap_err().to_string(),
            Inspection::open(&path).unwrap_err().to_string(),
        ] {
            assert!(said.contains(name), "{name} {value:#x}: {said}");
            assert!(said.contains("damaged"), "{name} {value:#x}: {said}");
        }
        let cache = builder(&path).replaces_unusable(true).open().unwrap();
        assert!(matches!(cache.opening(), Opening::Replaced(why) if why.contains(name)));
        assert!(cache.is_empty());
    }
    fs::write(&path, &whole).unwrap();
    let cache = builder(&path).open().unwrap();
    assert_eq!(cache.get("key 11999").as_deref(), Some(&[7; 40][..]));
    cache.validate().unwrap();
}

#[test]
fn a_group_damaged_after_opening_hangs_no_operation() {
    let (_folder, path) = cache_file();
    let whole = region(&path);
    let of_groups = damages(&whole).into_iter().filter(|(name, ..)| name.contains("group 3"));
    for (name, at, value) in of_groups {
        fs::write(&path, &whole).unwrap();
        let uses = fork(|| {
            let cache = builder(&path).open().unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(&value.to_le_bytes(), at as u64).unwrap();
            use_all(&cache);
            i32::from(cache.validate().is_err())
        });
        assert_eq!(
            uses.wait(),
            1,
            "{name} {value:#x}: an operation hung, or the damage was not found"
        );
    }
}

#[test]
fn a_cycle_of_overflow_groups_is_refused() {
    let (_folder, path) = cache_file();
    let mut whole = region(&path);
    let layout = layout(half(&whole, 32) as usize);
    // Two overflow groups that point to each other, after group 0.
    let free = (0..layout.segments)
        .find(|segment| half(&whole, layout.headers_at + segment * SEGMENT_HEADER_BYTES) == 0);
    let free = free.expect("no segment is free");
    let mut put = |at: usize, bytes: &[u8]| whole[at..at + bytes.len()].copy_from_slice(bytes);
    put(layout.headers_at + free * SEGMENT_HEADER_BYTES, &6u32.to_le_bytes());
    put(layout.overflow_directory_at, &(free as u32 + 1).to_le_bytes());
    put(global::OVERFLOW_GROUPS, &(layout.groups_per_segment() as u64).to_le_bytes());
    put(global::FRESH_SEGMENT, &(layout.segments as u64).to_le_bytes());
    for group in 0..layout.groups_per_segment() {
        put(layout.segment_at(free as u32) + group * GROUP_BYTES, &(0x3F_u64 << 30).to_le_bytes());
    }
    let at = layout.segment_at(free as u32);
    put(at, &2_u64.to_le_bytes());
    put(at + GROUP_BYTES, &1_u64.to_le_bytes());
    let first = layout.segment_at(half(&whole, layout.groups_directory_at) - 1);
    let control = word(&whole, first) | 1;
    whole[first..first + 8].copy_from_slice(&control.to_le_bytes());
    fs::write(&path, &whole).unwrap();
    assert_eq!(judge(&path), 0);
    let said = builder(&path).open().unwrap_err().to_string();
    assert!(said.contains("group 0 leads to overflow group"), "{said}");
    assert!(said.contains("chain"), "{said}");
}

/// Marsaglia's xorshift generator.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        for (left, shift) in [(true, 13), (false, 7), (true, 17)] {
            self.0 ^= if left { self.0 << shift } else { self.0 >> shift };
        }
        self.0 % end
    }
}

#[test]
fn no_random_damage_hangs_or_ends_a_process() {
    let (_folder, path) = cache_file();
    let whole = region(&path);
    let layout = layout(half(&whole, 32) as usize);
    let seed: Option<u64> =
        std::env::var("LARDER_DAMAGE_SEED").ok().and_then(|seed| seed.parse().ok());
    let rounds: Option<u64> =
        std::env::var("LARDER_DAMAGE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let mut refused = 0;
    let rounds = rounds.unwrap_or(150);
    for round in 0..rounds {
        let seed = seed.unwrap_or(1) + round;
        let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut damaged = whole.clone();
        let mut said = Vec::new();
        for _ in 0..=draw.below(4) {
            // Few words refer to other parts, so the test changes such words more often than the
            // content of the segments.
            let (from, to) = match draw.below(4) {
                0 => (global::CLOCK, global::END),
                1 => (layout.headers_at, layout.pool_at),
                2 => (layout.segment_at(0), layout.segment_at(1)),
                _ => (global::CLOCK, whole.len()),
            };
            let at = (from + draw.below((to - from) as u64 - 8) as usize) & !7;
            let value = match draw.below(4) {
                0 => word(&damaged, at) ^ 1 << draw.below(64),
                1 => draw.below(u64::MAX),
                2 => draw.below(1 << 20),
                _ => u64::MAX << draw.below(64),
            };
            said.push(format!("{at}: {value:#x}"));
            damaged[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        fs::write(&path, &damaged).unwrap();
        let judged = judge(&path);
        assert!(matches!(judged, 0 | 1), "seed {seed}, {said:?}: the process ended with {judged}");
        refused += u64::from(judged == 0);
    }
    assert!(refused > 0, "{refused} of {rounds} refused");
    assert!(refused < rounds, "{refused} of {rounds} refused");
}

/// Calls that search for one item, or walk over all items.
const CALLS: [(&str, Call); 12] = [
    ("get", |cache| usize::from(cache.get("key 1").is_some())),
    ("set", |cache| usize::from(cache.set("key 1", "v", None).is_ok())),
    ("delete", |cache| usize::from(cache.delete("key 1").is_ok())),
    ("get_many", |cache| cache.get_many(&["key 1", "key 2", "key 3", "key 4"]).len()),
    ("iterate", |cache| cache.iterate().count()),
    ("keys", |cache| cache.keys().count()),
    ("remove_prefix", |cache| usize::from(cache.remove_prefix("key 1").is_ok())),
    ("clear", |cache| usize::from(cache.try_clear().is_ok())),
    ("maintain", |cache| {
        cache.maintain();
        0
    }),
    ("validate", |cache| usize::from(cache.validate().is_ok())),
    ("report", |cache| cache.report().items as usize),
    ("sizes", |cache| cache.sizes().len()),
];

type Call = fn(&Cache) -> usize;

/// A program overwrites the file, so that every group is locked by a thread that never existed.
#[test]
fn a_region_written_over_holds_up_each_call_for_seconds_at_most() {
    let (_folder, path) = cache_file();
    let whole = region(&path);
    let layout = layout(half(&whole, 32) as usize);
    let groups = word(&whole, global::GROUPS) as usize;
    let at = |group: usize| {
        let directory = layout.groups_directory_at + group / layout.groups_per_segment() * 4;
        let segment = layout.segment_at(half(&whole, directory) - 1);
        segment + group % layout.groups_per_segment() * GROUP_BYTES
    };
    for (name, call) in CALLS {
        fs::write(&path, &whole).unwrap();
        let took = fork(|| {
            let cache = builder(&path).open().unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            for at in (0..groups).map(at) {
                let locked = word(&whole, at) | 20 << 52;
                file.write_all_at(&locked.to_le_bytes(), at as u64).unwrap();
            }
            let begun = Instant::now();
            black_box(call(&cache));
            begun.elapsed().as_secs() as i32
        });
        let secs = took.wait();
        assert!((0..30).contains(&secs), "{name} took {secs} s, or ended by signal {}", -secs);
    }
}
