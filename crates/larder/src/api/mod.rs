//! [`Cache`](crate::Cache), the interface for programs: one concern per file.

pub mod cache;
mod change;
mod disk;
pub mod dump;
pub mod get;
pub mod load;
pub mod prefix;
mod read;
mod restored;
pub mod set;
pub mod signed;
pub mod stats;
mod store;
mod subscribe;
pub mod walk;
