//! What a cache gets from the system: the time, and random numbers.

pub(crate) mod clock;
pub(crate) mod random;
