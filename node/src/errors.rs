//! Errors of the library as errors of JavaScript: an `Error`, `TypeError` or `RangeError` with a
//! `code`.

use std::fmt::Display;

use larder::{ClientError, CountError, Refusal, StoreError};
use larder_binding::AddError;
use napi::bindgen_prelude::{Error, Status};
use napi::sys;

/// The code of an error, which programs compare. `lib/errors.ts` explains each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Argument,
    Closed,
    Codec,
    NoCas,
    NotANumber,
    Open,
    Server,
    Store,
    TooLarge,
    Unavailable,
    Untrusted,
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        match self {
            Self::Argument => "ERR_LARDER_ARGUMENT",
            Self::Closed => "ERR_LARDER_CLOSED",
            Self::Codec => "ERR_LARDER_CODEC",
            Self::NoCas => "ERR_LARDER_NO_CAS",
            Self::NotANumber => "ERR_LARDER_NOT_A_NUMBER",
            Self::Open => "ERR_LARDER_OPEN",
            Self::Server => "ERR_LARDER_SERVER",
            Self::Store => "ERR_LARDER_STORE",
            Self::TooLarge => "ERR_LARDER_TOO_LARGE",
            Self::Unavailable => "ERR_LARDER_UNAVAILABLE",
            Self::Untrusted => "ERR_LARDER_UNTRUSTED",
        }
    }
}

/// A message and its code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Failure {
    #[cold]
    pub(crate) fn new(code: Code, message: impl Display) -> Self {
        Self { code, message: message.to_string() }
    }

    /// The error of a panic, which is a defect of the library.
    #[cold]
    pub(crate) fn bug() -> Self {
        Self::new(Code::Store, "the library has failed; please report this with its message above")
    }

    #[cold]
    pub(crate) fn argument(message: impl Display) -> Self {
        Self::new(Code::Argument, message)
    }

    /// Throws the error in JavaScript. The class is `TypeError` for arguments.
    #[cold]
    pub(crate) fn throw(&self, env: sys::napi_env) {
        let throw = match self.code {
            Code::Argument => sys::napi_throw_type_error,
            Code::TooLarge => sys::napi_throw_range_error,
            _ => sys::napi_throw_error,
        };
        let code = format!("{}\0", self.code.as_ref());
        // A message ends at its first NUL.
        let message = format!("{}\0", self.message);
        // SAFETY: both texts end with NUL and outlive the call; `env` is the environment of the
        // running function. The call fails only if an exception is pending already, which then
        // reaches JavaScript instead.
        unsafe { throw(env, code.as_ptr().cast(), message.as_ptr().cast()) };
    }

    /// Throws the error, and returns what a function of napi-rs returns after that.
    #[cold]
    pub(crate) fn thrown(&self, env: sys::napi_env) -> Error {
        self.throw(env);
        Error::from_status(Status::PendingException)
    }
}

impl From<StoreError> for Failure {
    #[cold]
    fn from(error: StoreError) -> Self {
        let code = match error {
            StoreError::Key(_) => Code::Argument,
            StoreError::TooLarge => Code::TooLarge,
            StoreError::Journal(Refusal::Lost) => {
                return Self::new(
                    Code::Store,
                    "this process can only read the cache: too many processes use it, or too many \
                     files were open; create the file with a larger `processes`",
                );
            }
            StoreError::NoMemory | StoreError::Journal(_) | StoreError::Stuck(_) => Code::Store,
        };
        Self::new(code, error)
    }
}

impl Failure {
    /// The error of a change of a counter.
    #[cold]
    pub(crate) fn add(key: &[u8], error: AddError) -> Self {
        match error {
            AddError::Overflow => Self::argument(error),
            AddError::Count(CountError::Store(error)) => error.into(),
            AddError::Count(CountError::NotANumber) => Self::new(
                Code::NotANumber,
                format_args!("the value of '{}' is not an integer of 64 bits", key.escape_ascii()),
            ),
        }
    }
}

impl From<ClientError> for Failure {
    #[cold]
    fn from(error: ClientError) -> Self {
        let code = match &error {
            ClientError::Connect { .. } | ClientError::Io(_) => Code::Unavailable,
            ClientError::Key(_) | ClientError::LongKey { .. } => Code::Argument,
            ClientError::Server(_) | ClientError::Protocol(_) => Code::Server,
        };
        Self::new(code, error)
    }
}
