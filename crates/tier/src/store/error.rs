//! Why the store refuses something.

use std::io;

use thiserror::Error;

use super::lookup::Known;
use crate::disk::DiskError;
use crate::format::{Address, Damaged};
use crate::log::HeaderError;
use crate::recovery::RecoveryError;
use crate::tier::OpenError;

/// Why a change is refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It depends on what the disk has of the key: the caller asks with [`Store::find`] and tries
    /// again with what it has learned.
    ///
    /// [`Store::find`]: super::Store::find
    #[error("the disk must be asked first")]
    NeedsDisk,
    /// The disk does not keep up, or a delayed flush is due. The caller waits and tries again.
    #[error("the disk does not keep up with the stores")]
    Busy,
    /// The live items leave no room for more, or the file system has none.
    #[error("the disk has no room for the item")]
    Full,
    /// The catalog would outgrow its memory.
    #[error("the memory for the index of the disk has no room for another key")]
    CatalogFull,
    /// The item was recorded after the removal began.
    #[error("the item is newer than the removal")]
    Newer,
    /// The log failed earlier. It takes no more changes.
    #[error("the log has failed and takes no more changes")]
    Failed,
    /// The item is longer than a segment holds.
    #[error("the item is longer than a segment of the disk holds")]
    TooLarge,
}

/// Why a store does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The log is not recovered.
    #[error("{}{}", .0, remedy(.0))]
    Recovery(#[from] RecoveryError),
    /// The size is less than a store needs.
    #[error("the size is too small: a disk tier needs 32 MiB at least")]
    TooSmall,
    /// The size is more than a catalog can address.
    #[error("a size of more than 64 TiB is not supported")]
    TooLarge,
    /// The system has no thread left.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

fn remedy(error: &RecoveryError) -> &'static str {
    match error {
        RecoveryError::Header(HeaderError::Foreign { .. }) => "",
        RecoveryError::Disk(error) if !error.is_of_read() => "",
        RecoveryError::OlderManifest { .. } => {
            ". Restore the whole directory from a backup, or save what can be read with larder \
             export DIR FILE --past-damage readable, and import it into a new directory"
        }
        RecoveryError::CutOff { .. } => {
            ". Restore the directory from a backup, or save what can be read with larder export DIR \
             FILE --past-damage readable"
        }
        _ => {
            ". What is lost may have replaced or removed items that can be read. larder fsck DIR \
             shows all damage. --tier-accept-loss starts without all items that may be out of \
             date; larder export DIR FILE --past-damage readable saves them before"
        }
    }
}

/// A record that may be the key's cannot be read.
#[derive(Debug, Error)]
#[error("{cause}")]
pub struct FindError {
    /// Why.
    pub cause: Unreadable,
    /// What is known of the key, if the record that cannot be read is taken for its own: a change
    /// that replaces or removes the item does not need to read it.
    pub known: Known,
}

/// Why a record is not read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Its record was damaged when reclaim met it.
    #[error("the item was damaged on the disk and is lost: a store or a delete ends this")]
    Lost,
    /// A record of the log is damaged.
    #[error("the record at {at} of the log is damaged: {damage}")]
    Damaged {
        /// Its address.
        at: Address,
        /// What is wrong.
        damage: Damaged,
    },
}
