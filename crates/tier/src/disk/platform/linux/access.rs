//! Checks that only the user of this process can open the files of a tier.

use std::path::Path;

use rustix::fs::{FileType, Stat};

use crate::disk::DiskError;

/// The permission bits of the directory.
pub(super) const DIRECTORY_MODE: u32 = 0o700;

/// The permission bits of the files.
pub(super) const FILE_MODE: u32 = 0o600;

/// Refuses a file or directory that another user owns, or that its group or other users can open. A
/// more restrictive mode than `expected` is accepted.
pub(super) fn check_private(
    path: &Path,
    stat: &Stat,
    user: u32,
    expected: u32,
) -> Result<(), DiskError> {
    let path = || path.to_path_buf();
    if stat.st_uid != user {
        return Err(DiskError::Owner { path: path(), owner: stat.st_uid, user });
    }
    let mode = stat.st_mode & 0o7777;
    if mode & 0o077 != 0 {
        return Err(DiskError::Mode { path: path(), mode, expected });
    }
    Ok(())
}

/// Refuses directories, devices, pipes and sockets.
pub(super) fn check_regular(path: &Path, stat: &Stat) -> Result<(), DiskError> {
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        Ok(())
    } else {
        Err(DiskError::NotAFile { path: path.to_path_buf() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the metadata of a temporary file, with another owner and mode.
    fn stat(owner: u32, mode: u32) -> Stat {
        let mut stat = rustix::fs::fstat(tempfile::tempfile().unwrap()).unwrap();
        stat.st_uid = owner;
        stat.st_mode = mode;
        stat
    }

    #[test]
    fn a_private_file_of_this_user_is_accepted() {
        for mode in [0o100_600, 0o100_400] {
            let result = check_private(Path::new("log"), &stat(7, mode), 7, FILE_MODE);
            result.unwrap_or_else(|error| panic!("mode {mode:o}: {error}"));
        }
    }

    #[test]
    fn another_owner_is_refused_with_the_remedy() {
        let error = check_private(Path::new("log"), &stat(8, 0o100_600), 7, FILE_MODE).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("belongs to user 8") && text.contains("chown 7 log"), "{text}");
    }

    #[test]
    fn each_bit_for_others_is_refused_with_the_remedy() {
        for bit in [0o001, 0o002, 0o004, 0o010, 0o020, 0o040] {
            let stat = stat(7, 0o100_600 | bit);
            let error = check_private(Path::new("log"), &stat, 7, FILE_MODE).unwrap_err();
            assert!(error.to_string().contains("chmod 600 log"), "bit {bit:o}: {error}");
        }
    }
}
