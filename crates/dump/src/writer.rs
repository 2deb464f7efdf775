//! Writes a dump.

use std::io::Write;

use larder_item::check_key;

use crate::error::WriteError;
use crate::format::{
    BLOCK_BYTES_MAX, Entry, HEAD_BYTES, Kind, VALUE_BYTES_MAX, block_header, file_header, head,
};

/// Writes items to a dump, block by block.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// The payload of the current block.
    block: Vec<u8>,
    /// The number of the current block.
    number: u32,
    /// Number of missing bytes of the last item's value.
    missing: u32,
    /// True until the value of the last item is complete. Until then the item is not counted,
    /// because it may still become void.
    is_open: bool,
    items: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a dump. `made_unix_secs` is the time of the export.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn new(mut out: W, made_unix_secs: u64) -> Result<Self, WriteError> {
        out.write_all(&file_header(made_unix_secs))?;
        let block = Vec::with_capacity(BLOCK_BYTES_MAX);
        Ok(Self { out, block, number: 0, missing: 0, is_open: false, items: 0 })
    }

    /// Begins an item. [`Writer::push`] appends its value.
    ///
    /// # Errors
    /// [`WriteError`]. Unless it is [`WriteError::Io`], the dump is unchanged.
    pub fn begin(&mut self, entry: &Entry<'_>) -> Result<(), WriteError> {
        self.check_complete(0)?;
        check_key(entry.key)?;
        if entry.value_bytes > VALUE_BYTES_MAX {
            return Err(WriteError::TooLarge(entry.value_bytes));
        }
        // A reader expects the header of an item and its key within one block.
        if self.block.len() + HEAD_BYTES + entry.key.len() > BLOCK_BYTES_MAX {
            self.write_block(Kind::Data)?;
        }
        let key_bytes = u8::try_from(entry.key.len()).expect("a key has at most 250 bytes");
        self.block.extend_from_slice(&head(entry, key_bytes));
        self.block.extend_from_slice(entry.key);
        self.missing = entry.value_bytes;
        self.is_open = true;
        self.count_complete();
        Ok(())
    }

    /// Appends bytes to the value of the last item.
    ///
    /// # Errors
    /// [`WriteError::Length`] if the value becomes longer than announced; then the dump is
    /// unchanged.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        let pushed = u32::try_from(bytes.len()).ok().filter(|pushed| *pushed <= self.missing);
        let Some(pushed) = pushed else {
            return Err(WriteError::Length { missing: self.missing, pushed: bytes.len() });
        };
        while !bytes.is_empty() {
            if self.block.len() == BLOCK_BYTES_MAX {
                self.write_block(Kind::Data)?;
            }
            let (fits, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES_MAX - self.block.len()));
            self.block.extend_from_slice(fits);
            bytes = rest;
        }
        self.missing -= pushed;
        self.count_complete();
        Ok(())
    }

    /// Declares the current item void, so that readers ignore it. Does nothing if its value is
    /// complete.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn abandon(&mut self) -> Result<(), WriteError> {
        if self.is_open {
            if !self.block.is_empty() {
                self.write_block(Kind::Data)?;
            }
            self.write_block(Kind::Void)?;
            (self.missing, self.is_open) = (0, false);
        }
        Ok(())
    }

    /// Appends an item with its value.
    ///
    /// # Errors
    /// Same as [`Writer::begin`] and [`Writer::push`].
    pub fn item(&mut self, entry: &Entry<'_>, value: &[u8]) -> Result<(), WriteError> {
        self.begin(entry)?;
        self.push(value)
    }

    /// Returns the number of complete items so far.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Ends the dump and returns the output. Without this call readers treat the dump as cut off.
    ///
    /// # Errors
    /// A value is not complete, or the output cannot be written.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.check_complete(0)?;
        if !self.block.is_empty() {
            self.write_block(Kind::Data)?;
        }
        self.block.extend_from_slice(&self.items.to_le_bytes());
        self.write_block(Kind::End)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn check_complete(&self, pushed: usize) -> Result<(), WriteError> {
        match self.missing {
            0 => Ok(()),
            missing => Err(WriteError::Length { missing, pushed }),
        }
    }

    fn count_complete(&mut self) {
        if self.is_open && self.missing == 0 {
            self.is_open = false;
            self.items += 1;
        }
    }

    fn write_block(&mut self, kind: Kind) -> Result<(), WriteError> {
        self.out.write_all(&block_header(kind, self.number, &self.block))?;
        self.out.write_all(&self.block)?;
        self.block.clear();
        self.number = self.number.wrapping_add(1);
        Ok(())
    }
}
