//! The common part of the text and the meta protocol: lines of words.

pub(crate) mod key;
pub(crate) mod line;
pub(crate) mod words;
