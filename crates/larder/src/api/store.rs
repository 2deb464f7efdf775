//! Stores for bindings, including values that arrive in parts.

use std::sync::Arc;

use larder_engine::{StoreError, StoreRequest, Stored};

use super::cache::Cache;
use crate::backend::waited;
use crate::raw::upload::Upload;

impl Cache {
    /// Stores an item according to a request.
    ///
    /// # Errors
    /// [`StoreError`]. A plain set that fails removes the existing item.
    ///
    /// Cost: same as [`Cache::set`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{StoreRequest, StoreMode, Stored};
    /// let add = StoreRequest { flags: 7, ..StoreRequest::new(b"k", StoreMode::Add) };
    /// assert!(matches!(cache.store(&add, b"v")?, Stored::Stored { .. }));
    /// assert_eq!(cache.store(&add, b"v")?, Stored::NotStored);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn store(&self, request: &StoreRequest<'_>, value: &[u8]) -> Result<Stored, StoreError> {
        waited(self.blocking().store(request, value))
    }

    /// Removes the item that a failed plain set should have replaced. [`Cache::store`] does this
    /// itself; call it for a store that was abandoned before it began.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{StoreRequest, StoreMode};
    /// cache.set("k", "v", None)?;
    /// cache.give_up(&StoreRequest::new(b"k", StoreMode::Set));
    /// assert_eq!(cache.get("k"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_up(&self, request: &StoreRequest<'_>) {
        self.shared().flights.detach(request.key);
        self.shared().engine.expect_change(request.key);
        self.blocking().backend.in_memory(|engine, operation| engine.give_up(operation, request));
        self.shared().engine.report_change(request.key);
    }

    /// True if an item with a key and a value of these lengths is within the size limit.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.accepts(3, 1000));
    /// assert!(!cache.accepts(3, 1 << 30));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accepts(&self, key_bytes: usize, value_bytes: usize) -> bool {
        self.shared().engine.accepts(key_bytes, value_bytes)
    }

    /// Returns the largest value that is not stored in pieces, in bytes. Store longer values with
    /// [`Cache::upload`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.upload_bytes_min() > 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn upload_bytes_min(&self) -> usize {
        self.shared().engine.inline_bytes_max()
    }

    /// Begins a store of `value_bytes` that arrive in parts.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] and [`StoreError::Key`], before any bytes have arrived.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{StoreRequest, StoreMode};
    /// let mut upload = cache.upload(b"k", 10)?;
    /// upload.push(b"first")?;
    /// upload.push(b",last")?;
    /// upload.store(&StoreRequest::new(b"k", StoreMode::Set))?;
    /// assert_eq!(cache.get("k").as_deref(), Some(&b"first,last"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn upload(&self, key: &[u8], value_bytes: usize) -> Result<Upload, StoreError> {
        let arriving = Some(self.shared().engine.upload(key, value_bytes)?);
        Ok(Upload { shared: Arc::clone(self.shared()), arriving })
    }
}
