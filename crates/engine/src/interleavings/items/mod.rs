//! Guarantees between readers and writers of items.

mod extending;
mod large;
mod leasing;
mod loading;
mod ordering;
mod overwriting;
mod reading;
mod recaching;
mod removing;
mod updating;
mod uploading;
mod using;
mod writing;

use super::stage::{Actor, Scene, actor, explore, explore_some, preempt, scene};
