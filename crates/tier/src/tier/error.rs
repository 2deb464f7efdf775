//! The errors of a directory.

use thiserror::Error;

use super::MANIFEST_SPACE_BYTES;
use crate::disk::DiskError;
use crate::format::{ManifestError, Mode};

/// The reason why a directory was not opened. Nothing was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The disk failed, the directory is in use, or another user can access it.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// This release cannot use the manifest.
    #[error("{path}: {reason}")]
    Manifest {
        /// The directory.
        path: String,
        /// The reason.
        reason: ManifestError,
    },
    /// The directory is a store but was opened as a cache, or the other way round.
    #[error(
        "{path} is a {found}, but was opened as a {asked}: start it as a {found}, or export it \
         there and import it into a new directory"
    )]
    OtherMode {
        /// The directory.
        path: String,
        /// Its mode.
        found: Mode,
        /// The requested mode.
        asked: Mode,
    },
    /// The directory was not created by larderd.
    #[error("{path} has no MANIFEST: it is not a directory of --tier-path")]
    NoTier {
        /// The directory.
        path: String,
    },
    /// The directory has a log but no manifest.
    #[error("{path} has a log but no MANIFEST: restore the file, or name an empty directory")]
    NoManifest {
        /// The directory.
        path: String,
    },
    /// The directory has a manifest but no log.
    #[error("{path} has a MANIFEST but no log: restore the file, or name an empty directory")]
    NoLog {
        /// The directory.
        path: String,
    },
    /// The log is shorter than the manifest requires.
    #[error(
        "the log in {path} has {found_bytes} bytes, expected {expected_bytes}: it was truncated. \
         Restore the directory from a backup, or save what can be read with larder export {path} \
         FILE --past-damage readable, and import it into a new directory"
    )]
    CutOff {
        /// The directory.
        path: String,
        /// The length of the file.
        found_bytes: u64,
        /// The length according to the manifest.
        expected_bytes: u64,
    },
    /// The requested size is smaller than the current size of the log.
    #[error(
        "{path} has a size of {found_bytes} bytes, but {asked_bytes} bytes were requested: a \
         directory can grow, not shrink. Export it and import it into a smaller one"
    )]
    Shrinks {
        /// The directory.
        path: String,
        /// The current size.
        found_bytes: u64,
        /// The requested size.
        asked_bytes: u64,
    },
    /// The file system has no space for a new manifest.
    #[error(
        "{path} has {free_bytes} bytes of free space, but a start needs {MANIFEST_SPACE_BYTES}: \
         remove other files of its volume, or enlarge it"
    )]
    NoSpace {
        /// The directory.
        path: String,
        /// The free space.
        free_bytes: u64,
    },
    /// The log is too small.
    #[error("a size of {bytes} bytes is too small: a log needs at least {min_bytes} bytes")]
    TooSmall {
        /// The requested size.
        bytes: u64,
        /// The smallest size.
        min_bytes: u64,
    },
    /// The directory may hold compressed values, which this build cannot read.
    #[error(
        "{path} holds values that --tier-compress has compressed, and this program was built \
         without the feature zstd of the library, which reads them; build it with this feature"
    )]
    NoCompression {
        /// The directory.
        path: String,
    },
    /// Both copies of a dictionary are damaged.
    #[error(
        "dictionary {number} in {path} is lost, and with it the values that it compresses: \
         {reason}. Restore DICTIONARY.{number} or DICTIONARY.{number}.copy from a backup, or save \
         the other items with larder export {path} FILE --past-damage readable, and import them \
         into a new directory"
    )]
    Dictionary {
        /// The directory.
        path: String,
        /// The number of the dictionary.
        number: u8,
        /// The damage of one of its copies.
        reason: String,
    },
    /// The directory was started 2³² times without the memory of the previous process, or its log
    /// has reached 2⁶⁷ bytes.
    #[error(
        "{path} has used up its segment numbers or epochs: export it and import it into a new \
         directory"
    )]
    NumbersUsedUp {
        /// The directory.
        path: String,
    },
}
