//! Storing values that arrive in parts.

use std::ptr::NonNull;
use std::sync::Arc;

use larder_engine::{
    DirectBuffer as Room, Engine, Operation, StoreError, StoreRequest, Stored, ThreadSlot,
    Upload as Arriving, UploadLost,
};
use larder_item::StoreMode;

use super::Raw;
use crate::backend::Backend;
use crate::backend::waited;
use crate::process::registered::with_thread_slot;
use crate::process::shared::Shared;
use crate::tier::Dependency;
use crate::tier::wait::Wait;

/// A large value that arrives in parts. Each part is written directly to its final place. Dropping
/// an upload before it is stored releases its memory.
#[derive(Debug)]
pub struct Upload {
    pub(crate) shared: Arc<Shared>,
    /// `None` once stored.
    pub(crate) arriving: Option<Arriving>,
}

impl Upload {
    /// Appends the next bytes of the value.
    ///
    /// Cost: one copy of the bytes.
    ///
    /// # Errors
    /// [`StoreError::NoMemory`] if no memory is free, or an earlier piece was evicted;
    /// [`StoreError::TooLarge`] if the value would be longer than announced. After an error, drop
    /// the upload.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let arriving = self.arriving.as_mut().ok_or(StoreError::TooLarge)?;
        if !self.shared.is_of_this_process() {
            return Err(StoreError::NoMemory);
        }
        let now = self.shared.now();
        with_thread_slot(&self.shared, |engine, thread| engine.push(thread, arriving, bytes, now))
    }

    /// Returns a buffer in the cache's memory for the next bytes of the value, into which a writer
    /// outside this program can write, such as the kernel during a receive. Returns `None` if the
    /// bytes must be pushed instead: all bytes have arrived, the limit on pinned memory is reached,
    /// or the upload is lost.
    pub fn direct_buffer(&mut self) -> Option<DirectBuffer> {
        let arriving = self.arriving.as_mut().filter(|arriving| !arriving.is_complete())?;
        if !self.shared.is_of_this_process() {
            return None;
        }
        let now = self.shared.now();
        let direct_buffer =
            |engine: &Engine, thread: &ThreadSlot| engine.direct_buffer(thread, arriving, now);
        let room = with_thread_slot(&self.shared, direct_buffer)?;
        Some(DirectBuffer { shared: Arc::clone(&self.shared), room: Some(room) })
    }

    /// Completes a direct receive: appends the first `bytes` of the buffer, which have been
    /// written, to this upload.
    pub fn complete_direct(&mut self, mut direct_buffer: DirectBuffer, bytes: usize) {
        // In a forked child the buffer and its pin belong to the parent.
        if self.shared.is_of_this_process()
            && let Some(arriving) = &mut self.arriving
            && let Some(room) = direct_buffer.room.take()
        {
            self.shared.engine.complete_direct(arriving, room, bytes);
        }
    }

    /// Returns the memory that the upload uses outside the cache's memory, in bytes: a few bytes
    /// for each piece that has begun to arrive.
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

    /// Stores the item once its value has arrived.
    ///
    /// # Errors
    /// Same as [`Cache::store`](crate::Cache::store). Also [`StoreError::NoMemory`] if a piece was
    /// evicted before the last piece arrived, and [`StoreError::TooLarge`] if bytes are missing.
    pub fn store(self, request: &StoreRequest<'_>) -> Result<Stored, StoreError> {
        self.store_as(request, Wait::Block)
    }

    /// Stores the item as [`Upload::store`] does, and waits for durability according to `wait`. The
    /// call reads the disk itself, unless the item was looked up for this store.
    ///
    /// # Errors
    /// Same as [`Upload::store`].
    pub fn store_as(
        self,
        request: &StoreRequest<'_>,
        wait: Wait<'_>,
    ) -> Result<Stored, StoreError> {
        self.shared.engine.expect_change(request.key);
        self.store_unannounced(request, wait)
    }

    /// Same as [`Upload::store_as`], but unannounced: see [`Raw::unannounced`].
    ///
    /// # Errors
    /// Same as [`Upload::store`].
    pub fn store_unannounced(
        mut self,
        request: &StoreRequest<'_>,
        wait: Wait<'_>,
    ) -> Result<Stored, StoreError> {
        let complete = self.arriving.take_if(|arriving| arriving.is_complete());
        let arriving = complete.ok_or(StoreError::TooLarge)?;
        if !self.shared.is_of_this_process() {
            return Err(StoreError::NoMemory);
        }
        let now = self.shared.now();
        self.shared.flights.detach(request.key);
        if !self.shared.tier.is_none() {
            return self.store_durably(arriving, request, wait);
        }
        let publish = |engine: &Engine, thread: &ThreadSlot| {
            engine.publish_upload(&Operation::new(thread, now), arriving, request)
        };
        let stored = with_thread_slot(&self.shared, publish);
        self.shared.engine.report_change(request.key);
        stored
    }

    /// Copies the value into one buffer and stores that buffer. The pieces that have arrived
    /// could be stored only once, but a store that depends on the disk may be tried several times.
    fn store_durably(
        &self,
        arriving: Arriving,
        request: &StoreRequest<'_>,
        wait: Wait<'_>,
    ) -> Result<Stored, StoreError> {
        let (now, wait) = (self.shared.now(), wait.without_asking());
        let backend = Backend { shared: &self.shared, now, wait, announces: false };
        let value_bytes = arriving.value_bytes();
        let value = backend
            .with_thread_slot(|engine, thread| engine.take_upload(thread, arriving, backend.now));
        match value {
            Ok(value) => waited(Raw { backend }.store(request, &value)),
            Err(UploadLost::Flushed) => {
                let stored = flushed(request, value_bytes).ok_or(StoreError::NoMemory)?;
                if let Some(tier) = self.shared.tier.usable()? {
                    backend.await_durable(tier, request.key)?;
                }
                Ok(stored)
            }
            Err(UploadLost::Evicted) => Err(StoreError::NoMemory),
        }
    }
}

/// Returns the outcome of a store whose value was flushed while it arrived. A plain set counts as
/// stored before the flush, which has removed it. A store that requires an existing item counts as
/// performed directly after the flush, when there was none. `None` for an add, which fits neither
/// order.
fn flushed(request: &StoreRequest<'_>, value_bytes: usize) -> Option<Stored> {
    match request.mode {
        _ if Dependency::of(request) == Dependency::Replaces => {
            Some(Stored::Stored { cas: 0, value_bytes })
        }
        StoreMode::Add => None,
        StoreMode::Set => Some(Stored::NotFound),
        StoreMode::Replace | StoreMode::Append | StoreMode::Prepend => Some(Stored::NotStored),
    }
}

/// A buffer in a cache's memory for the next bytes of an [`Upload`]. The memory stays reserved
/// until the buffer is dropped, even if the upload is dropped first.
#[derive(Debug)]
pub struct DirectBuffer {
    shared: Arc<Shared>,
    /// `None` once returned.
    room: Option<Room>,
}

impl DirectBuffer {
    /// Returns the address and the length of the buffer, in bytes; `None` in a forked child.
    /// Writers may write to the buffer only while this value exists, and only in the process that
    /// created it.
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
            with_thread_slot(&self.shared, |engine, thread| engine.abort_upload(thread, arriving));
        }
    }
}
