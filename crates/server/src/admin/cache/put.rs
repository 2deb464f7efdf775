//! Stores: the body of a request becomes a value.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as _, Bytes};
use larder::Upload;
use larder_protocol::{self as protocol, ServerError, Store};
use tokio::task::yield_now;
use tokio::time::timeout_at;

use super::get::SLICE_BYTES;
use super::memory::{Lease, Memory};
use super::pace::Pace;
use super::terms::Terms;
use super::{Refusal, failed, key};
use crate::admin::AdminContext;
use crate::session::execute::direct::Direct;

/// A store in progress.
struct Put<'a> {
    item: Item<'a>,
    body: Body,
    pace: Pace,
    /// Bytes received since this request last let other requests take their turn.
    slice_bytes: usize,
    lease: Lease,
}

/// The item to store, without its value.
struct Item<'a> {
    serving: &'a AdminContext,
    key: Arc<[u8]>,
    terms: Terms,
}

/// Stores the body of a request. A body that ends early changes nothing.
pub(super) async fn put(
    serving: &AdminContext,
    memory: &Memory,
    request: Request,
) -> Result<Response, Refusal> {
    let key = key::of_path(request.uri().path())?;
    let terms = Terms::read(request.uri(), request.headers())?;
    let body = request.into_body();
    let announced = body.size_hint().exact();
    let lease = memory.lease();
    let item = Item { serving, key: key.into(), terms };
    let mut put = Put { item, body, pace: Pace::begin(), slice_bytes: 0, lease };
    let response = match announced {
        None => put.unannounced().await?,
        Some(bytes) => put.announced(usize::try_from(bytes).unwrap_or(usize::MAX)).await?,
    };
    match response {
        protocol::Response::Stored(_) => Ok(StatusCode::CREATED.into_response()),
        response => Err(put.refused(response)),
    }
}

impl Put<'_> {
    /// Stores a body whose length was announced.
    async fn announced(&mut self, bytes: usize) -> Result<protocol::Response, Refusal> {
        if let Some(response) = self.item.refusal(bytes).await? {
            return Ok(response);
        }
        if bytes > self.whole_bytes_max() {
            return self.upload(bytes).await;
        }
        let mut value = Vec::with_capacity(bytes.min(WHOLE_BYTES));
        while let Some(part) = self.part().await? {
            value.extend_from_slice(&part);
            if value.capacity() > WHOLE_BYTES {
                self.lease(value.capacity())?;
            }
        }
        self.item.store(value).await
    }

    /// Stores a body in chunks. Its length is known only at the end; until then it is in the memory
    /// of the listener.
    async fn unannounced(&mut self) -> Result<protocol::Response, Refusal> {
        let mut value = Vec::new();
        while let Some(part) = self.part().await? {
            let bytes = value.len() + part.len();
            if let Some(response) = self.item.refusal(bytes).await? {
                return Ok(response);
            }
            if bytes > UNANNOUNCED_BYTES_MAX {
                let words = "a body of more than 1 MiB must announce its length: send \
                             Content-Length";
                return Err((StatusCode::LENGTH_REQUIRED, words.to_owned()));
            }
            if bytes > value.capacity() {
                let capacity = bytes.next_power_of_two();
                self.lease(capacity)?;
                value.reserve_exact(capacity - value.len());
            }
            value.extend_from_slice(&part);
        }
        if value.len() <= self.whole_bytes_max() {
            return self.item.store(value).await;
        }
        let bytes = value.len();
        let mut upload = match self.item.begin_upload(bytes).await? {
            Ok(upload) => upload,
            Err(response) => return Ok(response),
        };
        match upload.push(&value) {
            Ok(()) => self.item.finish_upload(bytes, upload).await,
            Err(_) => self.item.give_up(bytes).await,
        }
    }

    /// Stores a body as it arrives: copies each part to its final place in the pieces of the value,
    /// so that the listener need not buffer the complete body.
    async fn upload(&mut self, bytes: usize) -> Result<protocol::Response, Refusal> {
        let mut upload = match self.item.begin_upload(bytes).await? {
            Ok(upload) => upload,
            Err(response) => return Ok(response),
        };
        while let Some(part) = self.part().await? {
            if upload.push(&part).is_err() {
                return self.item.give_up(bytes).await;
            }
            self.lease(upload.held_bytes())?;
        }
        self.item.finish_upload(bytes, upload).await
    }

    /// Returns the maximum length in bytes of a value that is stored in one piece.
    fn whole_bytes_max(&self) -> usize {
        let server = &self.item.serving.server;
        match &server.near {
            // A near cache sends a value to its origin once it is complete.
            Some(_) => usize::try_from(server.options.item_bytes_max).unwrap_or(usize::MAX),
            None => server.cache.upload_bytes_min(),
        }
    }

    /// Returns the next part of the body, or `None` at its end.
    async fn part(&mut self) -> Result<Option<Bytes>, Refusal> {
        if self.slice_bytes >= SLICE_BYTES {
            self.slice_bytes = 0;
            yield_now().await;
        }
        loop {
            let body = &mut self.body;
            let next = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
            let Ok(frame) = timeout_at(self.pace.deadline(), next).await else {
                let words = "the body arrives too slowly: 16 KiB/s after 10 s are expected";
                return Err((StatusCode::REQUEST_TIMEOUT, words.to_owned()));
            };
            // This response reaches only a peer that is still connected.
            let broken = |_| (StatusCode::BAD_REQUEST, "the body ends early".to_owned());
            let Some(frame) = frame.transpose().map_err(broken)? else { return Ok(None) };
            // Trailers are not part of the value.
            let Ok(part) = frame.into_data() else { continue };
            self.slice_bytes += part.len();
            self.pace.note(part.len());
            return Ok(Some(part));
        }
    }

    fn lease(&mut self, bytes: usize) -> Result<(), Refusal> {
        match self.lease.grow_to(bytes) {
            true => Ok(()),
            false => Err((StatusCode::SERVICE_UNAVAILABLE, Memory::EXHAUSTED.to_owned())),
        }
    }

    fn refused(&self, response: protocol::Response) -> Refusal {
        match response {
            protocol::Response::ServerError(ServerError::TooLarge) => {
                let bytes_max = self.item.serving.server.options.item_bytes_max;
                let words = format!(
                    "an item may have at most {bytes_max} bytes (-I), including \
                                     its key"
                );
                (StatusCode::PAYLOAD_TOO_LARGE, words)
            }
            response => failed(&response),
        }
    }
}

