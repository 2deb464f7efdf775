//! Stores and removals of items that `larder warm` copies into this server.

use std::sync::Arc;
use std::task::Poll;

use larder::{Deletion, StoreError, StoreRequest, Stored, Upload, Wait};
use larder_protocol::{Delete, Refusal, Response, Store, WarmRefusal};

use super::Executor;
use crate::warming::{Copied, WarmSession};

type StoreResult = Result<Stored, StoreError>;

impl Executor {
    /// Sets the copy of items to which the next commands belong, which are of one connection.
    pub(crate) fn set_warm(&self, session: Option<Arc<WarmSession>>) {
        self.is_warming.set(session.is_some());
        self.warm.replace(session);
    }

    /// Stores a copied item by `put`, unless a client has changed its key.
    #[cold]
    pub(super) fn store_copied<'k>(
        &self,
        store: &Store<'k>,
        put: impl FnOnce(&StoreRequest<'k>) -> Poll<StoreResult>,
    ) -> Poll<Response> {
        let warm = self.warm.borrow();
        let Some(session) = &*warm else {
            return Poll::Ready(Refusal::Warm(WarmRefusal::NotBegun).into());
        };
        let is_stored =
            |stored: &Poll<StoreResult>| matches!(stored, Poll::Ready(Ok(Stored::Stored { .. })));
        let request = self.request(store);
        match session.store(store.key, || put(&request), is_stored) {
            Copied::Tried(stored) => stored.map(|stored| self.stored(store, stored)),
            Copied::Changed => Poll::Ready(Response::NotStored),
            Copied::Over(reason) => Poll::Ready(Refusal::Warm(WarmRefusal::Over(reason)).into()),
        }
    }

    /// Stores a copied item whose value arrived in parts, unless a client has changed its key.
    #[cold]
    pub(super) fn finish_copied(
        &self,
        store: &Store<'_>,
        upload: Upload,
        wait: Wait<'_>,
    ) -> Response {
        let put = |request: &StoreRequest<'_>| Poll::Ready(upload.store_unannounced(request, wait));
        match self.store_copied(store, put) {
            Poll::Ready(response) => response,
            Poll::Pending => Response::NotStored,
        }
    }

    /// Removes a copied item whose original has changed.
    #[cold]
    pub(super) fn drop_copied(
        &self,
        delete: &Delete<'_>,
        wait: Wait<'_>,
    ) -> Poll<Result<Deletion, StoreError>> {
        let remove = || self.cache.raw(wait).unannounced().delete(delete.key, delete.cas);
        match &*self.warm.borrow() {
            Some(session) => session.drop_copy(delete.key, remove),
            None => remove(),
        }
    }
}
