//! Discovery: the list of the servers of a cluster, in the form that clients of ElastiCache know.
//!
//! The list is a line with its version, then a line with the servers, separated by spaces. Each
//! server is `host|ip|port`; `ip` may be empty. A client uses a new list only if its version is
//! higher than that of its current list.

/// The part of the configuration that contains the servers, as in `config get cluster`.
pub const CLUSTER: &[u8] = b"cluster";

/// The key under which clients of servers older than 1.4.14 read the list.
pub const CLUSTER_KEY: &[u8] = b"AmazonElastiCache:cluster";
