//! Opens the cache: the cache of the predecessor, which is the server that this process replaces,
//! the cache in the memory file or in a directory, or an empty one.

use larder::{Builder, Cache, Clock, Inheritance, OpenError};
use larder_options::Options;

use crate::log;
use crate::server::disk_tier::{self, UnopenedDirectory};
use crate::server::error::ServerError;
use crate::server::memory_file;
use crate::words::CountedNoun;

/// The state that a server takes over from its predecessor.
#[derive(Debug)]
pub(crate) struct Takeover {
    /// The memory of the cache, if it can be handed over.
    pub(crate) memory: Option<InheritedMemory>,
}

/// The memory of a cache that is handed over.
#[derive(Debug)]
pub(crate) struct InheritedMemory {
    pub(crate) inheritance: Inheritance,
    /// The old server's `--local-readers`, which determines the processes that may have mapped the
    /// memory.
    pub(crate) readers: String,
}

/// A cache whose memory is mapped.
#[derive(Debug)]
pub(crate) enum UnopenedCache {
    /// A cache without a directory.
    Whole(Cache),
    /// A cache whose directory, `--tier-path`, must still be opened.
    Directory(Box<UnopenedDirectory>),
}

impl UnopenedCache {
    /// Checks whether the directory can be opened although the predecessor still uses it.
    ///
    /// # Errors
    /// Returns the reason why it cannot.
    pub(crate) fn rehearse(&self) -> Result<(), ServerError> {
        match self {
            Self::Whole(_) => Ok(()),
            Self::Directory(directory) => Ok(directory.rehearse()?),
        }
    }

    /// Opens the directory, if there is one.
    ///
    /// # Errors
    /// Fails if the directory cannot be used.
    pub(crate) fn open(self) -> Result<Cache, ServerError> {
        match self {
            Self::Whole(cache) => Ok(cache),
            Self::Directory(directory) => Ok(directory.open()?),
        }
    }
}

/// Maps the memory of a server with these options, including an existing cache. `observer` observes
/// the opening of a directory.
///
/// # Errors
/// Fails if the memory cannot be allocated, or if the memory file cannot be used.
pub(crate) fn prepare(
    options: &Options,
    takeover: Option<Takeover>,
    observer: disk_tier::Observer,
) -> Result<UnopenedCache, ServerError> {
    let builder = Cache::builder()
        .memory_bytes(options.cache_bytes())
        .item_bytes_max(options.item_bytes_max)
        .cas(options.cas)
        .evict(options.evict)
        .clock(Clock::Ticked)
        .maintainer(true)
        .inheritable(options.has_readers());
    if let Some(tier) = &options.disk_tier {
        let directory = UnopenedDirectory::prepare(builder, tier, options, observer)?;
        return Ok(UnopenedCache::Directory(Box::new(directory)));
    }
    if let Some(path) = &options.memory_file {
        // If a predecessor hands over, it still has the file open.
        let is_alone = takeover.is_none();
        return Ok(UnopenedCache::Whole(memory_file::open(builder, path, options, is_alone)?));
    }
    let memory = takeover.and_then(|takeover| takeover.memory);
    Ok(UnopenedCache::Whole(match memory.and_then(|memory| inherit(&builder, options, memory)) {
        Some(cache) => cache,
        None => open(builder, options)?,
    }))
}

/// Opens the cache of the predecessor. Returns `None`, and logs the reason, if the cache does not
/// match the options.
fn inherit(builder: &Builder, options: &Options, memory: InheritedMemory) -> Option<Cache> {
    let InheritedMemory { inheritance, readers } = memory;
    let now = options.local_readers.to_string();
    let opened = if !options.has_readers() || readers != now {
        // Processes that may no longer read it still have it mapped.
        Err(format!("it was started with --local-readers={readers}, and the option is now {now}"))
    } else {
        builder.clone().open_inherited(inheritance).map_err(|error| error.to_string())
    };
    match opened {
        Ok(cache) => {
            let items = CountedNoun(cache.len(), "item");
            log::info(format_args!("larderd: inherited a cache of {items}"));
            Some(cache)
        }
        Err(why) => {
            log::warn(format_args!(
                "larderd: the cache begins empty, because the predecessor's cannot be used: {why}"
            ));
            None
        }
    }
}

fn open(builder: Builder, options: &Options) -> Result<Cache, OpenError> {
    if options.huge_pages {
        match builder.clone().huge_pages(true).open() {
            Ok(cache) => return Ok(cache),
            // If the cause is something other than huge pages, the next attempt also fails, and its
            // error is reported.
            Err(_) => log::warn(format_args!(
                "larderd: option -L: the system has too few free huge pages, so the cache uses \
                 ordinary pages, which is slower but works; set aside at least {} of 2 MiB with \
                 sysctl vm.nr_hugepages, or leave -L out",
                (options.memory_bytes >> 21) + HUGE_PAGES_MORE
            )),
        }
    }
    // Reserves address space, so that the memory limit can be raised later. That costs no memory,
    // except if memory is locked: the system would then commit all of it. If the address space of
    // the process is limited, the cache opens without this reserve.
    if !options.lock_memory {
        let growing = builder.clone().memory_bytes_max(options.cache_bytes() * GROWTH_MAX);
        if let Ok(cache) = growing.open() {
            return Ok(cache);
        }
    }
    builder.open()
}

/// Huge pages for the index and the rest of a cache's memory beyond its limit.
const HUGE_PAGES_MORE: u64 = 2;

/// `cache_memlimit` can raise the memory to this multiple of the initial `-m`.
pub(crate) const GROWTH_MAX: u64 = 16;
