//! The payload after the line of a store: a value and a line end, arriving in any number of parts.

use larder::{DirectBuffer, Upload, Wait};
use larder_protocol::{Frame, OwnedFrame, Response, Store, render};

use crate::session::execute::{Call, Executor, ready};

/// A payload that is incomplete so far.
#[derive(Debug)]
pub(crate) struct Payload {
    /// How many bytes of the payload have not arrived yet.
    left_bytes: u64,
    frame: OwnedFrame,
    state: State,
    /// The store and its response, once the payload is complete.
    ended: Option<(Head, Response)>,
}

#[derive(Debug)]
enum State {
    /// A short payload, buffered until it is complete.
    Waiting(Head, Vec<u8>),
    /// A value that is written to the cache as it arrives. The flag is true while the line end is
    /// correct.
    Uploading(Head, Upload, bool),
    /// An unwanted payload. The response is sent after the last byte has arrived, because the peer
    /// does not read before that.
    Passing(Option<Response>),
}

/// A [`Store`] that owns its key.
#[derive(Debug)]
struct Head {
    key: Box<[u8]>,
    /// The fields of the store, with an empty key.
    store: Store<'static>,
}

impl Payload {
    /// Starts the payload of a store that [`Executor::refusal`] has not refused.
    pub(crate) fn arriving(executor: &Executor, store: &Store<'_>, frame: &Frame<'_>) -> Self {
        let head = Head::of(store);
        let state = if !executor.takes_in_parts(store) {
            State::Waiting(head, Vec::new())
        } else {
            match executor.begin_upload(store) {
                Ok(upload) => State::Uploading(head, upload, true),
                Err(response) => State::Passing(Some(response)),
            }
        };
        Self {
            left_bytes: payload_bytes(store, frame) as u64,
            frame: frame.keep(),
            state,
            ended: None,
        }
    }

    /// Starts a payload that will be skipped.
    pub(crate) fn passing(bytes: u64, response: Option<Response>, frame: &Frame<'_>) -> Self {
        let state = State::Passing(response);
        Self { left_bytes: bytes, frame: frame.keep(), state, ended: None }
    }

    /// Consumes its part of `input`, and returns the number of consumed bytes. Writes the response
    /// to `out` when the payload is complete.
    pub(crate) fn receive(
        &mut self,
        executor: &Executor,
        wait: Wait<'_>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> usize {
        let bytes = input.len().min(usize::try_from(self.left_bytes).unwrap_or(usize::MAX));
        let part = &input[..bytes];
        let value_end = self.frame.frame().value_end();
        match &mut self.state {
            State::Waiting(_, payload) => {
                // A single part is copied into memory of its exact length. When a second part
                // arrives, reserve memory for the rest of the payload, which is short: gradual
                // growth would fragment the heap.
                if payload.capacity() - payload.len() < part.len() {
                    let left_bytes = usize::try_from(self.left_bytes).unwrap_or(usize::MAX);
                    payload.reserve_exact(if payload.is_empty() { bytes } else { left_bytes });
                }
                payload.extend_from_slice(part);
            }
            State::Uploading(head, upload, ends_well) => {
                let value_bytes = self.left_bytes.saturating_sub(value_end.len() as u64);
                let value_bytes = usize::try_from(value_bytes).unwrap_or(usize::MAX);
                let (value, end) = part.split_at(bytes.min(value_bytes));
                let end_left_bytes = self.left_bytes as usize - value.len();
                *ends_well &= end.is_empty() || {
                    value_end[value_end.len() - end_left_bytes..].starts_with(end)
                };
                if upload.push(value).is_err() {
                    let response = executor.give_up_upload(&head.store(), &self.frame.frame());
                    self.state = State::Passing(Some(response));
                }
            }
            State::Passing(_) => {}
        }
        self.left_bytes -= bytes as u64;
        if self.is_complete()
            && let Some(response) = self.end(executor, wait)
        {
            render::response(out, &response, &self.frame.frame());
        }
        bytes
    }

    /// True if enough bytes are missing to make a direct receive worthwhile.
    pub(crate) fn awaits_much(&self) -> bool {
        matches!(self.state, State::Uploading(..)) && self.left_bytes > DIRECT_BYTES_MIN as u64
    }

