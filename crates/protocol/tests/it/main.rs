//! The integration tests of the wire protocol, in one program: each file is a module.

mod any_split;
mod binary_both_sides;
mod both_sides;
