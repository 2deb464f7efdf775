//! Files that are replaced while a program uses them, counters, and leases that lose their object.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use larder::{Builder, Cache, Deadline};
use larder_binding::{AddError, Notice, OwnedLease, Place, PlaceError, Writers, add};

fn builder(path: &Path) -> Builder {
    Cache::builder().memory_bytes(4 << 20).shared(path).replaces_unusable(true)
}

fn place(path: &Path, writers: Writers) -> Result<Place, PlaceError> {
    Ok(Place::open(builder(path), Some(path.to_owned()), writers)?.0)
}

/// Uses the place as a binding does, until it follows the file.
fn followed(place: &Place) -> Result<Option<Notice>> {
    for _ in 0..300 {
        let cache = place.cache().context("closed")?;
        if place.is_due(&cache) {
            drop(cache);
            return Ok(place.follow());
        }
        sleep(Duration::from_millis(10));
    }
    anyhow::bail!("no check in three seconds")
}

#[test]
fn a_place_follows_a_file_that_replaces_its_own() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (path, other) = (folder.path().join("cache"), folder.path().join("other"));
    let place = place(&path, Writers::OfMode(0o600))?;
    place.cache().context("closed")?.set("k", "old", None)?;
    let new = builder(&other).open()?;
    new.set("k", "new", None)?;
    fs::rename(&other, &path)?;
    let notice = followed(&place)?;
    ensure!(notice.is_none(), "{notice:?}");
    assert_eq!(place.cache().context("closed")?.get("k"), Some(b"new".to_vec()));
    Ok(())
}

#[test]
fn a_place_keeps_its_file_if_other_users_can_write_to_the_new_one() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (path, other) = (folder.path().join("cache"), folder.path().join("other"));
    let place = place(&path, Writers::OfMode(0o600))?;
    place.cache().context("closed")?.set("k", "old", None)?;
    drop(builder(&other).open()?);
    fs::set_permissions(&other, fs::Permissions::from_mode(0o666))?;
    fs::rename(&other, &path)?;
    let notice = followed(&place)?.context("no notice")?.to_string();
    ensure!(notice.contains("was replaced") && notice.contains("mode 0666"), "{notice}");
    assert_eq!(place.cache().context("closed")?.get("k"), Some(b"old".to_vec()));
    Ok(())
}

#[test]
fn objects_with_the_same_file_share_one_handle() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("cache");
    // Each handle of the file counts as a process, and this file allows one.
    let one = || {
        let builder = builder(&path).processes_max(1);
        Place::open(builder, Some(path.clone()), Writers::Trusted)
    };
    let (first, second) = (one()?, one()?);
    ensure!(second.1.is_none(), "{:?}", second.1);
    first.0.cache().context("closed")?.set("k", "v", None)?;
    assert_eq!(second.0.cache().context("closed")?.get("k"), Some(b"v".to_vec()));
    Ok(())
}

#[test]
fn a_closed_place_has_no_cache() -> Result<()> {
    let (place, _) = Place::open(Cache::builder(), None, Writers::Trusted)?;
    assert!(!place.is_closed() && place.close());
    assert!(place.is_closed() && !place.close() && place.cache().is_none());
    Ok(())
}

#[test]
fn counters_have_the_types_of_all_languages() -> Result<()> {
    let cache = Cache::builder().open()?;
    let count =
        |key: &str, delta, initial| add(&cache, key.as_bytes(), delta, initial, Deadline::NEVER);
    assert_eq!(count("absent", 1, None)?, None);
    assert_eq!(count("new", 5, Some(10))?, Some(15));
    assert_eq!(count("new", -20, Some(0))?, Some(-5));
    // As memcached stores a number: without a sign.
    cache.set("text", "7", None)?;
    assert_eq!(count("text", -9, Some(0))?, Some(0));
    cache.set("text", "18446744073709551614", None)?;
    assert_eq!(count("text", 1, Some(0))?, Some(i128::from(u64::MAX)));
    cache.set("word", "seven", None)?;
    assert!(matches!(count("word", 1, None), Err(AddError::Count(_))));
    assert!(matches!(count("none", 1, Some(i64::MAX)), Err(AddError::Overflow)));
    Ok(())
}

#[test]
fn a_lease_ends_with_its_object() -> Result<()> {
    let cache = Cache::builder().open()?;
    let take = || cache.lease("k", Duration::from_secs(60));
    let lease = OwnedLease::new(&cache, b"k", take()?.context("no lease")?);
    ensure!(take()?.is_none(), "two leases of one key");
    drop(lease);
    let mut lease = OwnedLease::new(&cache, b"k", take()?.context("the lease has not ended")?);
    assert!(lease.release()?);
    assert!(!lease.release()?);
    Ok(())
}
