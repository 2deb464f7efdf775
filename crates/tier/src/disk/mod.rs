//! The file access of the tier: the traits that the log uses, real files, and a simulated disk for
//! tests.
//!
//! The log uses only the traits [`Directory`] and [`File`]. Their calls block, transfer whole pages
//! of 4096 bytes, and report each failure as a [`DiskError`] with the path and the call.
//! [`platform`] implements them with files of the operating system. `simulated`, enabled by the
//! feature `simulation`, implements them with a disk in memory. Controlled by a seed, it loses
//! power, tears pages and fails like a real disk. `tests/it/disk` runs the same contract tests on
//! both.
//!
//! The traits guarantee this after a power loss:
//!
//! - A page that was written and then synced has its new bytes. A page that was written but not
//!   synced has its old bytes, its new bytes, or a mix of both in sectors of 512 bytes.
//! - A created or renamed file exists once its directory was synced.
//! - After a failed [`File::sync_data`], the pages that it covered may be lost, although reads
//!   return them and the next sync succeeds. After [`File::drop_cached`], reads return the bytes on
//!   the disk.
//!
//! Files in reading order: `page`, `error`, `traits`, `platform/`, `simulated/`.

mod error;
mod page;
pub mod platform;
#[cfg(feature = "simulation")]
pub mod simulated;
mod traits;

pub use error::{Call, DiskError};
pub use page::{PAGE_BYTES, Page, page_bytes_mut, resize_pages, zeroed_page, zeroed_pages};
pub use traits::{Directory, File, SMALL_BYTES_MAX, Space};
