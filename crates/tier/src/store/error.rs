//! Why the store refuses something.

use std::io;

use thiserror::Error;

use super::lookup::Known;
use crate::OpenError;
use crate::disk::DiskError;
use crate::format::{Address, Damaged};
use crate::recovery::RecoveryError;

/// Why a change is refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It depends on what the disk has of the key: the caller asks with [`Store::find`] and tries
    /// again with what it has learned.
    ///
    /// [`Store::find`]: super::Store::find
    #[error("the disk must be asked first")]
    AskDisk,
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
        RecoveryError::Disk(_) => "",
        _ => {
            ". larder fsck DIR shows all damage, and larder export DIR FILE --past-damage readable \
             saves what can be read"
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
    /// A record of the log is damaged.
    #[error("the record at {at} of the log is damaged: {damage}")]
    Damaged {
        /// Its address.
        at: Address,
        /// What is wrong.
        damage: Damaged,
    },
}
