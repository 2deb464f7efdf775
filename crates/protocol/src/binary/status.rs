//! How a request went: two bytes of an answer's header.

use crate::admin::Refusal;
use crate::{ClientError, ServerError};

/// It was done.
pub const SUCCESS: u16 = 0x00;
/// There is no such item.
pub const NOT_FOUND: u16 = 0x01;
/// There is such an item, or it has another cas token.
pub const EXISTS: u16 = 0x02;
/// The item is larger than items may be.
pub const TOO_LARGE: u16 = 0x03;
/// The request does not have the form that its opcode needs.
pub const INVALID: u16 = 0x04;
/// There is no item to append to.
pub const NOT_STORED: u16 = 0x05;
/// The item's value is no number.
pub const NON_NUMERIC: u16 = 0x06;
/// The peer may not do that, or is not who it says.
pub const NOT_ALLOWED: u16 = 0x20;
/// There is no such opcode, or the lengths of the header contradict each other.
pub const UNKNOWN: u16 = 0x81;
/// There is no memory for it.
pub const OUT_OF_MEMORY: u16 = 0x82;

/// memcached's words for a status; nothing for success.
pub const fn words(status: u16) -> &'static str {
    match status {
        NOT_FOUND => "Not found",
        EXISTS => "Data exists for key.",
        TOO_LARGE => "Too large.",
        INVALID => "Invalid arguments",
        NOT_STORED => "Not stored.",
        NON_NUMERIC => "Non-numeric server-side value for incr or decr",
        NOT_ALLOWED => "Auth failure.",
        UNKNOWN => "Unknown command",
        OUT_OF_MEMORY => "Out of memory",
        _ => "",
    }
}

/// The status of a peer's mistake.
pub(super) const fn of_client_error(error: ClientError) -> u16 {
    match error {
        ClientError::UnknownCommand => UNKNOWN,
        ClientError::NonNumeric => NON_NUMERIC,
        ClientError::Unauthenticated
        | ClientError::AuthenticationFailed
        | ClientError::FlushNotAllowed
        | ClientError::DumpNotAllowed
        | ClientError::Refused(Refusal::DetailNotAllowed) => NOT_ALLOWED,
        _ => INVALID,
    }
}

/// The status of what the server could not do, and memcached's words for it.
pub(super) const fn of_server_error(error: ServerError) -> (u16, &'static str) {
    let words = match error {
        ServerError::TooLarge => return (TOO_LARGE, words(TOO_LARGE)),
        ServerError::OutOfMemoryStoring => "Out of memory allocating item",
        ServerError::OutOfMemoryCreating => "Out of memory allocating new item",
        ServerError::OutOfMemory => "Out of memory incrementing value",
        ServerError::OutOfMemoryWritingStats => "Out of memory generating stats",
        _ => words(OUT_OF_MEMORY),
    };
    (OUT_OF_MEMORY, words)
}
