//! The trait `AnyCache`: a program that uses it must receive the same outcomes from a cache in its
//! process and from a client of a server.

use std::time::Duration;

use anyhow::{Result, ensure};
use larder::{AnyCache, AnyCacheError, Cache, Lease, Swap};
use larder_testkit::{Address, ServerUnderTest, Transport};

use crate::binary;

/// What an operation returned, in words that do not depend on the kind of the cache.
fn outcome<T: std::fmt::Debug>(result: Result<T, AnyCacheError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(AnyCacheError::Store(larder::StoreError::Key(_))) => "key".into(),
        Err(AnyCacheError::Client(larder::ClientError::Key(_))) => "key".into(),
        Err(AnyCacheError::NotANumber) => "not a number".into(),
        Err(AnyCacheError::Client(error)) if error.to_string().contains("non-numeric") => {
            "not a number".into()
        }
        Err(error) => format!("{error}"),
    }
}

/// Calls each operation with a result of each kind.
fn outcomes(cache: &dyn AnyCache) -> Vec<String> {
    let minute = Some(Duration::from_secs(60));
    // More keys than a cache prefetches at a time.
    let long_list: Vec<&[u8]> = [&b"k"[..], b"none", b"other"].repeat(20);
    let swap = |key, cas| match cache.compare_and_set(key, b"swapped", minute, cas) {
        Ok(Swap::Stored { .. }) => "stored".into(),
        other => outcome(other),
    };
    let mut lease = None;
    let mut is_leased = |name: &[u8]| match cache.lease(name, Duration::from_secs(60)) {
        Ok(taken) => {
            lease = taken.or(lease);
            format!("leased: {}", taken.is_some())
        }
        Err(error) => outcome::<Lease>(Err(error)),
    };
    let leased = [is_leased(b"k"), is_leased(b"k"), is_leased(b"")];
    let lease = lease.expect("the lease of k was free");
    let mut seen = vec![
        outcome(cache.get(b"k")),
        outcome(cache.set(b"k", b"1", None)),
        outcome(cache.set(b"", b"1", None)),
        outcome(cache.add(b"k", b"2", minute)),
        outcome(cache.add(b"other", b"text", minute)),
        outcome(cache.replace(b"k", b"30", minute)),
        outcome(cache.replace(b"none", b"30", None)),
        outcome(cache.append(b"k", b"4")),
        outcome(cache.append(b"none", b"4")),
        outcome(cache.prepend(b"k", b"2")),
        outcome(cache.prepend(b"none", b"2")),
        outcome(cache.get(b"k")),
        outcome(cache.get_many(&[b"k", b"none", b"other"])),
        outcome(cache.get_many(&long_list)),
        outcome(cache.get_and_touch(b"k", None)),
        outcome(cache.get_and_touch(b"none", None)),
        outcome(cache.touch(b"k", minute)),
        outcome(cache.touch(b"none", minute)),
        outcome(cache.increment(b"k", 66)),
        outcome(cache.increment(b"none", 1)),
        outcome(cache.increment(b"other", 1)),
        outcome(cache.decrement(b"k", 5000)),
        outcome(cache.decrement(b"none", 1)),
        swap(b"k", u64::MAX),
        swap(b"none", 1),
        outcome(cache.delete(b"k")),
        outcome(cache.delete(b"k")),
        outcome(cache.release(b"k", lease)),
        outcome(cache.release(b"k", lease)),
    ];
    seen.extend(leased);
    seen
}

#[test]
fn a_cache_and_a_client_have_the_same_outcomes() -> Result<()> {
    let server = ServerUnderTest::start(&binary(), Transport::Unix, &["-m", "64"])?;
    let Address::Unix(path) = server.address() else { panic!("{:?}", server.address()) };
    let own = outcomes(&Cache::builder().cas(true).open()?);
    let of_server = outcomes(&Cache::connect(path)?);
    assert_eq!(own, of_server);
    ensure!(own.contains(&"not a number".into()) && own.contains(&"key".into()), "{own:?}");
    ensure!(own.contains(&r#"Some([50, 51, 48, 52])"#.into()), "2304 is not read: {own:?}");
    Ok(())
}

#[test]
fn a_cache_without_tokens_says_so() -> Result<()> {
    let cache: &dyn AnyCache = &Cache::builder().open()?;
    let error = cache.compare_and_set(b"k", b"v", None, 1).expect_err("it keeps no tokens");
    assert!(matches!(error, AnyCacheError::NoTokens), "{error:?}");
    assert!(error.to_string().contains("Builder::cas(true)"), "{error}");
    Ok(())
}
