//! Counters: integers that programs in all languages add to.

use larder::signed::tag;
use larder::{Cache, CountError, Deadline, StoreError, StoreMode, StoreRequest, Stored};

/// The reason why [`add`] failed.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The operation on the cache failed.
    #[error(transparent)]
    Count(#[from] CountError),
    /// The first value of an absent counter does not fit into 64 bits.
    #[error("a counter is an integer of 64 bits")]
    Overflow,
}

impl From<StoreError> for AddError {
    fn from(error: StoreError) -> Self {
        Self::Count(error.into())
    }
}

/// Adds `delta` to a counter, and returns its new value. An absent counter starts at `initial`,
/// with the deadline; without `initial` the result is `None`. A counter has 64 bits: after 2^63 − 1
/// follows −2^63.
///
/// A number in plain text, which programs store by the protocols of memcached, is also a counter.
/// It has 64 bits and no sign, and a decrement stops at 0.
///
/// # Errors
/// [`AddError::Count`] if the value is not a number, or the item cannot be stored.
/// [`AddError::Overflow`] if `initial + delta` has more than 64 bits.
pub fn add(
    cache: &Cache,
    key: &[u8],
    delta: i64,
    initial: Option<i64>,
    deadline: Deadline,
) -> Result<Option<i128>, AddError> {
    let absent =
        StoreRequest { deadline, flags: tag::LONG, ..StoreRequest::new(key, StoreMode::Add) };
    loop {
        let counted = match cache.add_signed_if_present(key, delta) {
            Err(CountError::NotANumber) => add_unsigned(cache, key, delta),
            counted => counted.map(|number| number.map(i128::from)),
        };
        if let Some(number) = counted? {
            return Ok(Some(number));
        }
        let Some(initial) = initial else { return Ok(None) };
        let number = initial.checked_add(delta).ok_or(AddError::Overflow)?;
        let mut text = itoa::Buffer::new();
        // Another caller may have stored the counter since.
        let stored = cache.store_counted(&absent, text.format(number).as_bytes())?;
        if matches!(stored, Stored::Stored { .. }) {
            return Ok(Some(number.into()));
        }
    }
}

fn add_unsigned(cache: &Cache, key: &[u8], delta: i64) -> Result<Option<i128>, CountError> {
    if cache.try_peek(key)?.is_some_and(|meta| meta.flags != tag::STRING) {
        return Err(CountError::NotANumber);
    }
    let changed = match delta {
        0.. => cache.increment(key, delta.unsigned_abs()),
        ..0 => cache.decrement(key, delta.unsigned_abs()),
    };
    Ok(changed?.map(i128::from))
}
