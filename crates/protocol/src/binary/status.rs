//! Statuses: the outcome of a request, two bytes in the header of a response.

use crate::admin::Refusal;
use crate::response::{ClientError, ServerError};

/// The request succeeded.
pub const SUCCESS: u16 = 0x00;
/// The item does not exist.
pub const NOT_FOUND: u16 = 0x01;
/// The item exists, or it has a different cas token.
pub const EXISTS: u16 = 0x02;
/// The item exceeds the item size limit.
pub const TOO_LARGE: u16 = 0x03;
/// The request does not match the form of its opcode.
pub const INVALID: u16 = 0x04;
/// The item to append to does not exist.
pub const NOT_STORED: u16 = 0x05;
/// The item's value is not a number.
pub const NON_NUMERIC: u16 = 0x06;
/// The peer lacks permission, or its authentication failed.
pub const NOT_ALLOWED: u16 = 0x20;
/// The opcode does not exist, or the lengths in the header contradict each other.
pub const UNKNOWN: u16 = 0x81;
/// The server is out of memory.
pub const OUT_OF_MEMORY: u16 = 0x82;
/// The server cannot execute the request yet.
pub const TEMPORARY_FAILURE: u16 = 0x86;

/// Returns memcached's text for a status; empty for success.
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
        TEMPORARY_FAILURE => "Temporary failure",
        _ => "",
    }
}

/// Returns the status of a client error.
pub(super) const fn of_client_error(error: ClientError) -> u16 {
    match error {
        ClientError::UnknownCommand => UNKNOWN,
        ClientError::NonNumeric => NON_NUMERIC,
        ClientError::Unauthenticated
        | ClientError::AuthenticationFailed
        | ClientError::FlushNotAllowed
        | ClientError::DumpNotAllowed
        | ClientError::Refused(Refusal::DetailNotAllowed)
        | ClientError::NotPermitted(_) => NOT_ALLOWED,
        _ => INVALID,
    }
}

/// Returns the status of a server error, and memcached's text for it.
pub(super) const fn of_server_error(error: ServerError) -> (u16, &'static str) {
    let words = match error {
        ServerError::TooLarge => return (TOO_LARGE, words(TOO_LARGE)),
        ServerError::Recovering { .. } => return (TEMPORARY_FAILURE, words(TEMPORARY_FAILURE)),
        ServerError::OriginUnreachable => return (TEMPORARY_FAILURE, "Origin unreachable"),
        ServerError::OriginSilent => return (TEMPORARY_FAILURE, "Origin did not answer"),
        ServerError::NoServerList => return (TEMPORARY_FAILURE, "No list of servers yet"),
        ServerError::RateLimit => return (TEMPORARY_FAILURE, "Rate limit"),
        ServerError::TooManyLogins => return (TEMPORARY_FAILURE, "Too many logins"),
        ServerError::OutOfMemoryStoring => "Out of memory allocating item",
        ServerError::OutOfMemoryCreating => "Out of memory allocating new item",
        ServerError::OutOfMemory => "Out of memory incrementing value",
        ServerError::OutOfMemoryWritingStats => "Out of memory generating stats",
        _ => words(OUT_OF_MEMORY),
    };
    (OUT_OF_MEMORY, words)
}
