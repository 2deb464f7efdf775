//! Values that are stored in pieces, and values that arrive in parts.

use larder::{Cache, Clock, Deadline, Read, StoreError, StoreMode, StoreRequest, Stored};
use larder_testkit::value_of;

fn ticked(memory_bytes: u64) -> Cache {
    Cache::builder().memory_bytes(memory_bytes).clock(Clock::Ticked).cas(true).open().unwrap()
}

fn request(key: &[u8], mode: StoreMode) -> StoreRequest<'_> {
    StoreRequest { flags: 7, ..StoreRequest::new(key, mode) }
}

#[test]
fn large_values_are_stored_in_pieces_and_returned_whole() {
    let cache = ticked(16 << 20);
    for bytes in [7_000, 8_192, 8_193, 65_536, 300_000, 1 << 19, (1 << 20) - 100] {
        let value = value_of(bytes as u64, bytes);
        cache.set(b"large", &value, None).unwrap();
        assert_eq!(cache.get(b"large"), Some(value.clone()), "{bytes} bytes");
        cache.store(&request(b"large", StoreMode::Append), b"tail").unwrap();
        assert_eq!(cache.get(b"large"), Some([&value[..], b"tail"].concat()));
        cache.validate().unwrap();
    }
    assert!(cache.touch_until(b"large", Deadline::after(cache.now(), 1)).unwrap().is_some());
    assert_eq!(cache.get(b"large").map(|value| value.len()), Some((1 << 20) - 96));
    assert!(cache.delete(b"large").unwrap());
    cache.validate().unwrap();
    assert_eq!(cache.report().live_bytes, 0);
}

#[test]
fn an_upload_is_invisible_until_stored_and_releases_its_memory_if_dropped() {
    let cache = ticked(16 << 20);
    let value = value_of(1, 500_000);
    let mut upload = cache.upload(b"u", value.len()).unwrap();
    for part in value.chunks(1234) {
        assert_eq!(cache.get(b"u"), None);
        upload.push(part).unwrap();
    }
    assert_eq!(upload.push(b"x"), Err(StoreError::TooLarge));
    upload.store(&request(b"u", StoreMode::Set)).unwrap();
    assert_eq!(cache.get(b"u"), Some(value.clone()));
    let live_bytes = cache.report().live_bytes;

    let mut upload = cache.upload(b"u", value.len()).unwrap();
    upload.push(&value[..400_000]).unwrap();
    drop(upload);
    assert_eq!(cache.report().live_bytes, live_bytes);
    let mut upload = cache.upload(b"u", value.len()).unwrap();
    upload.push(&value).unwrap();
    assert_eq!(upload.store(&request(b"u", StoreMode::Add)), Ok(Stored::NotStored));
    assert_eq!(cache.report().live_bytes, live_bytes);
    cache.validate().unwrap();
}

#[test]
fn an_upload_in_progress_at_a_clear_counts_as_stored_before_it() {
    for is_taken_back in [false, true] {
        let cache = ticked(16 << 20);
        cache.set(b"u", b"old", None).unwrap();
        let mut upload = cache.upload(b"u", 500_000).unwrap();
        // The incomplete piece is cleared together with the complete pieces.
        upload.push(&[1; 400_100]).unwrap();
        cache.clear();
        if is_taken_back {
            cache.maintain();
            assert_eq!(cache.report().live_bytes, 0);
        }
        upload.push(&[1; 99_900]).unwrap();
        assert!(matches!(upload.store(&request(b"u", StoreMode::Set)), Ok(Stored::Stored { .. })));
        assert_eq!(cache.get(b"u"), None);
        cache.maintain();
        cache.set(b"u", b"new", None).unwrap();
        assert_eq!(cache.get(b"u").as_deref(), Some(&b"new"[..]));
        cache.validate().unwrap();
    }
}

