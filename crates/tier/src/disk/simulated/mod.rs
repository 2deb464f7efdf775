//! A disk in memory that fails like a real disk, for tests.
//!
//! A [`SimulatedDisk`] is a machine with a page cache and a *platter*, the storage that survives a
//! power loss. A test opens its directory as a process would, and runs the log on it.
//! [`SimulatedDisk::kill`] ends the process; the cache survives. [`SimulatedDisk::lose_power`] ends
//! the machine; of the unsynced changes, a random part survives. The seed determines which.
//!
//! - Each unsynced page independently has its durable bytes, the bytes of any later write, or a mix
//!   of two of these in sectors of 512 bytes. [`Fates`] sets the probabilities.
//! - Created and renamed files survive in the order of the calls: if one is lost, all later ones
//!   are lost. Changes of a file's length also survive in order, independently of the directory. If
//!   the truncation of a file is lost, later writes after the truncated length are also lost.
//!
//! [`SimulatedDisk::inject`] makes the n-th call of a kind fail, hang, or cut the power. A single
//! thread that makes the same calls on a disk with the same seed always observes the same bytes and
//! errors.
//!
//! ```
//! use larder_tier::disk::simulated::{Fates, SimulatedDisk};
//! use larder_tier::disk::{Directory, File, Page, zeroed_pages};
//!
//! let disk = SimulatedDisk::new(1);
//! disk.set_fates(Fates::ALL_LOST);
//! let directory = disk.open();
//! let log = directory.create("log")?;
//! directory.sync()?;
//! log.write_pages(0, &[Page::new([1; 4096])])?;
//! log.sync_data()?;
//! log.write_pages(0, &[Page::new([2; 4096])])?;
//! disk.lose_power();
//!
//! let log = disk.open().open("log")?.expect("the directory was synced");
//! let mut pages = zeroed_pages(1);
//! log.read_pages(0, &mut pages)?;
//! assert_eq!(pages[0], Page::new([1; 4096]));
//! # Ok::<(), larder_tier::disk::DiskError>(())
//! ```
//!
//! Files in reading order: `disk`, `fault`, `machine`, `names`, `inode`, `directory`, `file`.

mod directory;
mod disk;
mod fault;
mod file;
mod inode;
mod machine;
mod names;

pub use directory::{SimulatedDirectory, SimulatedLock};
pub use disk::SimulatedDisk;
pub use fault::{Counts, Fates, Fault, When};
pub use file::SimulatedFile;
