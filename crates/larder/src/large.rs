//! Reading and storing values that come in pieces.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use larder_engine::{
    DirectBuffer as Room, Engine, Evicted, LargeValue as Pieces, Miss, Pinned, StoreError, Stored,
    ThreadSlot, Upload as Arriving,
};
use larder_item::Meta;

use crate::cache::Shared;
use crate::{StoreRequest, thread::slots};

/// The longest part of a value that is copied for a slow reader at a time.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// The outcome of a read.
#[derive(Debug)]
pub enum Read {
    /// The value is in the buffer.
    Hit(Meta),
    /// The value is kept in pieces: only the head is in the buffer. Take the pieces one by one.
    Large(Meta, Box<LargeValue>),
    /// There is no such item.
    Miss(Miss),
}

/// A large value that is being read piece by piece. Until it is dropped its pieces stay where they are, also
/// when the item is deleted, replaced or evicted; all readers together hold a quarter of the memory at most,
/// and a value beyond that may be gone before it is read to its end.
#[derive(Debug)]
pub struct LargeValue {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pieces: Pieces,
}

impl LargeValue {
    /// Appends the next piece to `out`; false where all have been read.
    ///
    /// ```
    /// use larder::Read;
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("large", [7; 500_000], None)?;
    /// let mut value = Vec::new();
    /// let Read::Large(_, mut large) = cache.read(b"large", &mut value, |_, _| ()) else {
    ///     return Err("half a megabyte is large".into());
    /// };
    /// while large.next_piece(&mut value)? {}
    /// assert_eq!(value, [7; 500_000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Evicted`] if the value is gone: what was read of it so far is of no use.
    pub fn next_piece(&mut self, out: &mut Vec<u8>) -> Result<bool, Evicted> {
        if !self.shared.is_of_this_process() {
            return Err(Evicted);
        }
        self.shared.engine.read_piece(&mut self.pieces, out)
    }

    /// Takes the next piece without copying it; none where all have been read.
    ///
    /// Of a value beyond what readers may hold it is a copy after all, of at most 16 KiB: the rest of the piece comes with
    /// the next calls.
    ///
    /// ```
    /// use larder::Read;
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("large", [7; 500_000], None)?;
    /// let Read::Large(_, mut large) = cache.read(b"large", &mut Vec::new(), |_, _| ()) else {
    ///     return Err("half a megabyte is large".into());
    /// };
    /// let mut sum = 0;
    /// while let Some(piece) = large.take_piece()? {
    ///     sum += piece.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    /// }
    /// assert_eq!(sum, 7 * 500_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`LargeValue::next_piece`].
    pub fn take_piece(&mut self) -> Result<Option<Piece>, Evicted> {
        let Self { shared, pieces } = self;
        if !shared.is_of_this_process() {
            return Err(Evicted);
        }
        if let Some(pinned) = shared.engine.take_piece(pieces) {
            return Ok(Some(Piece(Bytes::Held(Arc::clone(shared), Some(pinned)))));
        }
        let mut copy = Vec::new();
        let is_there = shared.engine.read_part(pieces, COPIED_BYTES_MAX, &mut copy)?;
        Ok(is_there.then_some(Piece(Bytes::Copied(copy))))
    }
}

/// The bytes of a piece of a large value: where they are in the cache's memory, which they keep from other use, or
/// a copy of some of them.
#[derive(Debug)]
pub struct Piece(Bytes);

#[derive(Debug)]
enum Bytes {
    /// Gone once let go of.
    Held(Arc<Shared>, Option<Pinned>),
    Copied(Vec<u8>),
}

impl Piece {
    /// The memory it owns beyond its own size and that of the cache, in bytes.
    pub fn owned_bytes(&self) -> usize {
        match &self.0 {
            Bytes::Held(..) => 0,
            Bytes::Copied(copy) => copy.capacity(),
        }
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Held(shared, Some(pinned)) if shared.is_of_this_process() => {
                shared.engine.bytes_of(pinned)
            }
            Bytes::Held(..) => &[],
            Bytes::Copied(copy) => copy,
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Bytes::Held(shared, pinned) = &mut self.0
            && shared.is_of_this_process()
            && let Some(pinned) = pinned.take()
        {
            shared.engine.release(pinned);
        }
    }
}

impl Drop for LargeValue {
    fn drop(&mut self) {
        if self.shared.is_of_this_process() {
            self.shared.engine.close_large(&mut self.pieces);
        }
    }
}

