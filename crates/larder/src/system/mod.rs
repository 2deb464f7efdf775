//! The time and random numbers, from the operating system.

pub(crate) mod clock;
pub(crate) mod random;
