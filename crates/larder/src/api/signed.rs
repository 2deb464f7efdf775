//! Signed counters: items with the tag [`LONG`](tag::LONG).

use std::time::Duration;

use larder_engine::{Signed, SignedChange, SignedRequest, StoreRequest, Stored};
use larder_item::{Deadline, StoreMode};

use crate::api::cache::Cache;
use crate::api::set::CountError;
use crate::backend::waited;
use crate::tier::Dependency;

/// Tags: the low four bits of an item's flags are the type of its value, for programs in several
/// languages that share a cache. The first tags are the same as in php-memcached.
pub mod tag {
    /// The bits of the flags that contain the tag.
    pub const MASK: u32 = 15;
    /// A string of bytes.
    pub const STRING: u32 = 0;
    /// A signed integer of 64 bits, as decimal text.
    pub const LONG: u32 = 1;
    /// A floating-point number, as decimal text.
    pub const DOUBLE: u32 = 2;
    /// `1` for true; `0` or no bytes for false.
    pub const BOOL: u32 = 3;
    /// PHP's serialization.
    pub const PHP: u32 = 4;
    /// igbinary.
    pub const IGBINARY: u32 = 5;
    /// JSON, as UTF-8.
    pub const JSON: u32 = 6;
    /// MessagePack.
    pub const MSGPACK: u32 = 7;
    /// No value; no bytes.
    pub const NULL: u32 = 8;
    /// An array in the compact encoding of `php/`.
    pub const ARRAY: u32 = 9;
    /// Text, as UTF-8. Languages whose strings are bytes read it as a string.
    pub const TEXT: u32 = 11;
    /// Python's pickle.
    pub const PICKLE: u32 = 12;
    /// Python's pickle after an HMAC-SHA256 of 32 bytes.
    pub const SIGNED_PICKLE: u32 = 13;
    /// A value in the format of one program, which the other bits of the flags identify: see
    /// [`Format::of_program`](crate::Format::of_program).
    pub const PROGRAM: u32 = 14;
}

impl Cache {
    /// Adds to a signed counter and returns its new value. A counter is an item with the tag
    /// [`tag::LONG`] whose value is a decimal number. It wraps at 2⁶³ and keeps its time to live.
    /// If the key is absent, the counter starts at `delta`, with `ttl`. Concurrent additions are
    /// all counted.
    ///
    /// Cost: one change in place if the number is not negative and keeps its length; otherwise the
    /// same as a store.
    ///
    /// # Errors
    /// [`CountError`]: the item has another tag, its value is not a signed 64-bit number, or the
    /// new number could not be stored.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert_eq!(cache.add_signed("balance", 5, None)?, 5);
    /// assert_eq!(cache.add_signed("balance", -7, None)?, -2);
    /// assert_eq!(cache.get("balance").as_deref(), Some(&b"-2"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_signed(
        &self,
        key: impl AsRef<[u8]>,
        delta: i64,
        ttl: Option<Duration>,
    ) -> Result<i64, CountError> {
        let key = key.as_ref();
        loop {
            if let Some(number) = self.add_signed_if_present(key, delta)? {
                return Ok(number);
            }
            let deadline = ttl.map_or(Deadline::NEVER, |ttl| self.deadline_after(ttl));
            let request = StoreRequest {
                deadline,
                flags: tag::LONG,
                ..StoreRequest::new(key, StoreMode::Add)
            };
            // Another thread may have stored the key since.
            if let Stored::Stored { .. } =
                self.store_counted(&request, delta.to_string().as_bytes())?
            {
                return Ok(delta);
            }
        }
    }

    /// Same as [`Cache::add_signed`], but returns `None` if the key is absent, and stores nothing.
    ///
    /// # Errors
    /// Same as [`Cache::add_signed`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert_eq!(cache.add_signed_if_present("balance", 5)?, None);
    /// cache.add_signed("balance", 5, None)?;
    /// assert_eq!(cache.add_signed_if_present("balance", -7)?, Some(-2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_signed_if_present(
        &self,
        key: impl AsRef<[u8]>,
        delta: i64,
    ) -> Result<Option<i64>, CountError> {
        match self.change_signed(key.as_ref(), SignedChange::Add(delta))? {
            Signed::Number(number) | Signed::Differs(number) => Ok(Some(number)),
            Signed::NonNumeric => Err(CountError::NotANumber),
            Signed::NotFound => Ok(None),
        }
    }

    /// Stores `new` in a signed counter if its value is `old`. Keeps the time to live.
    ///
    /// # Errors
    /// Same as [`Cache::add_signed`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::Signed;
    /// cache.add_signed("state", 1, None)?;
    /// assert_eq!(cache.swap_signed("state", 1, 2)?, Signed::Number(2));
    /// assert_eq!(cache.swap_signed("state", 1, 3)?, Signed::Differs(2));
    /// assert_eq!(cache.swap_signed("other", 1, 3)?, Signed::NotFound);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn swap_signed(
        &self,
        key: impl AsRef<[u8]>,
        old: i64,
        new: i64,
    ) -> Result<Signed, CountError> {
        match self.change_signed(key.as_ref(), SignedChange::Swap { old, new })? {
            Signed::NonNumeric => Err(CountError::NotANumber),
            outcome => Ok(outcome),
        }
    }

    fn change_signed(&self, key: &[u8], change: SignedChange) -> Result<Signed, CountError> {
        let request = SignedRequest {
            flags_mask: tag::MASK,
            flags: tag::LONG,
            ..SignedRequest::new(key, change)
        };
        self.shared().flights.detach(key);
        let is_absent = |outcome: &Signed| *outcome == Signed::NotFound;
        let changed = self.blocking().backend.change(
            key,
            Dependency::Needs,
            is_absent,
            |engine, operation| engine.signed(operation, &request),
        );
        Ok(waited(changed)?)
    }
}
