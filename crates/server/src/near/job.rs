//! The jobs that workers leave for the near thread.

use std::sync::Arc;
use std::task;

use larder::copies::Flight;

use super::answer::Answer;
use super::reply::ReplyForm;
use super::request::{LARGE_BYTES, PassRequest};

/// A job for the near thread.
#[derive(Debug)]
pub(super) enum Job {
    /// Fetch an item.
    Fetch(Arc<Flight>),
    /// Pass a command to the origin.
    Pass(Arc<Pass>, PassRequest),
}

/// A command that is passed to the origin. Its client has one reference, the near thread the other.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(super) form: ReplyForm,
    pub(super) concerned: Concerned,
    pub(super) answer: Answer,
    /// True if the command has a large value, so that sending it takes time.
    pub(super) is_upload: bool,
    request_bytes: usize,
}

/// The keys that a command may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Concerned {
    /// One key.
    Key(Box<[u8]>),
    /// All keys.
    All,
}

impl Pass {
    pub(super) fn new(request: &PassRequest, waker: task::Waker) -> Self {
        Self {
            form: request.form,
            concerned: request.concerned.clone(),
            answer: Answer::new(waker),
            is_upload: request.bytes() > LARGE_BYTES,
            request_bytes: request.bytes(),
        }
    }

    /// True if the client has left.
    pub(super) fn is_abandoned(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1
    }

    /// Returns the memory that the command owns, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.request_bytes + self.answer.held_bytes()
    }
}
