//! What a call came to.

use std::ffi::{CStr, c_char};

use larder::{ClientError, CountError, StoreError, SwapError};

/// What a call came to. Those from 16 on are errors: something has to be done otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is done.
    Ok = 0,
    /// There is no such item, or it has died.
    Missing = 1,
    /// There is one already, and it stays.
    Exists = 2,
    /// The item is not the one with that cas token any more: read it again.
    Changed = 3,
    /// The value is longer than the memory given for it; the item says how long it is.
    TooSmall = 4,
    /// There is no more, or not yet.
    End = 5,
    /// An argument cannot be: a null pointer where there must be none, a number out of its bounds.
    Invalid = 16,
    /// A key has 1 to 250 bytes.
    Key = 17,
    /// The item is larger than the cache accepts.
    TooLarge = 18,
    /// No memory could be had.
    NoMemory = 19,
    /// The value is no counter.
    NotANumber = 20,
    /// The cache keeps no cas tokens.
    NoTokens = 21,
    /// Another process that shares the cache has been stopped in the middle of a change.
    Stuck = 22,
    /// The cache could not be opened; `why` says more.
    NotOpened = 23,
    /// A connected cache cannot do that.
    Unsupported = 24,
    /// The server is not there, or does not answer. A change may have been made all the same.
    Unreachable = 25,
    /// The server refused.
    Refused = 26,
    /// What came from the server is not memcached's protocol.
    Protocol = 27,
    /// A defect of the library. The call may have been carried out in part; the cache goes on.
    Defect = 28,
}

impl Status {
    /// All of them, in the order of their numbers.
    pub const ALL: &[Self] = &[
        Self::Ok,
        Self::Missing,
        Self::Exists,
        Self::Changed,
        Self::TooSmall,
        Self::End,
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
    ];

    /// What it means, and what to do, for people.
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::Ok => c"done",
            Self::Missing => c"there is no such item",
            Self::Exists => c"there is such an item already",
            Self::Changed => c"the item has been changed since its cas token was read; read it again",
            Self::TooSmall => c"the value is longer than the memory given for it",
            Self::End => c"there is no more",
            Self::Invalid => c"an argument cannot be: a null pointer, or a number that is out of bounds",
            Self::Key => c"a key must have 1 to 250 bytes",
            Self::TooLarge => c"the item is larger than the cache accepts; store less, or raise the item size limit",
            Self::NoMemory => c"no memory could be had for the item; allow eviction, or give the cache more memory",
            Self::NotANumber => c"the value is no counter: expected a decimal number from 0 to 18446744073709551615",
            Self::NoTokens => c"the cache keeps no cas tokens; open it with LARDER_CAS",
            Self::Stuck => c"a process that shares the cache is stopped in the middle of a change; continue or kill it",
            Self::NotOpened => c"the cache could not be opened",
            Self::Unsupported => c"a connected cache cannot do that; ask the server by its own protocol",
            Self::Unreachable => c"the server cannot be reached, or does not answer in time",
            Self::Refused => c"the server refused",
            Self::Protocol => c"what the server answers is not memcached's protocol; is it another server's socket?",
            Self::Defect => c"a defect of the library; please report what it wrote to standard error",
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
        }
    }
}

impl From<SwapError> for Status {
    fn from(error: SwapError) -> Self {
        match error {
            SwapError::NoTokens => Self::NoTokens,
            SwapError::Store(error) => error.into(),
        }
    }
}

impl From<CountError> for Status {
    fn from(error: CountError) -> Self {
        match error {
            CountError::NotANumber => Self::NotANumber,
            CountError::Store(error) => error.into(),
        }
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

/// What memcached's words mean where they mean something that the library can say too.
fn refusal(text: &str) -> Status {
    match text {
        _ if text.contains("too large") => Status::TooLarge,
        _ if text.contains("out of memory") => Status::NoMemory,
        _ if text.contains("non-numeric") => Status::NotANumber,
        _ if text.contains("is stopped") => Status::Stuck,
        _ => Status::Refused,
    }
}

/// What a status means, and what to do, for people: text that stays where it is.
#[unsafe(no_mangle)]
pub extern "C" fn larder_status_text(status: u32) -> *const c_char {
    let known = Status::ALL.iter().find(|known| **known as u32 == status);
    known.map_or(c"no such status", |known| known.text()).as_ptr()
}