    /// Returns a buffer for a direct receive of the next bytes, their number, and whether the value
    /// ends there. `None` if [`Self::receive`] is better. The last byte of a payload must always
    /// pass through [`Self::receive`].
    pub(crate) fn direct_buffer(&mut self) -> Option<(DirectBuffer, usize, bool)> {
        let State::Uploading(_, upload, _) = &mut self.state else { return None };
        let left_bytes = usize::try_from(self.left_bytes).ok()?;
        let value_bytes = left_bytes.checked_sub(self.frame.frame().value_end().len())?;
        if value_bytes < DIRECT_BYTES_MIN {
            return None;
        }
        let direct_buffer = upload.direct_buffer()?;
        let (_, room_bytes) = direct_buffer.room()?;
        let is_last = room_bytes >= value_bytes;
        (room_bytes >= ROOM_BYTES_MIN).then_some((
            direct_buffer,
            room_bytes.min(left_bytes - 1),
            is_last,
        ))
    }

    /// Records that `bytes` have been received into the buffer.
    pub(crate) fn complete_direct(&mut self, direct_buffer: DirectBuffer, bytes: usize) {
        if let State::Uploading(_, upload, _) = &mut self.state {
            upload.complete_direct(direct_buffer, bytes);
            self.left_bytes -= bytes as u64;
        }
    }

    /// Ends the store of a complete payload. Reads from the disk what the store needs, unless the
    /// caller has already looked that up.
    fn end(&mut self, executor: &Executor, wait: Wait<'_>) -> Option<Response> {
        let wait = wait.without_asking();
        let (head, response) = match std::mem::replace(&mut self.state, State::Passing(None)) {
            State::Waiting(head, payload) => {
                let call = Call { wait, frame: &self.frame.frame() };
                let response = ready(executor.store(&head.store(), &payload, call));
                (head, response)
            }
            State::Uploading(head, upload, true) => {
                let response = executor.finish_upload(&head.store(), upload, wait);
                (head, response)
            }
            State::Uploading(head, _, false) => {
                let response = executor.bad_data_chunk(&head.store());
                (head, response)
            }
            State::Passing(response) => return response,
        };
        self.ended = Some((head, response));
        Some(response)
    }

    /// Returns the store and its response, if the payload is complete and was not skipped.
    pub(crate) fn ended(&self) -> Option<(Store<'_>, &Response)> {
        self.ended.as_ref().map(|(head, response)| (head.store(), response))
    }

    /// Returns the store, if the next `bytes` bytes complete its value.
    pub(crate) fn ended_by(&self, bytes: usize) -> Option<Store<'_>> {
        match &self.state {
            State::Waiting(head, _) | State::Uploading(head, ..) => {
                (bytes as u64 >= self.left_bytes).then(|| head.store())
            }
            State::Passing(_) => None,
        }
    }

    /// Returns the frame of its store.
    pub(crate) fn frame(&self) -> Frame<'_> {
        self.frame.frame()
    }

    /// True if the payload is only skipped.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.state, State::Passing(_))
    }

    /// True if the payload is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.left_bytes == 0
    }

    /// Returns the memory that the payload owns, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.state {
            State::Waiting(_, payload) => payload.capacity(),
            State::Uploading(_, upload, _) => upload.held_bytes(),
            State::Passing(_) => 0,
        }
    }
}

impl Head {
    fn of(store: &Store<'_>) -> Self {
        Self { key: store.key.into(), store: Store { key: &[], ..*store } }
    }

    fn store(&self) -> Store<'_> {
        Store { key: &self.key, ..self.store }
    }
}

/// A direct receive is not worthwhile for fewer remaining bytes than this …
const DIRECT_BYTES_MIN: usize = 32 * 1024;

/// … or into a buffer with less space than this. The bytes are copied instead.
const ROOM_BYTES_MIN: usize = 16 * 1024;

/// Returns the length of a store's payload in bytes.
#[inline]
pub(crate) fn payload_bytes(store: &Store<'_>, frame: &Frame<'_>) -> usize {
    store.value_bytes + frame.value_end().len()
}
