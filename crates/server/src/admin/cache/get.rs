//! The body of a response with a large value, sent directly from the cache's memory.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::StatusCode;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use larder::{Evicted, LargeValue, Piece};
use tokio::time::Instant;

use super::Refusal;
use super::memory::{Lease, Memory};
use super::pace::Pace;

/// A large value that is sent piece by piece. hyper requests a piece once the peer has received the
/// previous ones. Until then the piece stays in the cache, pinned.
#[derive(Debug)]
struct Pieces {
    first: Option<Piece>,
    /// The pieces that have not been requested yet.
    others: Box<LargeValue>,
    /// How many bytes of the value have not been passed on yet.
    left_bytes: u64,
    /// Bytes sent since this request last let other requests take their turn.
    slice_bytes: usize,
    pace: Pace,
    /// The memory of the list of pieces.
    _lease: Lease,
}

/// The reason why a value ends early. The peer notices that its connection ends before the
/// announced length.
#[derive(Debug, thiserror::Error)]
enum EndedEarly {
    #[error(transparent)]
    Evicted(#[from] Evicted),
    #[error("the value is shorter than announced")]
    Short,
    #[error("the peer takes the value too slowly")]
    Slow,
}

/// Returns the body of a value.
///
/// # Errors
/// Fails if other requests occupy too much memory.
pub(super) fn stream(
    memory: &Memory,
    first: Piece,
    others: Box<LargeValue>,
    value_bytes: usize,
) -> Result<Body, Refusal> {
    let mut lease = memory.lease();
    if !lease.grow_to(others.held_bytes()) {
        return Err((StatusCode::SERVICE_UNAVAILABLE, Memory::EXHAUSTED.to_owned()));
    }
    Ok(Body::new(Pieces {
        first: Some(first),
        others,
        left_bytes: value_bytes as u64,
        slice_bytes: 0,
        pace: Pace::begin(),
        _lease: lease,
    }))
}

impl Pieces {
    fn next(&mut self) -> Result<Bytes, EndedEarly> {
        if Instant::now() > self.pace.deadline() {
            return Err(EndedEarly::Slow);
        }
        let piece = match self.first.take() {
            Some(first) => first,
            None => self.others.take_piece()?.ok_or(EndedEarly::Short)?,
        };
        self.left_bytes =
            self.left_bytes.checked_sub(piece.len() as u64).ok_or(EndedEarly::Short)?;
        self.slice_bytes += piece.len();
        self.pace.note(piece.len());
        Ok(Bytes::from_owner(PieceBytes(piece)))
    }
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.left_bytes == 0 {
            return Poll::Ready(None);
        }
        if self.slice_bytes >= SLICE_BYTES {
            self.slice_bytes = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(self.next().map(Frame::data).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}

/// A piece that is being sent.
struct PieceBytes(Piece);

impl AsRef<[u8]> for PieceBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Number of bytes that are sent before other requests take their turn.
pub(super) const SLICE_BYTES: usize = 256 * 1024;
