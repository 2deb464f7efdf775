//! Typed caches: keys, formats, codecs and loads.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use larder::signed::tag;
use larder::{
    Cache, Clock, Codec, CodecCause, Format, LoadError, LoadOptions, Plain, Postcard, StoreError,
    StoreMode, StoreRequest, TypedCache, TypedError,
};
use serde::{Deserialize, Serialize};

fn cache() -> Cache {
    Cache::builder().memory_bytes(4 << 20).clock(Clock::Ticked).open().unwrap()
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct User {
    name: String,
    visits: u32,
}

fn ada() -> User {
    User { name: "Ada".to_owned(), visits: 1 }
}

fn users(cache: &Cache) -> TypedCache<u64, User, Postcard> {
    TypedCache::with_codec(cache.clone(), Postcard::new()).prefix("user:")
}

fn never<V>() -> Result<V, Infallible> {
    panic!("the loader was called although it must not be");
}

#[test]
fn plain_values_come_back_and_have_the_tags_of_other_languages() {
    fn check<V: Clone + PartialEq + std::fmt::Debug>(value: V, bytes: &[u8], tag: u32)
    where
        Plain: Codec<V>,
    {
        let cache = cache();
        let typed: TypedCache<str, V> = TypedCache::new(cache.clone());
        typed.insert("k", value.clone()).unwrap();
        assert_eq!(typed.get("k").unwrap(), Some(value));
        assert_eq!(cache.get("k").as_deref(), Some(bytes));
        assert_eq!(cache.peek(b"k").unwrap().flags, tag, "{bytes:?}");
    }
    check(vec![0_u8, 255], &[0, 255], tag::STRING);
    check::<Arc<[u8]>>(Arc::from(*b"v"), b"v", tag::STRING);
    check("Grüße".to_owned(), "Grüße".as_bytes(), tag::TEXT);
    check::<Box<str>>(Box::from(""), b"", tag::TEXT);
    check(-7_i8, b"-7", tag::LONG);
    check(u128::MAX, u128::MAX.to_string().as_bytes(), tag::LONG);
    check(0.1_f64, b"0.1", tag::DOUBLE);
    check(f32::INFINITY, b"inf", tag::DOUBLE);
    check(true, b"1", tag::BOOL);
}

#[test]
fn plain_text_and_numbers_of_untyped_programs_are_read() {
    let cache = cache();
    cache.set("k", "10", None).unwrap();
    cache.decrement("k", 1).unwrap();
    let numbers: TypedCache<str, u32> = TypedCache::new(cache.clone());
    assert_eq!(numbers.get("k").unwrap(), Some(9));
    let texts: TypedCache<str, String> = TypedCache::new(cache);
    assert_eq!(texts.get("k").unwrap().as_deref(), Some("9 "));
}

#[test]
fn keys_of_all_kinds_find_their_items() {
    let cache = cache();
    let by_text: TypedCache<String, u8> = TypedCache::new(cache.clone()).prefix("t:");
    by_text.insert("ada", 1).unwrap();
    assert_eq!(by_text.get(&"ada".to_owned()).unwrap(), Some(1));
    let by_pair: TypedCache<(&str, u32), u8> = TypedCache::new(cache.clone()).prefix("p:");
    let site = String::from("exa:mple");
    by_pair.insert(&(site.as_str(), 7), 2).unwrap();
    assert_eq!(by_pair.get(&(&*site, 7)).unwrap(), Some(2));
    assert!(cache.contains("t:ada") && cache.contains("p:exa\\:mple:7"));
    assert_eq!(by_text.get_many(&["ada", "grace"]).unwrap(), [Some(1), None]);
}

#[test]
fn an_invalid_key_is_an_error_of_every_operation() {
    let typed: TypedCache<str, u8> = TypedCache::new(cache());
    let is_refused = |error| matches!(error, TypedError::Store(StoreError::Key(_)));
    assert!(is_refused(typed.get("").unwrap_err()));
    assert!(is_refused(typed.get_many(&["k", ""]).unwrap_err()));
    assert!(is_refused(typed.contains("").unwrap_err()));
    assert!(is_refused(typed.insert("", 1).unwrap_err()));
    assert!(is_refused(typed.remove(&"k".repeat(251)).unwrap_err()));
    assert!(matches!(typed.get_or_load("", never), Err(LoadError::Key(_))));
}

#[test]
fn a_value_of_another_type_or_version_is_absent() {
    #[derive(Serialize, Deserialize)]
    #[serde(rename = "User")]
    struct Newer {
        name: String,
        visits: u64,
    }
    let cache = cache();
    let users = users(&cache);
    users.insert(&7, ada()).unwrap();
    assert_eq!(users.get(&7).unwrap(), Some(ada()));
    let newer: TypedCache<u64, Newer, Postcard> =
        TypedCache::with_codec(cache.clone(), Postcard::new()).prefix("user:");
    assert!(newer.get(&7).unwrap().is_none());
    let version: TypedCache<u64, User, Postcard> =
        TypedCache::with_codec(cache.clone(), Postcard::new().version(1)).prefix("user:");
    assert!(version.get(&7).unwrap().is_none() && !version.contains(&7).unwrap());
    let texts: TypedCache<u64, String> = TypedCache::new(cache.clone()).prefix("user:");
    assert!(texts.get(&7).unwrap().is_none());
    let bytes: TypedCache<u64, Vec<u8>> = TypedCache::new(cache).prefix("user:");
    assert_eq!(bytes.get_many(&[&7, &8]).unwrap(), [None, None]);
    assert!(users.contains(&7).unwrap());
}

#[test]
fn a_load_replaces_a_value_of_another_format() {
    let cache = cache();
    let users = users(&cache);
    cache.set("user:7", "Ada", None).unwrap();
    assert_eq!(users.get_or_load(&7, || Ok::<_, Infallible>(ada())).unwrap(), ada());
    assert_eq!(users.get_or_load(&7, never).unwrap(), ada());
}

/// Stores bytes that are not a user under a key, in the format of users.
fn damage(users: &TypedCache<u64, User, Postcard>, cache: &Cache, key: &[u8]) {
    let format = Codec::<User>::format(&Postcard::new());
    let request = StoreRequest { flags: format.flags(), ..StoreRequest::new(key, StoreMode::Set) };
    cache.store(&request, b"\xff").unwrap();
    assert!(users.contains(&7).unwrap());
}

#[test]
fn bytes_that_cannot_be_decoded_are_an_error_that_names_the_codec_and_a_remedy() {
    let cache = cache();
    let users = users(&cache);
    damage(&users, &cache, b"user:7");
    let error = users.get(&7).unwrap_err();
    for part in ["Postcard", "user:7", "remove the key", "skip_undecodable"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let TypedError::Codec(error) = error else { panic!("{error}") };
    assert!(error.is_decode() && error.key() == b"user:7" && error.codec() == "Postcard");
    assert!(matches!(users.get_or_load(&7, never), Err(LoadError::Codec(_))));
    assert!(matches!(users.get_many(&[&7]), Err(TypedError::Codec(_))));
    let request = StoreRequest::new(b"user:7", StoreMode::Set);
    let mut longer = Vec::new();
    Postcard::new().encode(&ada(), &mut longer).unwrap();
    longer.push(0);
    let flags = Codec::<User>::format(&Postcard::new()).flags();
    cache.store(&StoreRequest { flags, ..request }, &longer).unwrap();
    let error = users.get(&7).unwrap_err().to_string();
    assert!(error.contains("1 bytes are left"), "{error}");
}

#[test]
fn a_cache_that_skips_undecodable_bytes_loads_again() {
    let cache = cache();
    let users = users(&cache).skip_undecodable(true);
    damage(&users, &cache, b"user:7");
    assert_eq!(users.get(&7).unwrap(), None);
    assert_eq!(users.get_many(&[&7]).unwrap(), [None]);
    assert_eq!(users.get_or_load(&7, || Ok::<_, Infallible>(ada())).unwrap(), ada());
    assert_eq!(users.get(&7).unwrap(), Some(ada()));
}

/// A codec that cannot encode 13, and counts its calls of `decode`.
#[derive(Default)]
struct Unlucky(std::sync::atomic::AtomicUsize);

impl Codec<u8> for Unlucky {
    fn format(&self) -> Format {
        Format::of_program("unlucky", 1)
    }

    fn encode(&self, value: &u8, out: &mut Vec<u8>) -> Result<(), CodecCause> {
        out.push(*value);
        if *value == 13 { Err("13 has no encoding".into()) } else { Ok(()) }
    }

    fn decode(&self, bytes: &[u8]) -> Result<u8, CodecCause> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        bytes.first().copied().ok_or_else(|| "no byte".into())
    }
}

#[test]
fn a_value_that_cannot_be_encoded_is_an_error_and_leaves_no_outdated_value() {
    let typed: TypedCache<str, u8, Unlucky> = TypedCache::with_codec(cache(), Unlucky::default());
    typed.insert("k", 1).unwrap();
    let error = typed.insert("k", 13).unwrap_err().to_string();
    assert!(error.contains("Unlucky cannot encode the value of k: 13 has no"), "{error}");
    assert_eq!(typed.get("k").unwrap(), None);
    let failed = typed.get_or_load("k", || Ok::<_, Infallible>(13));
    assert!(matches!(failed, Err(LoadError::Codec(error)) if !error.is_decode()));
    assert_eq!(typed.get_or_load("k", || Ok::<_, Infallible>(2)).unwrap(), 2);
}

#[test]
fn callers_that_wait_receive_the_error_of_the_codec() {
    let cache = Cache::builder().memory_bytes(4 << 20).open().unwrap();
    let typed: TypedCache<str, u8, Unlucky> = TypedCache::with_codec(cache, Unlucky::default());
    let (begun, other) = (Cell::new(false), typed.clone());
    std::thread::scope(|scope| {
        let mut waiting = None;
        let failed = typed.get_or_load("k", || {
            begun.set(true);
            waiting = Some(scope.spawn(move || other.get_or_load("k", never)));
            std::thread::sleep(Duration::from_millis(200));
            Ok::<_, Infallible>(13)
        });
        assert!(matches!(failed, Err(LoadError::Codec(_))));
        let waited = waiting.unwrap().join().unwrap();
        assert!(matches!(waited, Err(LoadError::Codec(_))), "{waited:?}");
    });
    assert!(begun.get());
}

#[test]
fn the_caller_that_loads_decodes_nothing() {
    let codec = Unlucky::default();
    let typed: TypedCache<str, u8, &Unlucky> = TypedCache::with_codec(cache(), &codec);
    assert_eq!(typed.get_or_load("k", || Ok::<_, Infallible>(2)).unwrap(), 2);
    assert_eq!(codec.0.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert_eq!(typed.get("k").unwrap(), Some(2));
    assert_eq!(codec.0.load(std::sync::atomic::Ordering::SeqCst), 1);
}

impl Codec<u8> for &Unlucky {
    fn format(&self) -> Format {
        (**self).format()
    }

    fn encode(&self, value: &u8, out: &mut Vec<u8>) -> Result<(), CodecCause> {
        (**self).encode(value, out)
    }

    fn decode(&self, bytes: &[u8]) -> Result<u8, CodecCause> {
        (**self).decode(bytes)
    }
}

#[test]
fn inserted_and_loaded_values_live_for_the_ttl_and_the_stale_period() {
    let cache = cache();
    let secs = Duration::from_secs;
    let options = LoadOptions::new().ttl(secs(60)).stale(secs(100));
    let typed: TypedCache<str, u32> = TypedCache::new(cache.clone()).options(options);
    typed.insert("inserted", 1).unwrap();
    typed.insert_with_ttl("short", 1, secs(10)).unwrap();
    typed.get_or_load("loaded", || Ok::<_, Infallible>(1)).unwrap();
    let left = |key: &str| cache.peek(key.as_bytes()).unwrap().deadline.0 - cache.now();
    assert_eq!((left("inserted"), left("short"), left("loaded")), (160, 110, 160));
    cache.tick(cache.now() + 70);
    assert_eq!(typed.get("inserted").unwrap(), Some(1), "the value is stale");
    let refreshed = typed.get_or_load("inserted", || Ok::<_, Infallible>(2));
    assert_eq!(refreshed.unwrap(), 2);
    let kept = typed.get_or_load("loaded", || Err("the database is away"));
    assert_eq!(kept.unwrap(), 1, "a failed refresh keeps the old value");
}

#[test]
fn views_share_their_cache_between_threads() {
    let users = users(&cache());
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let users = users.clone();
            scope.spawn(move || {
                for key in 0..500 {
                    let user = User { name: key.to_string(), visits: 0 };
                    let key = key * 4 + thread;
                    users.insert(&key, &user).unwrap();
                    assert_eq!(users.get(&key).unwrap(), Some(user));
                }
            });
        }
    });
    assert_eq!(users.cache().len(), 2000);
}

#[test]
fn values_larger_than_a_piece_come_back() {
    let large: TypedCache<u8, Vec<User>, Postcard> =
        TypedCache::with_codec(cache(), Postcard::new());
    let value = vec![User { name: "x".repeat(1000), visits: u32::MAX }; 200];
    large.insert(&1, &value).unwrap();
    assert_eq!(large.get(&1).unwrap(), Some(value));
}
