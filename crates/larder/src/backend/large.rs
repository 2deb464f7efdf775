//! The outcome of a read, and reads of large values piece by piece.

use std::ops::Deref;
use std::sync::Arc;

use larder_engine::{Evicted, LargeValue as Pieces, Miss, PinnedPiece, StoreError};
use larder_item::Meta;
use larder_region::Sink;

use crate::process::shared::Shared;

/// Maximum number of bytes of a value that are copied for a slow reader at a time.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// The outcome of a read.
#[derive(Debug)]
pub enum Read {
    /// The value is in the buffer.
    Hit(Meta),
    /// The value is stored in pieces. The buffer contains only the bytes before the value; read the
    /// pieces one by one.
    Large(Meta, Box<LargeValue>),
    /// The item is absent.
    Miss(Miss),
    /// The disk tier has the item but did not return it, for this reason.
    Failed(StoreError),
}

/// A read of a large value, piece by piece. The pieces stay in place until it is dropped, even if
/// the item is deleted, replaced or evicted. All readers together hold at most a quarter of the
/// memory; a value beyond that limit may be evicted before it is read completely.
#[derive(Debug)]
pub struct LargeValue {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pieces: Pieces,
}

impl LargeValue {
    /// Appends the next piece to `out`. Returns false after the last piece.
    ///
    /// ```
    /// use larder::Read;
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("large", [7; 500_000], None)?;
    /// let mut value = Vec::new();
    /// let Read::Large(_, mut large) = cache.read(b"large", &mut value, |_, _| ()) else {
    ///     return Err("the value is not large".into());
    /// };
    /// while large.next_piece(&mut value)? {}
    /// assert_eq!(value, [7; 500_000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Evicted`] if the value was evicted; discard the part already read.
    pub fn next_piece(&mut self, out: &mut Vec<u8>) -> Result<bool, Evicted> {
        if !self.shared.is_of_this_process() {
            return Err(Evicted);
        }
        self.shared.engine.read_piece(&mut self.pieces, out)
    }

    /// Appends all pieces to `out`.
    pub(crate) fn copy(&mut self, out: &mut impl Sink) -> Result<(), Evicted> {
        if !self.shared.is_of_this_process() {
            return Err(Evicted);
        }
        while self.shared.engine.read_piece(&mut self.pieces, out)? {}
        Ok(())
    }

    /// Takes the next piece without copying it; `None` after the last piece.
    ///
    /// If readers already hold the maximum amount of memory, the piece is a copy of at most 16 KiB,
    /// and the next calls return the rest.
    ///
    /// ```
    /// use larder::Read;
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("large", [7; 500_000], None)?;
    /// let Read::Large(_, mut large) = cache.read(b"large", &mut Vec::new(), |_, _| ()) else {
    ///     return Err("the value is not large".into());
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
    /// Same as [`LargeValue::next_piece`].
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

    /// Returns the memory that the read uses outside the cache's memory, in bytes: a few bytes for
    /// each piece.
    ///
    /// ```
    /// use larder::Read;
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("large", [7; 500_000], None)?;
    /// let Read::Large(_, large) = cache.read(b"large", &mut Vec::new(), |_, _| ()) else {
    ///     return Err("the value is not large".into());
    /// };
    /// assert!(large.held_bytes() < 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn held_bytes(&self) -> usize {
        self.pieces.held_bytes()
    }
}

/// The bytes of a piece of a large value: a pinned range of the cache's memory, or a copy of a part
/// of the piece.
#[derive(Debug)]
pub struct Piece(Bytes);

#[derive(Debug)]
enum Bytes {
    /// `None` once released.
    Held(Arc<Shared>, Option<PinnedPiece>),
    Copied(Vec<u8>),
}

impl Piece {
    /// Returns the memory that the piece owns in addition to its own size and the cache's memory,
    /// in bytes.
    pub fn owned_bytes(&self) -> usize {
        match &self.0 {
            Bytes::Held(..) => 0,
            Bytes::Copied(copy) => copy.capacity(),
        }
    }
}

/// Creates a piece of a value that is not in the cache's memory.
impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::Copied(bytes))
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