#[expect(clippy::redundant_closure_for_method_calls, reason = "a method has one lifetime")]
impl Item<'_> {
    /// Checks a store before its value arrives.
    async fn refusal(&self, bytes: usize) -> Result<Option<protocol::Response>, Refusal> {
        self.execute(bytes, |direct, store| direct.refusal(store)).await
    }

    async fn store(&self, value: Vec<u8>) -> Result<protocol::Response, Refusal> {
        self.execute(value.len(), move |direct, store| direct.store(store, &value)).await
    }

    async fn begin_upload(
        &self,
        bytes: usize,
    ) -> Result<Result<Upload, protocol::Response>, Refusal> {
        self.execute(bytes, |direct, store| direct.begin_upload(store)).await
    }

    async fn finish_upload(
        &self,
        bytes: usize,
        upload: Upload,
    ) -> Result<protocol::Response, Refusal> {
        self.execute(bytes, move |direct, store| direct.finish_upload(store, upload)).await
    }

    /// Abandons a store because no memory is left for its value.
    async fn give_up(&self, bytes: usize) -> Result<protocol::Response, Refusal> {
        self.execute(bytes, |direct, store| direct.give_up(store)).await
    }

    /// Executes a step of the store, for a value of this length. The item's time to live begins at
    /// this moment.
    async fn execute<T: Send + 'static>(
        &self,
        value_bytes: usize,
        command: impl FnOnce(&Direct<'_>, &Store<'_>) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (key, Terms { ttl_secs, flags }) = (Arc::clone(&self.key), self.terms);
        let executed = self.serving.execute(move |direct| {
            let exptime = ttl_secs.map_or(0, |secs| direct.exptime(secs));
            command(direct, &Store { key: &key, flags, exptime, value_bytes, ..Store::PLAIN })
        });
        Ok(executed.await?)
    }
}

/// A value of this length is collected without a lease.
const WHOLE_BYTES: usize = 16 * 1024;

/// A body in chunks is stored at its end, when its length is known. The length of a longer body
/// must be announced.
const UNANNOUNCED_BYTES_MAX: usize = 1 << 20;
