//! Reading and storing values that come in pieces.

use larder_engine::{Evicted, LargeValue as Pieces, Miss, StoreError, Stored, Upload as Arriving};
use larder_item::Meta;

use crate::{Cache, Request};

/// The outcome of a read.
#[derive(Debug)]
pub enum Read {
    /// The value is in the buffer.
    Hit(Meta),
    /// The value is kept in pieces: only the head is in the buffer. Take the pieces one by one.
    Large(Meta, LargeValue),
    /// There is no such item.
    Miss(Miss),
}

/// A large value that is being read piece by piece. It holds nothing in the cache and at most one word a
/// piece outside of it.
#[derive(Debug)]
pub struct LargeValue {
    pub(crate) cache: Cache,
    pub(crate) pieces: Pieces,
}

impl LargeValue {
    /// Appends the next piece to `out`; false where all have been read.
    ///
    /// # Errors
    /// [`Evicted`] if the value is gone: what was read of it so far is of no use.
    pub fn next_piece(&mut self, out: &mut Vec<u8>) -> Result<bool, Evicted> {
        self.cache.shared.engine.read_piece(&mut self.pieces, out)
    }
}

/// A large value that arrives in parts. At most one piece of it, an eighth of a segment, waits outside of
/// the cache's memory. Dropped before it is stored, it gives everything back.
#[derive(Debug)]
pub struct Upload {
    pub(crate) cache: Cache,
    /// Gone once stored.
    pub(crate) arriving: Option<Arriving>,
}

impl Upload {
    /// Takes the next bytes of the value.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] where no memory can be had, [`StoreError::TooLarge`] for more bytes than
    /// were announced. Drop the upload then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let arriving = self.arriving.as_mut().ok_or(StoreError::TooLarge)?;
        let now = self.cache.now();
        self.cache.with_seat(|engine, seat| engine.push(seat, arriving, bytes, now))
    }

    /// Stores the item now that its value has arrived.
    ///
    /// # Errors
    /// As [`Cache::store`]. [`StoreError::NoMemory`] also where a piece was evicted before the last one
    /// arrived, [`StoreError::TooLarge`] where bytes are missing.
    pub fn store(mut self, request: &Request<'_>) -> Result<Stored, StoreError> {
        let complete = self.arriving.take_if(|arriving| arriving.is_complete());
        let arriving = complete.ok_or(StoreError::TooLarge)?;
        let now = self.cache.now();
        self.cache.with_seat(|engine, seat| engine.publish_upload(seat, arriving, request, now))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(arriving) = self.arriving.take() {
            self.cache.with_seat(|engine, seat| engine.abort_upload(seat, arriving));
        }
    }
}
