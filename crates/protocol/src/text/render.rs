//! Renders text responses into bytes.

use std::io::Write;

use larder_item::Meta;

use super::dump::push_word;
use crate::lines::line::LINE_END;
use crate::number::push_number;
use crate::response::{ClientError, Counted, Response, ServerError, Shown};
use crate::version::WIRE_VERSION;

/// Appends the header of a hit. The value follows, then [`Response::Hit`].
#[inline]
pub fn hit_head(out: &mut Vec<u8>, key: &[u8], meta: &Meta, with_cas: bool) {
    out.reserve(HIT_HEAD_BYTES_MAX + key.len());
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    push_number(out, meta.flags);
    out.push(b' ');
    push_number(out, meta.value_bytes);
    if with_cas {
        out.push(b' ');
        push_number(out, meta.cas);
    }
    out.extend_from_slice(LINE_END);
}

/// Appends the response to a command, if it has a response.
#[inline]
pub fn response(out: &mut Vec<u8>, response: &Response) {
    match *response {
        // The text protocol cannot request mechanisms.
        Response::Miss | Response::Shown | Response::Close | Response::Mechanisms => {}
        Response::Hit => out.extend_from_slice(LINE_END),
        Response::Number(Counted { number, .. }) => {
            push_number(out, number);
            out.extend_from_slice(LINE_END);
        }
        Response::Version => push_line(out, &["VERSION ", WIRE_VERSION]),
        Response::EndOfKeys | Response::EndOfStats => out.extend_from_slice(b"END\r\n"),
        Response::Stored(_) | Response::Authenticated => out.extend_from_slice(b"STORED\r\n"),
        Response::NotStored => out.extend_from_slice(b"NOT_STORED\r\n"),
        Response::Exists => out.extend_from_slice(b"EXISTS\r\n"),
        Response::NotFound => out.extend_from_slice(b"NOT_FOUND\r\n"),
        Response::Deleted => out.extend_from_slice(b"DELETED\r\n"),
        Response::Touched(_) => out.extend_from_slice(b"TOUCHED\r\n"),
        Response::Ok => out.extend_from_slice(b"OK\r\n"),
        Response::Reset => out.extend_from_slice(b"RESET\r\n"),
        Response::NoOp => out.extend_from_slice(b"MN\r\n"),
        Response::ClientError(error) => push_line(out, &[client_error(error)]),
        Response::ServerError(ServerError::Recovering { percent }) => {
            out.extend_from_slice(b"SERVER_ERROR recovering (");
            push_number(out, percent);
            out.extend_from_slice(b" %)\r\n");
        }
        Response::ServerError(error) => push_line(out, &[server_error(error)]),
    }
}

