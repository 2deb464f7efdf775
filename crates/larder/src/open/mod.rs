//! Opening a cache: in private memory, in memory that forked children share, or in a file.

pub(crate) mod anonymous;
pub(crate) mod builder;
pub(crate) mod error;
pub(crate) mod inspect;
pub(crate) mod share;

use std::fs::File;
use std::path::PathBuf;

use larder_engine::{AttachError, Config, Engine, Role};
use larder_item::Epoch;

use crate::api::cache::Cache;
use crate::process::maintainer;
use crate::process::shared::{Opening, Shared};
use crate::system::clock::Time;
use crate::system::random::random;
use crate::tier::{Tier, TierError};
use anonymous::{Inheritance, open_anonymous, open_inherited, open_readable};
use builder::Builder;
use error::{OpenError, SharedError};
use share::{Place, Sharing};

impl Cache {
    /// Returns the default settings for opening a cache.
    ///
    /// ```
    /// let cache = larder::Cache::builder().memory_bytes(16 << 20).cas(true).open()?;
    /// assert_eq!(cache.memory_limit(), 16 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens the cache in a file that any number of processes can open. If the file contains a
    /// cache, it is used as it is; otherwise an empty cache with the default settings of
    /// [`Builder`] is created. See [`Builder::shared`].
    ///
    /// Cost: a few system calls, and the repair of state that killed processes left in the cache.
    /// All memory of a new file is allocated immediately.
    ///
    /// # Errors
    /// [`OpenError`] names the file and describes the problem.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("cache");
    /// use larder::Cache;
    /// let (one, other) = (Cache::open_shared(&path)?, Cache::open_shared(&path)?);
    /// one.set("k", "v", None)?;
    /// assert_eq!(other.get("k").as_deref(), Some(&b"v"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_shared(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        Self::builder().shared(path).open()
    }
}

impl Builder {
    /// Opens the cache: an empty cache in private memory, unless the settings request a shared one.
    ///
    /// # Errors
    /// [`OpenError`] names the size that is out of bounds or cannot be allocated.
    pub fn open(self) -> Result<Cache, OpenError> {
        self.prepare()?.open()
    }

    /// Performs all steps of [`Builder::open`] except for opening the directory of a disk tier.
    /// Maps the memory, which may take a long time and may fail.
    ///
    /// # Errors
    /// Same as [`Builder::open`], except for errors of the directory.
    pub fn prepare(self) -> Result<Prepared, OpenError> {
        self.prepare_with(None)
    }

    /// Opens a cache that another process passes on ([`Cache::inheritance`]); both processes use it
    /// from then on. The memory size, cas tokens and eviction of the cache must be the requested
    /// ones.
    ///
    /// ```
    /// use larder::Cache;
    /// let builder = || Cache::builder().inheritable(true);
    /// let old = builder().open()?;
    /// old.set("k", "v", None)?;
    /// let new = builder().open_inherited(old.inheritance().transpose()?.ok_or("none")?)?;
    /// drop(old);
    /// assert_eq!(new.get("k").as_deref(), Some(&b"v"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError`]: the cache differs from the requested settings, or cannot be mapped.
    pub fn open_inherited(self, inheritance: Inheritance) -> Result<Cache, OpenError> {
        self.prepare_with(Some(inheritance))?.open()
    }

    fn prepare_with(self, inheritance: Option<Inheritance>) -> Result<Prepared, OpenError> {
        let Self { memory_bytes, cas, evict, clock, .. } = self;
        let is_private = inheritance.is_none() && self.place == Place::Private;
        let is_owned = inheritance.is_none() && self.place.is_owned();
        if let Some(disk) = &self.tier {
            if !is_owned {
                return Err(TierError::Shared.into());
            }
            disk.check(self.item_bytes_max)?;
        }
        let time = Time::starting_now(clock);
        let default_item_bytes_max = Self::default().item_bytes_max;
        let item_bytes_max = if self.item_bytes_max == default_item_bytes_max {
            default_item_bytes_max.min(memory_bytes / 2)
        } else {
            self.item_bytes_max
        };
        let config = Config {
            memory_bytes: usize::try_from(memory_bytes).unwrap_or(usize::MAX),
            memory_bytes_max: match self.place {
                Place::Private => usize::try_from(self.memory_bytes_max).unwrap_or(usize::MAX),
                _ => 0,
            },
            item_bytes_max: usize::try_from(item_bytes_max).unwrap_or(usize::MAX),
            huge_pages: self.huge_pages,
            keeps_versions: cas,
            evicts: evict,
            hash_seed: random(),
            epoch: Epoch::starting_at(time.started_unix_secs()),
            peers: self.processes_max,
        };
        let (role, file, opening) = match inheritance {
            Some(inheritance) => {
                let (engine, file) = open_inherited(&config, inheritance)?;
                (Role::Peer(engine), Some(file), Opening::Attached)
            }
            None => self.make(&config, &time)?,
        };
        let (Role::Peer(engine) | Role::Reader(engine, _)) = &role;
        let time = match is_private {
            true => time,
            false => Time::beginning_at(clock, engine.birth().monotonic_secs, engine.epoch()),
        };
        Ok(Prepared { builder: self, role, time, file, opening })
    }

