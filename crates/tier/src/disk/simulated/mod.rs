//! A disk in memory that fails as real disks do, for tests.
//!
//! A [`SimulatedDisk`] is the machine: a cache, and a platter below it. A test opens its directory
//! as a process would, and runs the log on it. [`SimulatedDisk::kill`] ends the process: the cache
//! survives. [`SimulatedDisk::lose_power`] ends the machine: of what was not synced, a part
//! survives, drawn from the seed.
//!
//! - Each unsynced page on its own holds its durable bytes, those of any write since, or a mix of
//!   two of them in sectors of 512 bytes. [`Fates`] weighs these cases.
//! - Created and renamed files survive in the order of the calls: if one is lost, all later ones
//!   are. Changes of a file's length survive in their order too, independently of the directory's.
//!   If a cut of a file is lost, so is each later write behind that cut.
//!
//! [`SimulatedDisk::inject`] makes the n-th call of a kind fail, hang, or take the power away. One
//! thread that makes the same calls on a disk of the same seed gets the same bytes and errors.
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
