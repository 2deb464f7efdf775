//! The files of the tier: what the log needs of a disk, real files, and a disk for tests.
//!
//! The log is written against the traits [`Directory`] and [`File`]. Their calls block, transfer
//! whole pages of 4096 bytes, and report each failure as a [`DiskError`] with the path and the
//! call. [`real`] has files of the operating system. `simulated`, behind the feature `simulation`,
//! has a disk in memory that loses power, tears pages and fails as real disks do, from a seed.
//! `tests/it/disk` runs one contract over both.
//!
//! What the traits promise after a power loss:
//!
//! - A page written and then synced stays. A page written and not synced holds its old bytes, its
//!   new ones, or a mix of both in sectors of 512 bytes.
//! - A created or renamed file stays once its directory is synced.
//! - After a failed [`File::sync_data`], the pages that it covered may be lost although reads show
//!   them and the next sync succeeds. [`File::drop_cached`] makes reads show the disk's bytes.
//!
//! Files in reading order: `page`, `error`, `traits`, `real/`, `simulated/`.

mod error;
mod page;
pub mod real;
#[cfg(feature = "simulation")]
pub mod simulated;
mod traits;

pub use error::{Call, DiskError};
pub use page::{PAGE_BYTES, Page, page_bytes_mut, resize_pages, zeroed_page, zeroed_pages};
pub use traits::{Directory, File, SMALL_BYTES_MAX, Space};
