//! The process: start and stop, privileges, limits, signals, the service manager and the upgrade.
//! In an upgrade a new process, the *successor*, replaces a running one, its *predecessor*.

mod announce;
pub(crate) mod check;
pub(crate) mod daemon;
pub(crate) mod early_stop;
pub(crate) mod limits;
pub(crate) mod main_loop;
pub(crate) mod opening;
pub(crate) mod overdue;
pub(crate) mod pidfile;
pub(crate) mod privileges;
pub(crate) mod signals;
pub(crate) mod start;
pub(crate) mod steps;
pub(crate) mod supervisor;
pub(crate) mod syscalls;
pub(crate) mod upgrade;
mod workers;
