//! What those who move items and memory promise to readers and writers.

mod evicting;
mod growing;
mod pinning;
mod recounting;
mod recycling;
mod relocating;
mod supplying;
mod sweeping;

use super::stage::{Actor, Scene, explore, explore_some, keys, scene};
