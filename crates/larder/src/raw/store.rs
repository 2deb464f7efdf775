//! Stores.

use std::task::Poll;

use larder_engine::{StoreError, StoreRequest, Stored};
use larder_item::StoreMode;

use super::Raw;
use crate::tier::Dependency;

impl Raw<'_> {
    /// Stores an item as [`Cache::store`](crate::Cache::store) does.
    ///
    /// # Errors
    /// Same as [`Cache::store`](crate::Cache::store).
    #[inline]
    pub fn store(
        self,
        request: &StoreRequest<'_>,
        value: &[u8],
    ) -> Poll<Result<Stored, StoreError>> {
        self.backend.shared.flights.detach(request.key);
        let is_absent = |stored: &Stored| match request.mode {
            StoreMode::Append | StoreMode::Prepend | StoreMode::Replace => {
                matches!(stored, Stored::NotStored | Stored::NotFound)
            }
            _ => *stored == Stored::NotFound,
        };
        self.backend.change(request.key, Dependency::of(request), is_absent, |engine, operation| {
            engine.store(operation, request, value)
        })
    }
}
