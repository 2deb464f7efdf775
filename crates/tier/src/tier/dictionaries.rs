//! The dictionaries of a directory in use.

use std::sync::Arc;

use super::{OpenError, Tier, path};
use crate::compression::{self, Dictionaries, DictionaryDamage, write_copies};
use crate::disk::{Directory, DiskError};
use crate::format::{DictionaryFile, Manifest};

impl<D: Directory> Tier<D> {
    /// Reads the dictionaries, and returns the damaged copies.
    ///
    /// # Errors
    ///
    /// [`OpenError::Dictionary`] if both copies of a dictionary are damaged, and
    /// [`OpenError::NoCompression`] if this build cannot read compressed values.
    pub(super) fn read_dictionaries(
        directory: &D,
        manifest: &Manifest,
    ) -> Result<(Dictionaries, Vec<DictionaryDamage>), OpenError> {
        let (dictionaries, damaged) = Self::readable_dictionaries(directory, manifest)?;
        match damaged.iter().find(|damage| damage.is_lost) {
            Some(lost) => Err(OpenError::Dictionary {
                path: path(directory),
                number: lost.number,
                reason: lost.to_string(),
            }),
            None => Ok((dictionaries, damaged)),
        }
    }

    /// Same as [`Self::read_dictionaries`], but a lost dictionary is only reported.
    ///
    /// # Errors
    ///
    /// [`OpenError::NoCompression`].
    pub(super) fn readable_dictionaries(
        directory: &D,
        manifest: &Manifest,
    ) -> Result<(Dictionaries, Vec<DictionaryDamage>), OpenError> {
        if manifest.dictionaries.is_some() && !compression::IS_BUILT {
            return Err(OpenError::NoCompression { path: path(directory) });
        }
        let count = manifest.dictionaries.unwrap_or(0);
        Ok(Dictionaries::read(directory, manifest.uuid, count))
    }

    /// Writes the damaged copies of dictionaries again. On a full disk they stay as they are.
    pub(super) fn mend_dictionaries(&self) -> Result<(), DiskError> {
        for DictionaryDamage { number, file, .. } in &self.damaged {
            let Some(dictionary) = self.dictionaries.bytes(*number) else { continue };
            let (uuid, number, dictionary) = (self.manifest.uuid, *number, dictionary.to_vec());
            let content = DictionaryFile { uuid, number, dictionary };
            match write_copies(&self.directory, &content, |name| name == file) {
                Err(error) if error.is_full() => return Ok(()),
                written => written?,
            }
        }
        Ok(())
    }

    /// Returns the copies of dictionaries that were damaged when the directory was opened.
    pub(crate) fn damaged_dictionaries(&self) -> &[DictionaryDamage] {
        &self.damaged
    }

    /// Returns the dictionaries.
    pub(crate) fn dictionaries(&self) -> &Dictionaries {
        &self.dictionaries
    }

    /// Returns a shared handle of the dictionaries, for readers.
    pub(crate) fn shared_dictionaries(&self) -> Arc<Dictionaries> {
        Arc::clone(&self.dictionaries)
    }

    /// Permits records with compressed values, if `is_wanted`. The next change of the manifest
    /// makes this durable. It must be durable before the first of these records is written:
    /// releases that cannot read them then refuse the directory.
    pub(crate) fn permit_compression(&mut self, is_wanted: bool) {
        if is_wanted {
            self.manifest.dictionaries.get_or_insert(0);
        }
    }

    /// Adds a dictionary with the next number, durably. Records may name it afterwards.
    ///
    /// # Errors
    ///
    /// [`OpenError::Disk`]. Records must then not name it. The next call uses the number again.
    pub(crate) fn add_dictionary(&mut self, dictionary: Vec<u8>) -> Result<(), OpenError> {
        let count = self.manifest.dictionaries.unwrap_or(0);
        let Some(number) = count.checked_add(1) else { return Ok(()) };
        let file = DictionaryFile { uuid: self.manifest.uuid, number, dictionary };
        // Rule: DictionaryBeforeManifest
        write_copies(&self.directory, &file, |_| true)?;
        self.replace(Manifest { dictionaries: Some(number), ..self.manifest.clone() })?;
        self.dictionaries.add(number, file.dictionary);
        Ok(())
    }
}
