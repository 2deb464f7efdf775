//! What the text and the meta protocol share: lines of words.

pub(crate) mod key;
pub(crate) mod line;
pub(crate) mod words;
