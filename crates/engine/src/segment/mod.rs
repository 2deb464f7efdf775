//! Segments and the records in them: formats, accounts, append heads and the supply of free segments.

pub(crate) mod head;
pub(crate) mod header;
pub(crate) mod record;
pub(crate) mod stream;
pub(crate) mod supply;
pub(crate) mod used;
