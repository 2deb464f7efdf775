//! Recognizes file systems that cannot keep the promises of a store.

use std::fmt;
use std::path::Path;

use rustix::fs::{StatFs, StatVfs, statfs};

use crate::disk::{Call, DiskError, Space};

/// A reason why a store is not durable on this file system. The server logs it at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caution {
    /// The file system writes each page to a new place. A preallocated file can still run out of
    /// space, and each sync writes metadata. Contains the name of the file system.
    CopyOnWrite(&'static str),
    /// The directory is on overlayfs, in the writable layer of a container. It is deleted with the
    /// container.
    Overlay,
    /// The file system is in memory: a reboot empties it. Contains the name of the file system.
    Memory(&'static str),
}

impl fmt::Display for Caution {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CopyOnWrite(name) => write!(
                formatter,
                "it is on {name}, which copies on write: preallocated space can still run out, and \
                 each sync costs more; ext4 and XFS have neither problem"
            ),
            Self::Overlay => formatter.write_str(
                "it is on overlayfs, the file system of a container, and is deleted with the \
                 container; preallocated space can still run out; mount a volume there",
            ),
            Self::Memory(name) => {
                write!(formatter, "it is on {name}, which is in memory: a reboot deletes it")
            }
        }
    }
}

impl Space {
    /// Converts the space that the system reports.
    pub(super) fn of_system(statvfs: &StatVfs) -> Self {
        Self {
            free_bytes: statvfs.f_bavail.saturating_mul(statvfs.f_frsize),
            total_bytes: statvfs.f_blocks.saturating_mul(statvfs.f_frsize),
        }
    }
}

impl Caution {
    /// Returns the caution for the file system of a directory, which may belong to any user.
    /// Returns `None` for file systems without known limitations.
    ///
    /// # Errors
    ///
    /// System errors.
    pub fn at(directory: &Path) -> Result<Option<Self>, DiskError> {
        let fail = |errno| DiskError::io(Call::Space, directory, errno);
        Ok(Self::of_system(&statfs(directory).map_err(fail)?))
    }

    pub(super) fn of_system(system: &StatFs) -> Option<Self> {
        // Magic numbers are 32 bits. Their type differs between architectures.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "32 bits")]
        let magic = system.f_type as u32;
        Self::of(magic)
    }

    /// Returns the caution for a file system of this type, as numbered by `statfs`.
    fn of(magic: u32) -> Option<Self> {
        Some(match magic {
            0x9123_683e => Self::CopyOnWrite("btrfs"),
            0x2fc1_2fc1 => Self::CopyOnWrite("ZFS"),
            0xca45_1a4e => Self::CopyOnWrite("bcachefs"),
            0x794c_7630 => Self::Overlay,
            0x0102_1994 => Self::Memory("tmpfs"),
            0x8584_58f6 => Self::Memory("ramfs"),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caution_names_the_file_system() {
        let names = [(0x9123_683e, "btrfs"), (0x2fc1_2fc1, "ZFS"), (0x794c_7630, "overlayfs")];
        for (magic, name) in names {
            let text = Caution::of(magic).map(|caution| caution.to_string()).unwrap_or_default();
            assert!(text.contains(name), "{magic:#x} gives {text:?}, which lacks {name}");
        }
    }

    #[test]
    fn ext4_and_xfs_need_no_caution() {
        for magic in [0xef53, 0x5846_5342] {
            assert_eq!(Caution::of(magic), None);
        }
    }
}
