//! Larder: a memcached-compatible cache as a library.
//!
//! ```
//! use larder::Cache;
//! use std::time::Duration;
//!
//! let cache = Cache::builder().memory_bytes(64 << 20).open()?;
//! cache.set("greeting", "hello", Some(Duration::from_secs(60)))?;
//! assert_eq!(cache.get("greeting").as_deref(), Some(&b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Cache`] is one region of memory that holds everything: items, index and statistics. It never
//! takes more than its limit, plus the pages of this library's code and a few hundred bytes per
//! thread. It is `Send + Sync + Clone`. Clones share one cache, and dropping the last clone returns
//! the memory to the system. Without a disk tier ([`Builder::tier`]) no operation starts a thread
//! or reads a file, and a get never waits for another thread. A disk tier runs threads, and reads
//! items that are not in memory from the disk.
//!
//! # Which method do I want?
//!
//! | I want to | |
//! |---|---|
//! | get a value | [`get`](Cache::get), without an allocation [`get_into`](Cache::get_into), [`get_with`](Cache::get_with) |
//! | get several values in one call | [`get_many`](Cache::get_many), [`get_many_with`](Cache::get_many_with) |
//! | check whether a key has a value | [`contains`](Cache::contains) |
//! | get a value, or load it on a miss | [`get_or_load`](Cache::get_or_load), [`get_or_load_into`](Cache::get_or_load_into) |
//! | store a value | [`set`](Cache::set); only if the key is absent [`add`](Cache::add), only if it is present [`replace`](Cache::replace) |
//! | change a value | [`append`](Cache::append), [`prepend`](Cache::prepend), any other way [`compare_and_set`](Cache::compare_and_set) |
//! | count | [`increment`](Cache::increment), [`decrement`](Cache::decrement); below 0 [`add_signed`](Cache::add_signed), [`swap_signed`](Cache::swap_signed) |
//! | extend the life of an item | [`touch`](Cache::touch), [`get_and_touch`](Cache::get_and_touch) |
//! | remove items | [`delete`](Cache::delete), [`remove_prefix`](Cache::remove_prefix), all of them [`clear`](Cache::clear) |
//! | list the items | [`keys`](Cache::keys), [`keys_with_prefix`](Cache::keys_with_prefix), [`iterate`](Cache::iterate), [`len`](Cache::len) |
//! | observe the cache | [`stats`](Cache::stats), [`memory`](Cache::memory) |
//! | use the cache of a server on this machine | [`connect`](Cache::connect), which returns a [`Client`] |
//! | use either kind of cache | [`AnyCache`] |
//! | use keys and values of Rust types | [`TypedCache`] |
//! | write a server or a binding | [`raw`] and [`dump`], [`set_departure_hook`](Cache::set_departure_hook), [`report`](Cache::report), [`validate`](Cache::validate) |
//!
//! # Keys, values and time
//!
//! A key is 1 to 250 arbitrary bytes: [`KEY_BYTES_MAX`], the limit of memcached's wire protocol, so
//! that a server can show every item. (A record has room for 255.) Stores reject other keys with
//! [`StoreError::Key`]; all other operations report a miss for them. A value is any sequence of
//! bytes up to [`Builder::item_bytes_max`], and may be empty. Time is counted in whole seconds.
//!
//! **Memory per item**, in bytes: `8 + key + value`, plus 8 with cas tokens, plus 4 with a TTL,
//! plus 4 with client flags, rounded up to 8; plus 12.8 to 14.2 of index, measured while the index
//! grows from a hundred thousand to six million items. A value larger than 16 KiB, or than about an
//! eighth of a segment, is stored in pieces of an eighth of a segment, at 24 more bytes per piece.
//! A segment is a 256th of the memory, 64 KiB at least and 1 MiB at most.
//!
//! # Features
//!
//! All are off by default, and without them the library has no dependency for them.
//!
//! | feature | adds |
//! |---|---|
//! | `serde` | `Postcard`, the codec of a [`TypedCache`] for types with serde's traits |
//! | `tokio` | `Cache::get_or_load_async` and `TypedCache::get_or_load_async`: loads in tasks, without a thread |
//! | `tracing` | reports rare events to `tracing`, with the target `larder`: opening a cache, failed loads and stores |
//! | `metrics` | `CacheMetrics`, which passes the statistics to the recorder of the crate `metrics` |
//!
//! The modules, from the top layer down. Each imports only modules below it:
//!
//! | module | contents |
//! |---|---|
//! | `open` | [`Builder`], caches in files and in shared memory, [`Inspection`] |
//! | `any` | [`AnyCache`], for programs that use a cache of either kind |
//! | `client` | [`Client`], for the cache of a server on the same machine |
//! | `typed` | [`TypedCache`], its keys and its codecs |
//! | `metrics` | the statistics as metrics of the crate `metrics` |
//! | `api` | the interface for programs: [`Cache`], one concern per file |
//! | `raw` | the interface for servers: operations with an explicit way to wait for the disk, values in parts |
//! | `backend` | operations on items that may be in memory or only on the disk |
//! | `copies` | copies of another server's items, for a near cache |
//! | `process` | a cache in one process: threads and their slots, loads in progress, forked children |
//! | `tier` | [`DiskTier`]: adapters between the engine and the log on disk |
//! | `events` | rare events, for `tracing` |
//! | `system` | the time, and random numbers |
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod any;
mod api;
mod backend;
pub mod client;
pub mod copies;
mod events;
#[cfg(feature = "metrics")]
mod metrics;
mod open;
mod process;
pub mod raw;
mod system;
mod tier;
mod typed;

