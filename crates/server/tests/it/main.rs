//! The integration tests of larderd, in one program: each file or folder is a module, and
//! `cargo test -p larder-server --test it udp::` runs the tests of one. Most start their own
//! servers.

mod activation;
mod admin;
mod admin_control;
mod admin_faults;
mod admin_history;
mod admin_metrics;
mod admin_tls;
mod any_cache;
mod binary_differential;
mod check;
mod clock;
mod daemon;
mod dice;
mod differential;
mod discovery;
mod disk_cache;
mod disk_damage;
mod disk_faults;
mod disk_lists;
mod disk_local_readers;
mod disk_privileges;
mod disk_reads;
mod disk_tier;
mod disk_upgrade;
mod drain;
mod dump_restart;
mod dumps;
mod endurance;
mod exporter;
mod extstore;
mod faults;
mod followers;
mod hot_keys;
mod item_scene;
mod item_streams;
mod items;
mod kernel_sockets;
mod killed;
mod large;
mod large_values;
mod listeners;
mod login;
mod logs;
mod looks;
mod memory;
mod memory_limit;
mod moments;
mod near;
mod near_crowd;
mod near_history;
mod options;
mod pair;
mod peers;
mod prefixes;
mod process;
mod reading;
mod removal;
mod restart;
mod routers;
mod slow;
mod statistics;
mod tls;
mod tls_scene;
mod tls_watched;
mod udp;
mod upgrade;
mod upgrade_scene;
mod users;
mod warming;
mod watch;

use std::path::PathBuf;

/// Returns the larderd to test.
fn binary() -> PathBuf {
    larder_testkit::server::larderd(env!("CARGO_BIN_EXE_larderd"))
}