    fn make(
        &self,
        config: &Config,
        time: &Time,
    ) -> Result<(Role, Option<File>, Opening), OpenError> {
        let monotonic_secs = time.started_monotonic_secs();
        let (engine, file, opening) = match &self.place {
            Place::Private => {
                let memory_bytes = self.memory_bytes;
                let engine = Engine::create(config)
                    .map_err(|source| OpenError::Memory { memory_bytes, source })?;
                (engine, None, Opening::None)
            }
            Place::Anonymous => (open_anonymous(config, monotonic_secs)?, None, Opening::None),
            Place::Readable | Place::Inheritable => {
                let inheritable = self.place == Place::Inheritable;
                let (engine, file) = open_readable(config, monotonic_secs, inheritable)?;
                (engine, Some(file), Opening::None)
            }
            Place::File(path) => {
                let Self { access, exactly, alone, replaces, .. } = *self;
                let sharing = Sharing { config, access, exactly, alone, replaces };
                let (role, file, opening) = sharing.open(path, monotonic_secs)?;
                if self.substitute {
                    // Only a forked child receives an empty cache; the opening fails.
                    let engine = role.peer().map_err(|full| SharedError::Unusable {
                        path: path.clone(),
                        reason: AttachError::from(full).into(),
                    })?;
                    return Ok((Role::Peer(engine), Some(file), opening));
                }
                return Ok((role, Some(file), opening));
            }
        };
        Ok((Role::Peer(engine), file, opening))
    }
}

/// A cache whose memory is mapped. If it has a disk tier, the directory is not open yet
/// ([`Builder::prepare`]).
#[derive(Debug)]
pub struct Prepared {
    builder: Builder,
    role: Role,
    time: Time,
    file: Option<File>,
    opening: Opening,
}

impl Prepared {
    /// Checks whether the directory could be opened with these settings, even if another process
    /// uses it now. Changes nothing.
    ///
    /// # Errors
    /// [`OpenError::Tier`]: the reason why [`Prepared::open`] would fail.
    pub fn rehearse(&self) -> Result<(), OpenError> {
        Ok(self.builder.tier.as_ref().map_or(Ok(()), Tier::rehearse)?)
    }

    /// Opens the directory of the disk tier, if any, and then the cache.
    ///
    /// # Errors
    /// [`OpenError`] describes the problem with the directory, or reports that no thread can be
    /// started.
    pub fn open(self) -> Result<Cache, OpenError> {
        let Self { builder, role, time, file, opening } = self;
        let mut engine = match role {
            Role::Peer(engine) => engine,
            Role::Reader(engine, full) => {
                return Ok(Cache::of(Shared::outside(engine, full, time), file, opening));
            }
        };
        let open = |disk| Tier::open(disk, builder.memory_bytes, time);
        let tier = builder.tier.as_ref().map(open).transpose()?;
        if let Some(tier) = &tier {
            engine.set_journal(tier.journal());
            engine.raise_versions(tier.versions_past());
            tier.schedule_clear(&engine);
        }
        let mut shared = Shared::new(engine, time);
        shared.has_substitute = builder.substitute;
        shared.tier = tier.into();
        let cache = Cache::of(shared, file, opening);
        if builder.maintainer {
            let maintainer = maintainer::start(cache.shared()).map_err(OpenError::Thread)?;
            let _ = cache.shared().maintainer.set(maintainer);
        }
        Ok(cache)
    }
}