/// Appends the response to `lease-get` on a miss. [`Response::EndOfKeys`] ends the list.
pub fn lease(out: &mut Vec<u8>, key: &[u8], token: u64) {
    out.extend_from_slice(b"LVALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    push_number(out, token);
    out.extend_from_slice(b" 0 0\r\n\r\n");
}

/// Appends the response to `config get cluster`: the list of servers.
pub fn cluster(out: &mut Vec<u8>, list: &[u8]) {
    out.extend_from_slice(b"CONFIG cluster 0 ");
    push_number(out, list.len());
    out.extend_from_slice(LINE_END);
    out.extend_from_slice(list);
    out.extend_from_slice(b"\r\nEND\r\n");
}

/// Appends the response to `delete_prefix`: the number of the removal.
pub fn removal(out: &mut Vec<u8>, id: u64) {
    out.extend_from_slice(b"OK ");
    push_number(out, id);
    out.extend_from_slice(LINE_END);
}

/// Appends the response to `metaget`. [`Response::EndOfKeys`] ends the list.
pub fn inspected(out: &mut Vec<u8>, shown: &Shown<'_>) {
    out.extend_from_slice(b"META ");
    out.extend_from_slice(shown.key);
    out.extend_from_slice(b" age: ");
    push_number(out, shown.idle_secs);
    out.extend_from_slice(b"; exptime: ");
    push_number(out, shown.deadline_unix_secs.unwrap_or(0));
    out.extend_from_slice(b"; from: unknown\r\n");
}

/// Appends one item of `stats cachedump`. [`Response::EndOfStats`] ends the list.
pub fn dumped_item(out: &mut Vec<u8>, key: &[u8], value_bytes: usize, exptime_unix_secs: i64) {
    out.extend_from_slice(b"ITEM ");
    push_word(out, key);
    out.extend_from_slice(b" [");
    out.extend_from_slice(itoa::Buffer::new().format(value_bytes).as_bytes());
    out.extend_from_slice(b" b; ");
    out.extend_from_slice(itoa::Buffer::new().format(exptime_unix_secs).as_bytes());
    out.extend_from_slice(b" s]\r\n");
}

/// Appends one statistic. [`Response::EndOfStats`] ends the list.
pub fn stat(out: &mut Vec<u8>, name: impl std::fmt::Display, value: impl std::fmt::Display) {
    write!(out, "STAT {name} {value}\r\n").expect("writing to a Vec cannot fail");
}

fn push_line(out: &mut Vec<u8>, words: &[&str]) {
    for word in words {
        out.extend_from_slice(word.as_bytes());
    }
    out.extend_from_slice(LINE_END);
}

/// Returns memcached's text for a client error.
fn client_error(error: ClientError) -> &'static str {
    match error {
        ClientError::UnknownCommand => "ERROR",
        ClientError::BadFormat => "CLIENT_ERROR bad command line format",
        ClientError::BadDataChunk => "CLIENT_ERROR bad data chunk",
        ClientError::BadExptime => "CLIENT_ERROR invalid exptime argument",
        ClientError::BadDelta => "CLIENT_ERROR invalid numeric delta argument",
        ClientError::BadDeleteUsage => {
            "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"
        }
        ClientError::BadBase64 => "CLIENT_ERROR error decoding key",
        ClientError::BadFlag => "CLIENT_ERROR invalid flag",
        ClientError::DuplicateFlag => "CLIENT_ERROR duplicate flag",
        ClientError::BadOrDuplicateFlag => "CLIENT_ERROR invalid or duplicate flag",
        ClientError::TooManyFlags => "CLIENT_ERROR options flags are too long",
        ClientError::BadToken => "CLIENT_ERROR bad token in command line format",
        ClientError::OpaqueTooLong => "CLIENT_ERROR opaque token too long",
        ClientError::BadStoreMode => "CLIENT_ERROR invalid mode for ms M token",
        ClientError::BadArithmeticMode => "CLIENT_ERROR invalid mode for ma M token",
        ClientError::BadShutdownMode => "CLIENT_ERROR invalid shutdown mode",
        ClientError::BadDump => "CLIENT_ERROR bad command line",
        ClientError::NoSuchClass => "CLIENT_ERROR Illegal slab id",
        ClientError::DumpNotAllowed => "CLIENT_ERROR stats cachedump not allowed",
        ClientError::NonNumeric => "CLIENT_ERROR cannot increment or decrement non-numeric value",
        ClientError::Unauthenticated => "CLIENT_ERROR unauthenticated",
        ClientError::AuthenticationFailed => "CLIENT_ERROR authentication failure",
        ClientError::BadCredentials => "CLIENT_ERROR bad authentication token format",
        ClientError::CredentialsTooLong => "CLIENT_ERROR auth token too long",
        ClientError::BadCredentialsEnd => "CLIENT_ERROR bad command line termination",
        ClientError::FlushNotAllowed => "CLIENT_ERROR flush_all not allowed",
        ClientError::RegionNotAllowed => "CLIENT_ERROR this connection may not read the memory",
        ClientError::MemoryLimitTooSmall => {
            "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"
        }
        ClientError::MemoryLimitInBytes => {
            "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"
        }
        ClientError::Refused(refusal) => super::refusal::words(refusal),
        ClientError::NotPermitted(denial) => super::refusal::denied(denial),
    }
}

/// Returns memcached's text for a server error.
fn server_error(error: ServerError) -> &'static str {
    match error {
        ServerError::TooLarge => "SERVER_ERROR object too large for cache",
        ServerError::OutOfMemoryStoring => "SERVER_ERROR out of memory storing object",
        ServerError::OutOfMemoryReadingRequest => "SERVER_ERROR out of memory reading request",
        ServerError::OutOfMemoryWritingHits => "SERVER_ERROR out of memory writing get response",
        ServerError::OutOfMemoryWritingStats => "SERVER_ERROR out of memory writing stats",
        ServerError::OutOfMemoryCreating => "SERVER_ERROR Out of memory allocating new item",
        ServerError::OutOfMemory => "SERVER_ERROR out of memory",
        ServerError::Stuck => "SERVER_ERROR a process that shares the cache is stopped",
        ServerError::OutOfDiskStoring => "SERVER_ERROR out of disk space storing object",
        ServerError::OutOfDiskIndex => {
            "SERVER_ERROR out of memory for the index of the disk; raise -m"
        }
        ServerError::DiskBusy => "SERVER_ERROR the disk does not keep up; try again later",
        ServerError::DiskFailed => {
            "SERVER_ERROR the disk has failed; the log of the server says why"
        }
        ServerError::DiskUnreadable => "SERVER_ERROR the disk did not return the item",
        ServerError::Recovering { .. } => "SERVER_ERROR recovering",
        ServerError::MemoryLimitFixed => "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust",
        ServerError::NoTls => "Error TLS not enabled",
        ServerError::CertificatesUnusable => {
            "Error the certificates cannot be used; those in use stay, and the log of the server \
            says why"
        }
        ServerError::ShutdownNotEnabled => "SERVER_ERROR: shutdown not enabled",
        ServerError::ShutdownNotEnabledOlder => "ERROR: shutdown not enabled",
        ServerError::TooManyConnections => "ERROR Too many open connections",
        ServerError::OriginUnreachable => "SERVER_ERROR origin unreachable",
        ServerError::OriginSilent => "SERVER_ERROR origin did not answer",
        ServerError::NoServerList => "SERVER_ERROR no list of servers yet",
        ServerError::RateLimit => "SERVER_ERROR rate limit",
        ServerError::TooManyLogins => "SERVER_ERROR too many logins; try again later",
    }
}

/// The maximum length of a hit's header without its key, in bytes: `VALUE`, spaces, line end, and
/// three numbers of full width.
const HIT_HEAD_BYTES_MAX: usize = 6 + 3 + 2 + 10 + 20 + 20;
