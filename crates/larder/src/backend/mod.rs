//! Where an item is: in memory, or in memory and on a disk tier.

pub(crate) mod attached;
mod change;
mod read;
pub(crate) mod removal;
mod status;
