//! Whether a process can use the disk tier of a cache.

use larder_engine::{Refusal, StoreError};

use crate::tier::Tier;

/// How this process can use the disk tier of a cache.
#[derive(Debug)]
pub(crate) enum TierAccess {
    /// The cache has no disk tier.
    None,
    /// This process opened the disk tier.
    Own(Box<Tier>),
    /// The process from which this one was forked opened the disk tier. The child has neither the
    /// threads of the tier nor the lock of its directory.
    Parents,
    /// This process could not join the processes that share the cache, and its settings exclude a
    /// substitute. Each operation on an item fails, whether or not the cache has a disk tier.
    Lost,
}

impl From<Option<Tier>> for TierAccess {
    fn from(tier: Option<Tier>) -> Self {
        tier.map_or(Self::None, |tier| Self::Own(Box::new(tier)))
    }
}

impl TierAccess {
    /// True if no process has opened a disk tier for the cache.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Returns the disk tier if this process opened it.
    #[inline]
    pub(crate) fn own(&self) -> Option<&Tier> {
        match self {
            Self::Own(tier) => Some(tier),
            Self::None | Self::Parents | Self::Lost => None,
        }
    }

    /// Returns the disk tier; `None` if the cache has no disk tier.
    ///
    /// # Errors
    /// [`Refusal::Forked`] if the process from which this one was forked opened it;
    /// [`Refusal::Lost`] if this process cannot use the cache.
    #[inline]
    pub(crate) fn usable(&self) -> Result<Option<&Tier>, StoreError> {
        match self {
            Self::None => Ok(None),
            Self::Own(tier) => Ok(Some(tier)),
            Self::Parents => Err(Refusal::Forked.into()),
            Self::Lost => Err(Refusal::Lost.into()),
        }
    }
}
