//! The dictionaries of a directory, and their files.

use std::fmt;
use std::sync::OnceLock;

use zerocopy::IntoBytes;

use super::codec::{self, Dictionary};
use crate::disk::{Directory, DiskError, File, PAGE_BYTES, zeroed_pages};
use crate::format::{CompressedItem, DictionaryFile, RecordFault, Uuid};

/// The dictionaries of a directory. Dictionaries are added while values are read, but never removed
/// or replaced.
pub(crate) struct Dictionaries {
    /// The dictionary `n` is at `n - 1`.
    all: Box<[OnceLock<Dictionary>]>,
}

/// A copy of a dictionary that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DictionaryDamage {
    /// The number of the dictionary.
    pub number: u8,
    /// The name of the file.
    pub file: String,
    /// The reason.
    pub reason: String,
    /// True if the other copy cannot be read either. Values that were compressed with this
    /// dictionary are then lost.
    pub is_lost: bool,
}

impl fmt::Display for DictionaryDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.reason)
    }
}

impl fmt::Debug for Dictionaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionaries").finish_non_exhaustive()
    }
}

/// Returns the names of the two files of a dictionary.
fn names(number: u8) -> [String; 2] {
    [format!("DICTIONARY.{number}"), format!("DICTIONARY.{number}.copy")]
}

impl Dictionaries {
    /// Reads the dictionaries 1 to `count` of a directory. Also returns the damaged copies.
    pub(crate) fn read<D: Directory>(
        directory: &D,
        uuid: Uuid,
        count: u8,
    ) -> (Self, Vec<DictionaryDamage>) {
        let dictionaries = Self { all: (0..u8::MAX).map(|_| OnceLock::new()).collect() };
        let mut damaged = Vec::new();
        for number in 1..=count {
            let (file, faults) = read_copies(directory, uuid, number);
            let is_lost = file.is_none();
            damaged.extend(faults.into_iter().map(|(file, reason)| DictionaryDamage {
                number,
                file,
                reason,
                is_lost,
            }));
            if let Some(file) = file {
                dictionaries.add(number, file.dictionary);
            }
        }
        (dictionaries, damaged)
    }

    /// Adds a dictionary. The caller has written its files, durably.
    pub(crate) fn add(&self, number: u8, bytes: Vec<u8>) {
        // A number is used once.
        let _ = self.all[usize::from(number) - 1].set(Dictionary::new(bytes));
    }

    /// Returns a dictionary, or `None` if it does not exist or is lost.
    pub(crate) fn get(&self, number: u8) -> Option<&Dictionary> {
        self.all.get(usize::from(number).checked_sub(1)?)?.get()
    }

    /// Returns the bytes of a dictionary, or `None` if it does not exist or is lost.
    pub(crate) fn bytes(&self, number: u8) -> Option<&[u8]> {
        self.get(number).map(Dictionary::bytes)
    }

    /// Decompresses the value of a record.
    ///
    /// # Errors
    ///
    /// [`RecordFault::Dictionary`] and [`RecordFault::Value`].
    pub(crate) fn value_of(&self, compressed: &CompressedItem<'_>) -> Result<Vec<u8>, RecordFault> {
        self.decompress(compressed.dictionary, compressed.item.value)
    }

    /// Same as [`Dictionaries::value_of`], for the bytes of a value and the number of their
    /// dictionary.
    pub(crate) fn decompress(&self, number: u8, stored: &[u8]) -> Result<Vec<u8>, RecordFault> {
        let dictionary = self.get(number);
        if number != 0 && dictionary.is_none() {
            return Err(RecordFault::Dictionary(number));
        }
        codec::decompress(stored, dictionary)
    }
}

/// Reads the two copies of a dictionary. Returns a valid one, and the damaged files with the
/// reasons.
fn read_copies<D: Directory>(
    directory: &D,
    uuid: Uuid,
    number: u8,
) -> (Option<DictionaryFile>, Vec<(String, String)>) {
    let (mut found, mut mended, mut faults) = (None, None, Vec::new());
    for name in names(number) {
        let reason = match directory.read_small(&name) {
            Ok(Some(bytes)) => match DictionaryFile::decode(uuid, number, &bytes) {
                Ok(file) => {
                    found = Some(file);
                    continue;
                }
                Err(fault) => {
                    let flipped = DictionaryFile::decode_flipped(uuid, number, &bytes);
                    mended = mended.or(flipped);
                    fault.to_string()
                }
            },
            Ok(None) => "it is missing".to_owned(),
            Err(error) => error.to_string(),
        };
        faults.push((name, reason));
    }
    (found.or(mended), faults)
}

/// Writes the copies of a dictionary for which `is_wanted` returns true, durably.
///
/// # Errors
///
/// [`DiskError`]. The files may then have any content.
pub(crate) fn write_copies<D: Directory>(
    directory: &D,
    file: &DictionaryFile,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(), DiskError> {
    let content = file.encode();
    let mut pages = zeroed_pages(content.len().div_ceil(PAGE_BYTES));
    pages.as_mut_bytes()[..content.len()].copy_from_slice(&content);
    for name in names(file.number).iter().filter(|name| is_wanted(name)) {
        let file = directory.create(name)?;
        file.write_pages(0, &pages)?;
        file.set_len(content.len() as u64)?;
        file.sync_data()?;
    }
    directory.sync()
}
