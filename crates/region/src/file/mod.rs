//! Files that contain a region. A file is complete, with all its memory reserved, before it becomes
//! visible.

pub(crate) mod error;
mod length;
mod memfd;
pub(crate) mod named;
mod new;

pub use error::FileError;
pub use length::extend;
pub use memfd::{cannot_shrink, is_length_sealed, is_sealed, memfd, seal, seal_length};
pub use named::{is_named, open, open_again, open_to_read};
pub use new::{Access, NewFile, reserved_bytes};
