//! The dump of `--dump`, which keeps the items over a restart, and the limit of `--restore-ttl` on
//! the lives of restored items.
//!
//! ```text
//! stop  ─▶ workers end ─▶ save: FILE.part ─▶ FILE
//! start ─▶ load FILE ─▶ remove FILE ─▶ workers serve
//! ```
//!
//! The dump exists only between a clean stop and the next start. A crash leaves no
//! dump: it would bring back items from before the last start.

mod lives;
mod load;
mod save;

pub(crate) use lives::LifeLimit;
pub(crate) use load::{load, remove};
pub(crate) use save::save;
