//! Requests of the HTTP API on a near cache, which the origin executes.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use larder_item::Meta;
use larder_protocol::{Frame, Response, ServerError, Store, Stored, base64};

use super::direct::{Found, Value};
use crate::near::{AnswerPart, Concerned, Near, Origin, PassRequest};

/// The origin of a near cache, for a thread that waits for each answer.
pub(super) struct Passed<'a>(pub(super) &'a Near);

impl Passed<'_> {
    /// Reads an item, with or without its value.
    pub(super) fn get(&self, key: &[u8], with_value: bool) -> Result<Option<Found>, Response> {
        let value = if with_value { " v" } else { "" };
        let answer = self.ask("mg", key, &format!(" b s f t c{value}\r\n"), b"")?;
        let (line, rest) = split_line(&answer);
        let words: Vec<&str> = line.split(' ').collect();
        let flags = match words.first() {
            Some(&"HD") => words.get(1..),
            Some(&"VA") => words.get(2..),
            Some(&"EN") => return Ok(None),
            _ => None,
        };
        let Some(flags) = flags else { return Err(ServerError::OriginSilent.into()) };
        let of = |letter: char| flags.iter().find_map(|flag| flag.strip_prefix(letter));
        let number = |letter| of(letter).and_then(|number| number.parse().ok()).unwrap_or(0);
        let meta = Meta {
            value_bytes: usize::try_from(number('s')).unwrap_or(usize::MAX),
            flags: u32::try_from(number('f')).unwrap_or(0),
            cas: number('c'),
            ..Meta::default()
        };
        let ttl_secs = of('t').and_then(|secs| secs.parse().ok());
        let value = rest.strip_suffix(b"\r\n").unwrap_or_default().to_vec();
        Ok(Some(Found { meta, ttl_secs, value: Value::Whole(value) }))
    }

    /// Removes an item.
    pub(super) fn delete(&self, key: &[u8]) -> Response {
        match self.ask("md", key, " b\r\n", b"") {
            Ok(answer) if answer.starts_with(b"HD") => Response::Deleted,
            Ok(answer) if answer.starts_with(b"NF") => Response::NotFound,
            Ok(_) => ServerError::OriginSilent.into(),
            Err(error) => error,
        }
    }

    /// Stores an item.
    pub(super) fn store(&self, store: &Store<'_>, value: &[u8]) -> Response {
        let Store { key, flags, exptime, .. } = *store;
        let rest = format!(" {} b F{flags} T{exptime}\r\n", value.len());
        match self.ask("ms", key, &rest, &[value, b"\r\n"].concat()) {
            Ok(answer) if answer.starts_with(b"HD") => Response::Stored(Stored::default()),
            Ok(answer) if answer.starts_with(b"SERVER_ERROR object too large") => {
                ServerError::TooLarge.into()
            }
            Ok(answer) if answer.starts_with(b"SERVER_ERROR out of memory") => {
                ServerError::OutOfMemoryStoring.into()
            }
            Ok(_) => ServerError::OriginSilent.into(),
            Err(error) => error,
        }
    }

    /// Removes all items, at all origins.
    ///
    /// # Errors
    /// Returns the addresses of the origins that have not done it, each with the reason.
    pub(super) fn flush(&self) -> Result<(), String> {
        let request = PassRequest::raw(b"flush_all\r\n".into(), &Frame::default(), Concerned::All);
        let mut everywhere = self.0.pass_everywhere(&request, &thread_waker());
        self.0.wake_for_jobs();
        while !everywhere.collect() {
            thread::park_timeout(PARKED);
        }
        match everywhere.faults() {
            faults if faults.is_empty() => Ok(()),
            faults => Err(faults),
        }
    }

    /// Sends a meta command, and returns the answer.
    fn ask(&self, name: &str, key: &[u8], rest: &str, value: &[u8]) -> Result<Vec<u8>, Response> {
        let mut request = format!("{name} ").into_bytes();
        base64::encode(&mut request, key);
        request.extend_from_slice(rest.as_bytes());
        request.extend_from_slice(value);
        let concerned = Concerned::Key(key.into());
        let request = PassRequest::raw(request, &Frame::default(), concerned);
        self.wait(self.0.origin_of(key), request).map_err(Response::from)
    }

    /// Waits for the whole answer to a command.
    fn wait(&self, origin: &Origin, request: PassRequest) -> Result<Vec<u8>, ServerError> {
        let pass = origin.pass(request, thread_waker());
        self.0.wake_for_jobs();
        let mut answer = Vec::new();
        loop {
            match pass.take_part() {
                Some(AnswerPart::Bytes { bytes, is_last }) => {
                    answer.extend_from_slice(&bytes);
                    if is_last {
                        return Ok(answer);
                    }
                }
                Some(AnswerPart::Failed(error)) => return Err(error),
                // The near thread ends every command within its timeout.
                None => thread::park_timeout(PARKED),
            }
        }
    }
}

fn thread_waker() -> Waker {
    Waker::from(Arc::new(ThreadWaker(thread::current())))
}

/// Wakes a thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Splits an answer after its first line.
fn split_line(answer: &[u8]) -> (String, &[u8]) {
    let end = answer.iter().position(|byte| *byte == b'\n').map_or(answer.len(), |at| at + 1);
    let (line, rest) = answer.split_at(end);
    (String::from_utf8_lossy(line.trim_ascii_end()).into_owned(), rest)
}

/// The longest wait without a look at the answers.
const PARKED: Duration = Duration::from_millis(100);
