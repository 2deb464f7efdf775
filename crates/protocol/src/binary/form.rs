//! The form of each opcode's requests: whether they have extras, a key and a value.

use super::header::Header;
use super::opcode::*;

/// The form of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    extras: Extras,
    key: Key,
    has_value: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extras {
    /// Exactly this number of bytes.
    Of(u8),
    /// No bytes, or this number of bytes.
    NoneOr(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// The request must not contain a key.
    None,
    /// The request may contain a key.
    Any,
    /// The request must contain a key.
    Needed,
}

impl Form {
    /// Returns the form of an opcode; `None` if the opcode does not exist.
    pub(crate) const fn of(opcode: u8) -> Option<Self> {
        let (extras, key, has_value) = match aloud(opcode) {
            GET | GETK | DELETE | CONFIG_GET => (Extras::Of(0), Key::Needed, false),
            SET | ADD | REPLACE => (Extras::Of(8), Key::Needed, true),
            APPEND | PREPEND | SASL_AUTH | SASL_STEP => (Extras::Of(0), Key::Needed, true),
            INCREMENT | DECREMENT => (Extras::Of(20), Key::Needed, false),
            TOUCH | GAT | GATK => (Extras::Of(4), Key::Needed, false),
            FLUSH => (Extras::NoneOr(4), Key::None, false),
            STAT => (Extras::Of(0), Key::Any, false),
            QUIT | NOOP | VERSION | SASL_LIST => (Extras::Of(0), Key::None, false),
            _ => return None,
        };
        Some(Self { extras, key, has_value })
    }

    /// True if the lengths in a header match this form.
    pub(crate) fn fits(self, header: &Header, value_bytes: u32) -> bool {
        let extras_fit = match self.extras {
            Extras::Of(bytes) => header.extras_bytes == bytes,
            Extras::NoneOr(bytes) => header.extras_bytes == 0 || header.extras_bytes == bytes,
        };
        let key_fits = match self.key {
            Key::None => header.key_bytes == 0,
            Key::Any => true,
            Key::Needed => header.key_bytes > 0,
        };
        extras_fit && key_fits && (self.has_value || value_bytes == 0)
    }
}
