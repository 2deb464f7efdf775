//! Outcomes and errors of calls.

use std::ffi::{CStr, c_char};

use larder::{AnyCacheError, ClientError, CountError, Refusal, StoreError};

/// The outcome of a call. Values from 16 on are errors.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// The key has no item, or its item has expired.
    Missing = 1,
    /// The key already has an item, which is kept.
    Exists = 2,
    /// The item has changed since the caller read its cas token or began its load: read it again.
    Changed = 3,
    /// The value is longer than the buffer; the item contains its length.
    TooSmall = 4,
    /// The walk has ended, or no item arrived in time.
    End = 5,
    /// Another thread or process holds the lease.
    Busy = 6,
    /// Invalid argument: a required pointer is null, or a number is out of bounds.
    Invalid = 16,
    /// Invalid key: a key has 1 to 250 bytes.
    Key = 17,
    /// The item exceeds the item size limit of the cache.
    TooLarge = 18,
    /// The cache has no memory for the item.
    NoMemory = 19,
    /// The value is not a decimal number from 0 to 2^64 - 1. For a signed counter: the value is not
    /// a decimal number from -2^63 to 2^63 - 1, or the item has another tag.
    NotANumber = 20,
    /// The cache was opened without cas tokens.
    NoTokens = 21,
    /// Another process that shares the cache was stopped in the middle of a change.
    Stuck = 22,
    /// The cache could not be opened, and `why` contains the reason. Or this forked process cannot
    /// use the cache, and `larder_usable` returns the reason.
    NotOpened = 23,
    /// The operation is not supported by a connected cache, or by a cache with a disk tier.
    Unsupported = 24,
    /// The server is unreachable, or did not respond in time. It may have performed the change.
    Unreachable = 25,
    /// The server refused the request.
    Refused = 26,
    /// The response of the server does not follow the memcached protocol.
    Protocol = 27,
    /// A defect of the library. The call may have performed a part of its change; the cache stays
    /// usable.
    Defect = 28,
    /// The disk has no space for the item; the old item is kept.
    DiskFull = 29,
    /// The disk cannot keep up with the changes; the call has changed nothing.
    DiskBusy = 30,
    /// The disk has failed, or the disk tier is stopped. All changes fail until the cache is opened
    /// again. A change that was waiting for the disk may or may not survive.
    DiskFailed = 31,
    /// The item is on the disk, but could not be read or is damaged.
    DiskUnreadable = 32,
    /// The disk tier belongs to the process from which this one was forked.
    Forked = 33,
}

impl Status {
    /// All statuses, in ascending order.
    pub const ALL: &[Self] = &[
        Self::Ok,
        Self::Missing,
        Self::Exists,
        Self::Changed,
        Self::TooSmall,
        Self::End,
        Self::Busy,
        Self::Invalid,
        Self::Key,
        Self::TooLarge,
        Self::NoMemory,
        Self::NotANumber,
        Self::NoTokens,
        Self::Stuck,
        Self::NotOpened,
        Self::Unsupported,
        Self::Unreachable,
        Self::Refused,
        Self::Protocol,
        Self::Defect,
        Self::DiskFull,
        Self::DiskBusy,
        Self::DiskFailed,
        Self::DiskUnreadable,
        Self::Forked,
    ];