#[test]
fn an_append_by_upload_finds_no_item_after_a_clear_meanwhile() {
    for is_taken_back in [false, true] {
        let cache = ticked(16 << 20);
        cache.set(b"log", [1; 1000], None).unwrap();
        let mut upload = cache.upload(b"log", 500_000).unwrap();
        upload.push(&[2; 400_100]).unwrap();
        cache.clear();
        if is_taken_back {
            cache.maintain();
        }
        upload.push(&[2; 99_900]).unwrap();
        assert_eq!(upload.store(&request(b"log", StoreMode::Append)), Ok(Stored::NotStored));
        assert_eq!(cache.get(b"log"), None);
        cache.validate().unwrap();
    }
}

#[test]
fn every_way_of_storing_uses_pieces_from_the_same_length_on() {
    // Uses the largest segments.
    let cache = ticked(256 << 20);
    let longest = cache.upload_bytes_min();
    assert_eq!(longest, 16 << 10);
    let is_large = || match cache.read(b"k", &mut Vec::new(), |_, _| ()) {
        Read::Hit(_) => false,
        Read::Large(..) => true,
        other @ (Read::Miss(_) | Read::Failed(_)) => panic!("{other:?}"),
    };
    for bytes in [longest, longest + 1] {
        let value = value_of(bytes as u64, bytes);
        cache.set(b"k", &value, None).unwrap();
        assert_eq!((is_large(), cache.get(b"k").as_ref()), (bytes > longest, Some(&value)));
        let mut upload = cache.upload(b"k", bytes).unwrap();
        value.chunks(1000).for_each(|part| upload.push(part).unwrap());
        upload.store(&request(b"k", StoreMode::Set)).unwrap();
        assert_eq!((is_large(), cache.get(b"k").as_ref()), (bytes > longest, Some(&value)));
        // An append extends the value to this length.
        cache.set(b"k", &value[..bytes - 1], None).unwrap();
        cache.store(&request(b"k", StoreMode::Append), &value[bytes - 1..]).unwrap();
        assert_eq!((is_large(), cache.get(b"k").as_ref()), (bytes > longest, Some(&value)));
    }
    assert_eq!(cache.counter(larder::Counter::UploadsAborted), 0);
    cache.validate().unwrap();
}

#[test]
fn a_large_part_can_be_appended_by_upload() {
    let cache = ticked(16 << 20);
    cache.set(b"log", b"head", None).unwrap();
    let part = value_of(9, 300_000);
    let mut upload = cache.upload(b"log", part.len()).unwrap();
    upload.push(&part).unwrap();
    let stored = upload.store(&request(b"log", StoreMode::Append));
    assert!(matches!(stored, Ok(Stored::Stored { .. })));
    assert_eq!(cache.get(b"log"), Some([b"head", &part[..]].concat()));
    let upload = cache.upload(b"other", 0).unwrap();
    assert_eq!(upload.store(&request(b"other", StoreMode::Prepend)), Ok(Stored::NotStored));
    cache.validate().unwrap();
}

#[test]
fn reads_of_large_values_return_pieces() {
    let cache = ticked(16 << 20);
    cache.set(b"large", value_of(3, 200_000), None).unwrap();
    let mut out = Vec::new();
    let read = cache.read(b"large", &mut out, |out, meta| {
        out.extend_from_slice(meta.value_bytes.to_string().as_bytes());
    });
    let Read::Large(meta, mut large) = read else { panic!("{read:?}") };
    assert_eq!((meta.value_bytes, &out[..]), (200_000, &b"200000"[..]));
    out.clear();
    while large.next_piece(&mut out).unwrap() {}
    assert_eq!(out, value_of(3, 200_000));
}

