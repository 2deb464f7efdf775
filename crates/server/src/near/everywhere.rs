//! A command that all origins of a near cache execute.

use std::sync::Arc;
use std::task;

use larder_protocol::binary::{self, header, status};
use larder_protocol::{Frame, ServerError};

use super::request::PassRequest;
use super::{AnswerPart, Origin, Pass, is_error};

/// The answers of all origins to a command. They are short: none contains a value.
#[derive(Debug)]
pub(crate) struct Everywhere {
    answers: Vec<OriginAnswer>,
}

#[derive(Debug)]
struct OriginAnswer {
    /// The address of the origin, for errors.
    origin: String,
    pass: Arc<Pass>,
    bytes: Vec<u8>,
    end: Option<Result<(), ServerError>>,
}

impl Everywhere {
    /// Passes a command to all origins.
    pub(super) fn pass(
        origins: &[Arc<Origin>],
        request: &PassRequest,
        waker: &task::Waker,
    ) -> Self {
        let answer = |origin: &Arc<Origin>| OriginAnswer {
            origin: origin.address.to_string(),
            pass: origin.pass(request.clone(), waker.clone()),
            bytes: Vec::new(),
            end: None,
        };
        Self { answers: origins.iter().map(answer).collect() }
    }

    /// Takes what has arrived. Returns true if all origins have answered.
    pub(crate) fn collect(&mut self) -> bool {
        self.answers.iter_mut().for_each(OriginAnswer::take);
        self.answers.iter().all(|answer| answer.end.is_some())
    }

    /// Appends the answer that all origins have given. If some have not executed the command,
    /// appends an error that names them.
    pub(crate) fn show(&self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let Some(first) = self.answers.first() else { return };
        let is_same =
            |answer: &OriginAnswer| answer.end == first.end && answer.bytes == first.bytes;
        let all_answer_alike = first.end == Some(Ok(())) && self.answers.iter().all(is_same);
        match self.faults() {
            faults if !faults.is_empty() && !all_answer_alike => {
                show_error(&format!("not executed by {faults}"), frame, out);
            }
            // Each origin gives a removal by prefix another number.
            _ if first.bytes.starts_with(b"OK ") => out.extend_from_slice(b"OK\r\n"),
            _ => out.extend_from_slice(&first.bytes),
        }
    }

    /// Returns the origins that have not executed the command, each with the reason; empty if all
    /// have.
    pub(crate) fn faults(&self) -> String {
        self.answers.iter().filter_map(OriginAnswer::fault).collect::<Vec<_>>().join(", ")
    }

    /// Returns the memory that the answers own, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let held = |answer: &OriginAnswer| answer.bytes.len() + answer.pass.held_bytes();
        self.answers.iter().map(held).sum()
    }
}

impl OriginAnswer {
    fn take(&mut self) {
        while self.end.is_none()
            && let Some(part) = self.pass.take_part()
        {
            match part {
                AnswerPart::Bytes { bytes, is_last } => {
                    self.bytes.extend_from_slice(&bytes);
                    self.end = is_last.then_some(Ok(()));
                    if self.bytes.len() > ANSWER_BYTES_MAX {
                        self.bytes.clear();
                        self.end = Some(Err(ServerError::OriginSilent));
                    }
                }
                AnswerPart::Failed(error) => self.end = Some(Err(error)),
            }
        }
    }

    /// Returns the origin with the reason why it has not executed the command.
    fn fault(&self) -> Option<String> {
        let reason = match self.end {
            Some(Err(ServerError::OriginUnreachable)) => "unreachable".to_owned(),
            Some(Err(_)) | None => "no answer".to_owned(),
            Some(Ok(())) if is_error(&self.bytes) => {
                String::from_utf8_lossy(self.bytes.trim_ascii_end()).into_owned()
            }
            Some(Ok(())) if self.bytes.first() == Some(&header::RESPONSE_MAGIC) => {
                let header = self.bytes.first_chunk().map(binary::Header::read)?;
                (header.status != status::SUCCESS)
                    .then(|| status::words(header.status).to_owned())?
            }
            Some(Ok(())) => return None,
        };
        Some(format!("{}: {reason}", self.origin))
    }
}

fn show_error(words: &str, frame: &Frame<'_>, out: &mut Vec<u8>) {
    match frame {
        Frame::Text { quiet: true } => {}
        Frame::Text { .. } | Frame::Meta(_) => {
            out.extend_from_slice(b"SERVER_ERROR ");
            out.extend_from_slice(words.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Frame::Binary(frame) => {
            let header = binary::Header {
                opcode: frame.opcode,
                key_bytes: 0,
                extras_bytes: 0,
                status: status::TEMPORARY_FAILURE,
                body_bytes: words.len() as u32,
                opaque: frame.opaque,
                cas: 0,
            };
            out.extend_from_slice(&header.bytes(header::RESPONSE_MAGIC));
            out.extend_from_slice(words.as_bytes());
        }
    }
}

/// No answer to a command for all keys is nearly as long.
const ANSWER_BYTES_MAX: usize = 4096;
