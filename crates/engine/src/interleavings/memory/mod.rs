//! What those who move items and memory promise to readers and writers.

mod allocating;
mod evicting;
mod growing;
mod pinning;
mod recounting;
mod recycling;
mod relocating;
mod sweeping;

use super::stage::{Actor, Scene, explore, explore_some, keys, scene};
