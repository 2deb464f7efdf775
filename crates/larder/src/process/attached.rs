//! The disk tier as a process has it.

use larder_engine::{Refusal, StoreError};

use crate::tier::Tier;

/// The disk tier of a cache, as this process has it.
#[derive(Debug)]
pub(crate) enum Attached {
    /// The cache has none.
    None,
    /// This process opened it.
    Own(Box<Tier>),
    /// The process that this one was forked from opened it. The child has neither its threads nor
    /// the lock of its directory.
    Parents,
    /// The cache may have none, but this process could not join those that share the cache, and its
    /// settings exclude a substitute: each operation on an item fails.
    Lost,
}

impl From<Option<Tier>> for Attached {
    fn from(tier: Option<Tier>) -> Self {
        tier.map_or(Self::None, |tier| Self::Own(Box::new(tier)))
    }
}

impl Attached {
    /// True if the cache has no disk tier, in no process.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The disk tier that this process opened.
    #[inline]
    pub(crate) fn own(&self) -> Option<&Tier> {
        match self {
            Self::Own(tier) => Some(tier),
            Self::None | Self::Parents | Self::Lost => None,
        }
    }

    /// The disk tier; `None` if the cache has none.
    ///
    /// # Errors
    /// [`Refusal::Forked`] if another process opened it; [`Refusal::Lost`] if this process cannot
    /// use the cache.
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
