//! The integration tests of the library, in one program: each file is a module, and
//! `cargo test -p larder --test it model::` runs the tests of one. Tests that fork (`forking`),
//! measure their process (`alone`) or kill processes are in separate programs.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod accounts;
mod api;
mod behaviour;
mod churn;
mod corners;
mod events;
mod examples;
mod features;
mod large_values;
mod methods;
mod metrics;
mod model;
mod pair;
mod recache;
mod region_cases;
mod removals;
mod stopped_server;
mod threads;
mod tier;
mod tier_damage;
mod tier_restarts;
mod tier_returns;
mod tier_tags;
mod tier_walks;
mod typed;
mod walks;
