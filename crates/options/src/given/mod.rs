//! The values that the user gave, with their origins, and corrections of misspelled names.

pub(crate) mod nearest;
pub(crate) mod values;