/// A large value that arrives in parts, each of which is written to where it stays. Dropped before it is stored, it gives
/// everything back.
#[derive(Debug)]
pub struct Upload {
    pub(crate) shared: Arc<Shared>,
    /// Gone once stored.
    pub(crate) arriving: Option<Arriving>,
}

impl Upload {
    /// Takes the next bytes of the value.
    ///
    /// Cost: the bytes are copied once.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] where no memory can be had, or what has come so far was evicted before the rest came;
    /// [`StoreError::TooLarge`] for more bytes than were announced. Drop the upload then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let arriving = self.arriving.as_mut().ok_or(StoreError::TooLarge)?;
        if !self.shared.is_of_this_process() {
            return Err(StoreError::NoMemory);
        }
        let now = self.shared.now();
        slots::with_thread_slot(&self.shared, |engine, thread| {
            engine.push(thread, arriving, bytes, now)
        })
    }

    /// Room in the cache's memory for the next bytes of the value, for who can write there without this program's
    /// doing, as a system can that receives. None where they had better be pushed: where all have arrived, as much is
    /// held as may be, or the upload is lost.
    pub fn direct_buffer(&mut self) -> Option<DirectBuffer> {
        let arriving = self.arriving.as_mut().filter(|arriving| !arriving.is_complete())?;
        if !self.shared.is_of_this_process() {
            return None;
        }
        let now = self.shared.now();
        let direct_buffer =
            |engine: &Engine, thread: &ThreadSlot| engine.direct_buffer(thread, arriving, now);
        let room = slots::with_thread_slot(&self.shared, direct_buffer)?;
        Some(DirectBuffer { shared: Arc::clone(&self.shared), room: Some(room) })
    }

    /// The first `bytes` of a landing have been written, which was made for what comes next of this upload.
    pub fn complete_direct(&mut self, mut direct_buffer: DirectBuffer, bytes: usize) {
        // In a child of the process that made it the room, and the pin that keeps it, are the parent's.
        if self.shared.is_of_this_process()
            && let Some(arriving) = &mut self.arriving
            && let Some(room) = direct_buffer.room.take()
        {
            self.shared.engine.complete_direct(arriving, room, bytes);
        }
    }

    /// The memory it takes besides the cache's, in bytes: some for each piece that has begun to arrive.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// let mut upload = cache.upload(b"k", 1_000_000)?;
    /// upload.push(&[7; 500_000])?;
    /// assert!(upload.held_bytes() < 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn held_bytes(&self) -> usize {
        self.arriving.as_ref().map_or(0, Arriving::held_bytes)
    }

    /// Stores the item now that its value has arrived.
    ///
    /// # Errors
    /// As [`Cache::store`](crate::Cache::store). [`StoreError::NoMemory`] also where a piece was evicted before the last one
    /// arrived, [`StoreError::TooLarge`] where bytes are missing.
    pub fn store(mut self, request: &StoreRequest<'_>) -> Result<Stored, StoreError> {
        let complete = self.arriving.take_if(|arriving| arriving.is_complete());
        let arriving = complete.ok_or(StoreError::TooLarge)?;
        if !self.shared.is_of_this_process() {
            return Err(StoreError::NoMemory);
        }
        let now = self.shared.now();
        self.shared.flights.detach(request.key);
        let publish = |engine: &Engine, thread: &ThreadSlot| {
            engine.publish_upload(thread, arriving, request, now)
        };
        slots::with_thread_slot(&self.shared, publish)
    }
}

/// Room in a cache's memory for the next bytes of an [`Upload`]. Until it is dropped the room is for nothing else, also
/// where the upload is dropped before.
#[derive(Debug)]
pub struct DirectBuffer {
    shared: Arc<Shared>,
    /// Gone once given back.
    room: Option<Room>,
}

impl DirectBuffer {
    /// Where the room is, and how many bytes there is room for. Who writes there does so while the landing lives, and in
    /// the process that made it: none in a child.
    pub fn room(&self) -> Option<(NonNull<u8>, usize)> {
        let room = self.room.as_ref().filter(|_| self.shared.is_of_this_process())?;
        self.shared.engine.room_of(room)
    }
}

impl Drop for DirectBuffer {
    fn drop(&mut self) {
        if let Some(room) = self.room.take()
            && self.shared.is_of_this_process()
        {
            self.shared.engine.cancel_direct(room);
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(arriving) = self.arriving.take()
            && self.shared.is_of_this_process()
        {
            slots::with_thread_slot(&self.shared, |engine, thread| {
                engine.abort_upload(thread, arriving)
            });
        }
    }
}