/// The examples of the pages of the book.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/start/rust.md")]
    mod start {}
}

pub use any::{AnyCache, AnyCacheError};
pub use api::{cache, dump, get, load, prefix, set, signed, stats, walk};
pub use backend::large::{LargeValue, Piece, Read};
pub use backend::waited;
pub use cache::Cache;
pub use client::{Client, ClientError, ClientStore, ClientStored, Hit};
pub use larder_engine::{
    Arithmetic, ArithmeticRequest, Basis, Broken, ChangeListener, CreateError, Cursor, Deletion,
    Dumped, Evicted, ItemReport, ItemReports, JoinError, Lease, Leaving, LimitError, MetaOutcome,
    MetaUpdate, Miss, PeerReport, ReadOptions, Reason, Refusal, Removed, Report, Sampled,
    SegmentReport, Signed, SignedChange, SignedRequest, Stale, StoreError, StoreRequest, Stored,
};
pub use larder_item::{
    Deadline, Direction, Epoch, KEY_BYTES_MAX, KeyError, Meta, Second, StoreMode,
};
pub use larder_region::layout::FORMAT as REGION_FORMAT;
pub use larder_region::{Lent, Sink, peer_groups};
pub use larder_stats::Counter;
pub use larder_tier::store::{
    Damage as TierDamage, Findings as TierFindings, SalvageReport as TierSalvaged,
    Trust as TierTrust,
};
pub use load::{Format, LoadError, LoadOptions, Loaded};
#[cfg(feature = "metrics")]
pub use metrics::CacheMetrics;
pub use open::Prepared;
pub use open::anonymous::Inheritance;
pub use open::builder::Builder;
pub use open::error::{OpenError, SharedError, Unusable};
pub use open::inspect::{Inspection, Peer};
pub use prefix::PrefixRemoval;
pub use process::codec_error::CodecError;
pub use process::removals::Removals;
pub use process::shared::Opening;
pub use raw::Raw;
pub use raw::upload::{DirectBuffer, Upload};
pub use set::{CountError, Swap, SwapError};
pub use stats::{Memory, Stat};
pub use system::clock::Clock;
pub use tier::inspection::{TierInspection, TierItem};
pub use tier::lookup::{DiskLookup, DiskNeed, DiskPages, DiskRead};
pub use tier::ticket::{DurabilityTicket, TicketState, TierStatus};
pub use tier::wait::{Deferred, Wait};
pub use tier::walking::WalkStep;
pub use tier::{
    Admission, DiskTier, Durability, PromotionPolicy, TierCaution, TierError, TierMode,
    TierStarted, TierStatistics,
};
pub use typed::codec::{Codec, CodecCause, Plain};
pub use typed::key::{Key, KeyBuf};
#[cfg(feature = "serde")]
pub use typed::postcard::Postcard;
pub use typed::{TypedCache, TypedError};
pub use walk::{Item, Items, Keys, Walk};
