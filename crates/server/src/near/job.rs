//! The jobs that workers leave for the near thread.

use std::sync::Arc;
use std::task;

use larder::copies::Flight;
use larder_protocol::ServerError;

use super::answer::{Answer, Taken};
use super::links::reply::ReplyForm;
use super::request::{LARGE_BYTES, PassRequest};
use crate::waker::Waker;

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
    /// Wakes the near thread.
    near_thread: Arc<Waker>,
}

/// A part of the answer to a passed command.
#[derive(Debug)]
pub(crate) enum AnswerPart {
    /// Bytes for the client; empty if it does not want a response.
    Bytes { bytes: Vec<u8>, is_last: bool },
    /// The answer does not arrive, or its rest does not.
    Failed(ServerError),
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
    pub(super) fn new(request: &PassRequest, waker: task::Waker, near_thread: &Arc<Waker>) -> Self {
        Self {
            form: request.form,
            concerned: request.concerned.clone(),
            answer: Answer::new(waker),
            is_upload: request.bytes() > LARGE_BYTES,
            request_bytes: request.bytes(),
            near_thread: Arc::clone(near_thread),
        }
    }

    /// Takes the next part of the answer; `None` if the client must wait.
    pub(crate) fn take_part(&self) -> Option<AnswerPart> {
        let Taken { part, end, wakes } = self.answer.take();
        if wakes {
            self.near_thread.wake();
        }
        match (part, end) {
            (Some(bytes), end) => Some(AnswerPart::Bytes { bytes, is_last: end == Some(Ok(())) }),
            (None, Some(Ok(()))) => Some(AnswerPart::Bytes { bytes: Vec::new(), is_last: true }),
            (None, Some(Err(error))) => Some(AnswerPart::Failed(error)),
            (None, None) => None,
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
