//! The values given, with their origins, and the words that a user probably meant.

pub(crate) mod nearest;
pub(crate) mod values;
