//! Guarantees of threads that move items and memory.

mod allocating;
mod appending;
mod evicting;
mod filing;
mod growing;
mod pinning;
mod recounting;
mod recycling;
mod relocating;
mod sweeping;

use super::stage::{Actor, Scene, explore, explore_some, keys, scene};