#[test]
fn a_large_value_being_read_outlives_its_item() {
    let cache = ticked(8 << 20);
    let expected = value_of(1, 1_000_000);
    cache.set(b"large", &expected, None).unwrap();
    let mut read = Vec::new();
    let Read::Large(_, mut large) = cache.read(b"large", &mut read, |_, _| ()) else {
        panic!("the value is not stored in pieces")
    };
    assert!(large.next_piece(&mut read).unwrap());
    cache.set(b"large", b"another", None).unwrap();
    // Overwrites the memory three times.
    for number in 0..24_000u64 {
        cache.set(&number.to_le_bytes(), &value_of(number, 1000), None).unwrap();
    }
    while let Some(piece) = large.take_piece().unwrap() {
        read.extend_from_slice(&piece);
    }
    assert_eq!(read, expected);
    drop(large);
    assert_eq!(cache.report().segments_pinned, 0);
    cache.validate().unwrap();
}

#[test]
fn readers_of_large_values_cannot_hold_all_memory() {
    let cache = Cache::builder().memory_bytes(8 << 20).item_bytes_max(1 << 20).open().unwrap();
    let mut readers = Vec::new();
    for number in 0..100u64 {
        cache.set(&number.to_le_bytes(), &value_of(number, 600_000), None).unwrap();
        readers.push(cache.read(&number.to_le_bytes(), &mut Vec::new(), |_, _| ()));
    }
    let gone = readers.iter_mut().filter_map(|read| match read {
        Read::Large(_, large) => large.take_piece().err(),
        _ => None,
    });
    assert!(gone.count() > 50, "readers hold more memory than they may");
    drop(readers);
    cache.set(b"k", b"v", None).unwrap();
    cache.validate().unwrap();
}

/// Returns a cache in which other readers hold the maximum number of segments, so that large values
/// are read without pins.
fn with_all_pins_taken(memory_bytes: u64) -> (Cache, Vec<Read>) {
    let cache = Cache::builder().memory_bytes(memory_bytes).item_bytes_max(1 << 20).cas(true);
    let cache = cache.clock(Clock::Ticked).open().unwrap();
    let mut readers = Vec::new();
    let value = value_of(1, 1_000_000.min(memory_bytes as usize / 80));
    for number in 0..100u64 {
        cache.set(number.to_le_bytes(), &value, None).unwrap();
        readers.push(cache.read(&number.to_le_bytes(), &mut Vec::new(), |_, _| ()));
    }
    (cache, readers)
}

/// Overwrites all memory that no reader holds.
fn write_over_all(cache: &Cache) {
    let value = value_of(1, 15_000.min(cache.report().memory_bytes as usize / 8000));
    for number in 0..2 * cache.report().memory_bytes / value.len() as u64 {
        cache.set(number.to_le_bytes(), &value, None).unwrap();
    }
}

#[test]
fn a_value_lost_during_each_read_is_a_miss() {
    let (cache, readers) = with_all_pins_taken(8 << 20);
    let expected = value_of(5, 300_000);
    cache.set(b"large", &expected, None).unwrap();
    let (mut out, mut attempts) = (b"head".to_vec(), 0);
    let misses = cache.counter(larder::Counter::GetMisses);
    let is_there = cache.get_to(b"large", &mut out, |_| {
        attempts += 1;
        assert!(attempts < 100, "the read does not end");
        // Between the lookup and the copy, the value is removed and another value is stored. A
        // delete removes it, because eviction keeps an item that is read this often.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(cache.delete(b"large"), Ok(true));
                write_over_all(&cache);
                cache.set(b"large", &expected, None).unwrap();
            });
        });
    });
    assert!(!is_there, "{attempts} attempts");
    assert!(attempts > 1, "{attempts} attempts");
    assert_eq!(out, b"head");
    assert_eq!(cache.counter(larder::Counter::GetMisses), misses + 1);
    assert_eq!(cache.get(b"large"), Some(expected), "the value is missing");
    drop(readers);
    cache.validate().unwrap();
}