    /// Returns a message with the meaning and the remedy.
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::Ok => c"done",
            Self::Missing => c"the key has no item",
            Self::Exists => c"the key already has an item",
            Self::Changed => c"the item has changed since its cas token was read; read it again",
            Self::TooSmall => c"the value is longer than the buffer",
            Self::End => c"the walk has ended, or no item arrived in time",
            Self::Invalid => c"invalid argument: a null pointer, or a number that is out of bounds",
            Self::Key => c"a key must have 1 to 250 bytes",
            Self::TooLarge => c"the item is larger than the cache accepts; store less, or raise the item size limit",
            Self::NoMemory => c"the cache has no memory for the item; allow eviction, or give the cache more memory",
            Self::NotANumber => c"the value is not a counter: expected a decimal number from 0 to 18446744073709551615, or for a signed counter one from -2^63 to 2^63 - 1 with its tag",
            Self::NoTokens => c"the cache does not use cas tokens; open it with LARDER_CAS",
            Self::Stuck => c"a process that shares the cache was stopped in the middle of a change; continue or kill it",
            Self::NotOpened => c"the cache could not be opened, or this forked process cannot use it; larder_usable returns the reason",
            Self::Unsupported => c"this kind of cache does not support the operation; see the comment of the function in larder.h",
            Self::Unreachable => c"the server is unreachable, or does not respond in time",
            Self::Refused => c"the server refused the request",
            Self::Protocol => c"the response of the server does not follow the memcached protocol; check the path of the socket",
            Self::Defect => c"a defect of the library; please report what it wrote to standard error",
            Self::DiskFull => c"the disk has no space for the item; delete items, or open a larger disk tier",
            Self::DiskBusy => c"the disk cannot keep up with the changes; try again later",
            Self::DiskFailed => c"the disk has failed or the disk tier is stopped, so changes fail; repair the disk and open the cache again",
            Self::DiskUnreadable => c"the disk did not return the item; larder fsck examines the directory",
            Self::Forked => c"the disk tier belongs to the process that opened the cache; open a cache after the fork",
            Self::Busy => c"another thread or process holds the lease; try again later",
        }
    }
}

impl From<StoreError> for Status {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TooLarge => Self::TooLarge,
            StoreError::NoMemory => Self::NoMemory,
            StoreError::Key(_) => Self::Key,
            StoreError::Stuck(_) => Self::Stuck,
            StoreError::Journal(refusal) => refusal.into(),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => Self::DiskFull,
            Refusal::IndexFull => Self::NoMemory,
            // Normally the library handles `NeedsDisk` itself: it reads the disk and tries again.
            // The call fails only if other threads keep changing the key. `Newer` occurs only
            // within a removal, which handles it.
            Refusal::Busy | Refusal::NeedsDisk | Refusal::Newer => Self::DiskBusy,
            Refusal::Failed => Self::DiskFailed,
            Refusal::Unreadable => Self::DiskUnreadable,
            Refusal::TooLarge => Self::TooLarge,
            Refusal::Forked => Self::Forked,
            Refusal::Lost => Self::NotOpened,
        }
    }
}

impl From<AnyCacheError> for Status {
    fn from(error: AnyCacheError) -> Self {
        match error {
            AnyCacheError::Store(error) => error.into(),
            AnyCacheError::NoTokens => Self::NoTokens,
            AnyCacheError::NotANumber => Self::NotANumber,
            AnyCacheError::Client(error) => error.into(),
        }
    }
}

impl From<CountError> for Status {
    fn from(error: CountError) -> Self {
        AnyCacheError::from(error).into()
    }
}

impl From<ClientError> for Status {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Connect { .. } | ClientError::Io(_) => Self::Unreachable,
            ClientError::Key(_) | ClientError::LongKey { .. } => Self::Key,
            ClientError::Server(text) => refusal(&text),
            ClientError::Protocol(_) => Self::Protocol,
        }
    }
}

/// Returns the status for an error line of the memcached protocol.
fn refusal(text: &str) -> Status {
    match text {
        _ if text.contains("too large") => Status::TooLarge,
        _ if text.contains("out of memory") => Status::NoMemory,
        _ if text.contains("out of disk space") => Status::DiskFull,
        _ if text.contains("disk does not keep up") => Status::DiskBusy,
        _ if text.contains("disk has failed") => Status::DiskFailed,
        _ if text.contains("disk did not return") => Status::DiskUnreadable,
        _ if text.contains("non-numeric") => Status::NotANumber,
        _ if text.contains("is stopped") => Status::Stuck,
        _ => Status::Refused,
    }
}

/// Returns a message with the meaning of a status and the remedy. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn larder_status_text(status: u32) -> *const c_char {
    let known = Status::ALL.iter().find(|known| **known as u32 == status);
    known.map_or(c"no such status", |known| known.text()).as_ptr()
}
