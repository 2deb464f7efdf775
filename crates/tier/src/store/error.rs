//! The errors of a store.

use std::io;

use thiserror::Error;

use super::lookup::KeyRecords;
use crate::disk::DiskError;
use crate::format::{Address, RecordFault};
use crate::log::HeaderError;
use crate::recovery::RecoveryError;
use crate::tier::OpenError;

/// The reason why a change was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The change depends on the disk's item of the key. The caller must call [`Store::find`] and
    /// repeat the change with its result.
    ///
    /// [`Store::find`]: super::Store::find
    #[error("the disk must be read first")]
    NeedsDisk,
    /// The disk cannot keep up, or a delayed flush is due. The caller should wait and try again.
    #[error("the disk does not keep up with the stores")]
    Busy,
    /// The live items leave no space for more, or the file system is full.
    #[error("the disk has no room for the item")]
    Full,
    /// The catalog would exceed its memory limit.
    #[error("the index of the disk has no memory left for another key")]
    CatalogFull,
    /// The item was recorded after the removal began.
    #[error("the item is newer than the removal")]
    Newer,
    /// The log failed earlier. It accepts no more changes.
    #[error("the log has failed and accepts no more changes")]
    Failed,
    /// The item is longer than a segment.
    #[error("the item does not fit into a segment of the disk")]
    TooLarge,
}

/// The reason why a store did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The log could not be recovered.
    #[error("{}{}", .0, remedy(.0))]
    Recovery(#[from] RecoveryError),
    /// The size is below the minimum of a store.
    #[error("the size is too small: a disk tier needs at least 32 MiB")]
    TooSmall,
    /// The size exceeds the maximum of a catalog.
    #[error("a size of more than 64 TiB is not supported")]
    TooLarge,
    /// The system could not start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// Compression was requested, but this build does not contain it.
    #[error(
        "values cannot be compressed: this program was built without the feature zstd of the \
         library; build it with this feature, or do not request compression"
    )]
    NoCompression,
}

fn remedy(error: &RecoveryError) -> &'static str {
    match error {
        RecoveryError::Header(HeaderError::Foreign { .. }) => "",
        RecoveryError::Disk(error) if !error.is_of_read() => "",
        RecoveryError::OlderManifest { .. } => {
            ". Restore the whole directory from a backup, or save what can be read with larder \
             export DIR FILE --past-damage readable, and import it into a new directory"
        }
        RecoveryError::Dictionary { .. } => {
            ". Restore one of its two files from a backup, or save the other items with larder \
             export DIR FILE --past-damage readable, and import them into a new directory"
        }
        RecoveryError::CutOff { .. } => {
            ". Restore the directory from a backup, or save what can be read with larder export DIR \
             FILE --past-damage readable"
        }
        _ => {
            ". Lost records may have replaced or removed items that are still readable. larder fsck \
             DIR shows all damage. --tier-accept-loss starts without the items that may be out of \
             date; to save them first, use larder export DIR FILE --past-damage readable"
        }
    }
}

/// A record that may belong to the key cannot be read.
#[derive(Debug, Error)]
#[error("{cause}")]
pub struct FindError {
    /// The reason.
    pub cause: Unreadable,
    /// The state of the key if the unreadable record belongs to it. A change that replaces or
    /// removes the item can use this, because it does not need to read the item.
    pub known: KeyRecords,
}

/// The reason why a record cannot be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The record was damaged when its segment was reclaimed.
    #[error(
        "the item was damaged on the disk and is lost; store or delete the key to clear this error"
    )]
    Lost,
    /// A record of the log is damaged.
    #[error("the record at {at} of the log is damaged: {damage}")]
    Damaged {
        /// The address of the record.
        at: Address,
        /// The kind of damage.
        damage: RecordFault,
    },
}