#[test]
fn a_value_without_pins_is_copied_in_short_parts() {
    let (cache, readers) = with_all_pins_taken(256 << 20);
    let expected = value_of(6, 300_000);
    cache.set(b"large", &expected, None).unwrap();
    let open = || match cache.read(b"large", &mut Vec::new(), |_, _| ()) {
        Read::Large(_, large) => large,
        read => panic!("{read:?}"),
    };
    let (mut large, mut value, mut parts) = (open(), Vec::new(), 0);
    while let Some(piece) = large.take_piece().unwrap() {
        assert!((1..=16 << 10).contains(&piece.owned_bytes()), "{} bytes", piece.owned_bytes());
        value.extend_from_slice(&piece);
        parts += 1;
    }
    assert!(value == expected, "{parts} parts");
    assert!(parts >= 300_000 / (16 << 10), "{parts} parts");
    // The rest of a piece can be read in one call.
    let mut large = open();
    let mut value = large.take_piece().unwrap().unwrap().to_vec();
    while large.next_piece(&mut value).unwrap() {}
    assert!(value == expected);
    // If the value is evicted between two parts of a piece, the next read is an error.
    let mut large = open();
    assert_eq!(large.take_piece().unwrap().map(|piece| piece.len()), Some(16 << 10));
    write_over_all(&cache);
    assert!(large.take_piece().is_err());
    assert!(large.next_piece(&mut Vec::new()).is_err());
    drop(readers);
    cache.validate().unwrap();
}

/// Appends or prepends a part, as one store or as an upload.
fn extend(
    cache: &Cache,
    mode: StoreMode,
    part: &[u8],
    in_parts: bool,
) -> Result<Stored, StoreError> {
    if !in_parts {
        return cache.store(&request(b"k", mode), part);
    }
    let mut upload = cache.upload(b"k", part.len())?;
    part.chunks(77_777).try_for_each(|part| upload.push(part))?;
    upload.store(&request(b"k", mode))
}

#[test]
fn long_parts_are_prepended_and_appended_to_values_of_every_form() {
    for in_parts in [false, true] {
        for mode in [StoreMode::Append, StoreMode::Prepend] {
            let cache = Cache::builder().memory_bytes(64 << 20).item_bytes_max(16 << 20).cas(true);
            let cache = cache.clock(Clock::Ticked).open().unwrap();
            let part = value_of(9, 1_500_000);
            assert_eq!(extend(&cache, mode, &part, in_parts), Ok(Stored::NotStored));
            for there in [
                &b""[..],
                b"41",
                &value_of(1, 10_000),
                &value_of(2, 50_000),
                &value_of(3, 3_000_000),
            ] {
                let set = StoreRequest {
                    flags: 7,
                    deadline: Deadline(1000),
                    ..request(b"k", StoreMode::Set)
                };
                cache.store(&set, there).unwrap();
                let mut expected = there.to_vec();
                for part in [&part[..], b"short", &part[..400_000]] {
                    match mode {
                        StoreMode::Append => expected.extend_from_slice(part),
                        _ => drop(expected.splice(..0, part.iter().copied())),
                    }
                    let stored = extend(&cache, mode, part, in_parts);
                    let Ok(Stored::Stored { value_bytes, .. }) = stored else {
                        panic!("{stored:?}")
                    };
                    assert_eq!(value_bytes, expected.len());
                    assert!(
                        cache.get(b"k").as_deref() == Some(&expected[..]),
                        "{mode:?} to {}",
                        there.len()
                    );
                }
                let meta = cache.peek(b"k").unwrap();
                assert_eq!((meta.flags, meta.deadline), (7, Deadline(1000)));
                let other = StoreRequest { cas: Some(meta.cas + 1), ..request(b"k", mode) };
                assert_eq!(cache.store(&other, &part), Ok(Stored::Exists));
                let this = StoreRequest { cas: Some(meta.cas), ..request(b"k", mode) };
                assert!(matches!(cache.store(&this, &part), Ok(Stored::Stored { .. })));
                cache.validate().unwrap();
            }
            cache.set(b"k", value_of(4, 15_500_000), None).unwrap();
            assert_eq!(extend(&cache, mode, &part, in_parts), Err(StoreError::TooLarge));
            assert_eq!(cache.get(b"k").map(|value| value.len()), Some(15_500_000));
            cache.validate().unwrap();
        }
    }
}
