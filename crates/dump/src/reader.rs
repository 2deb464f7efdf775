//! Reads a dump.

use std::io::{ErrorKind, Read};

use larder_item::KEY_BYTES_MAX;

use crate::error::ReadError;
use crate::format::{
    BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, FILE_HEADER_BYTES, HEAD_BYTES, Kind, MAGIC,
    VALUE_BYTES_MAX, VERSION, array, checksum_of, number_32, number_64,
};

/// An item of a dump without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadEntry {
    key: [u8; KEY_BYTES_MAX],
    key_bytes: u8,
    /// Bits that the client stored with the item.
    pub flags: u32,
    /// The Unix time at which the item expires, in seconds; `None` if it never expires.
    pub deadline_unix_secs: Option<u64>,
    /// Length of the value, in bytes.
    pub value_bytes: u32,
}

impl ReadEntry {
    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key[..usize::from(self.key_bytes)]
    }
}

/// A part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The next bytes, at least one.
    Bytes(&'a [u8]),
    /// The value is complete.
    End,
    /// The exporter could not read the rest of the value: the item is void. The caller must discard
    /// the bytes that it has received.
    Void,
}

/// Reads the items of a dump one after another.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// Number of bytes read so far.
    offset: u64,
    made_unix_secs: u64,
    /// The payload of the current block. Its unread bytes are `block[at..]`.
    block: Vec<u8>,
    at: usize,
    /// The offset and the number of the current block.
    block_offset: u64,
    number: u32,
    /// Number of unread bytes of the current value.
    missing: u32,
    /// True until the caller has read the end of the last item's value. Until then the item is not
    /// counted, because it may still become void.
    is_open: bool,
    has_ended: bool,
    items: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the header of a dump.
    ///
    /// # Errors
    /// [`ReadError`]: the input is not a dump, or has another version.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut reader = Self {
            input,
            offset: 0,
            made_unix_secs: 0,
            block: Vec::with_capacity(BLOCK_BYTES_MAX),
            at: 0,
            block_offset: 0,
            number: 0,
            missing: 0,
            is_open: false,
            has_ended: false,
            items: 0,
        };
        let mut header = [0; FILE_HEADER_BYTES];
        let read = reader.fill(&mut header)?;
        if !header[..read].starts_with(&MAGIC[..MAGIC.len().min(read)]) || read == 0 {
            let found = header[..read.min(MAGIC.len())].escape_ascii().to_string();
            return Err(ReadError::NotADump { found });
        }
        if read < header.len() {
            return Err(ReadError::Truncated { offset: reader.offset, expected: "a header" });
        }
        let version = number_32(&header, 8);
        if version != VERSION {
            return Err(ReadError::Version(version));
        }
        reader.compare("the checksum", crc32fast::hash(&header[..20]), number_32(&header, 20))?;
        reader.made_unix_secs = number_64(&header, 12);
        Ok(reader)
    }

    /// Returns the time of the export, as a Unix time in seconds.
    pub fn made_unix_secs(&self) -> u64 {
        self.made_unix_secs
    }

    /// Returns the number of items that were read completely.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Returns the number of bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next item; `None` after the last item. Skips the unread rest of the previous
    /// value.
    ///
    /// # Errors
    /// [`ReadError`]: the dump is cut off or damaged. The reader cannot continue after an error.
    pub fn next_entry(&mut self) -> Result<Option<ReadEntry>, ReadError> {
        while self.is_open {
            if self.next_piece()? == Piece::Void {
                break;
            }
        }
        while self.at == self.block.len() {
            if self.has_ended {
                return Ok(None);
            }
            match self.read_block()? {
                Kind::Data => {}
                Kind::Void => return Err(self.damaged("its kind", "void", "data or end.")),
                Kind::End => self.check_end()?,
            }
        }
        let entry = self.read_head()?;
        (self.missing, self.is_open) = (entry.value_bytes, true);
        Ok(Some(entry))
    }

    /// Returns the next part of the value of the last item.
    ///
    /// # Errors
    /// Same as [`Reader::next_entry`].
    pub fn next_piece(&mut self) -> Result<Piece<'_>, ReadError> {
        if self.missing == 0 {
            if std::mem::take(&mut self.is_open) {
                self.items += 1;
            }
            return Ok(Piece::End);
        }
        while self.at == self.block.len() {
            match self.read_block()? {
                Kind::Data => {}
                Kind::Void => {
                    (self.missing, self.is_open) = (0, false);
                    return Ok(Piece::Void);
                }
                Kind::End => {
                    let found = format!("end. with {} bytes of a value missing", self.missing);
                    return Err(self.damaged("its kind", found, "data or void"));
                }
            }
        }
        let unread = self.block.len() - self.at;
        let piece_bytes = unread.min(self.missing as usize);
        let at = self.at;
        self.at += piece_bytes;
        self.missing -= u32::try_from(piece_bytes).expect("a piece is at most the missing bytes");
        Ok(Piece::Bytes(&self.block[at..at + piece_bytes]))
    }

    /// Reads the header of an item, which is always within one block.
    fn read_head(&mut self) -> Result<ReadEntry, ReadError> {
        let unread = &self.block[self.at..];
        let (head, rest) = match unread.split_at_checked(HEAD_BYTES) {
            Some(parts) => parts,
            None => {
                let found = format!("{} bytes long", unread.len());
                return Err(self.damaged("the head of an item", found, "17 bytes"));
            }
        };
        let key_bytes = head[16];
        let value_bytes = number_32(head, 12);
        if key_bytes == 0 || usize::from(key_bytes) > KEY_BYTES_MAX {
            let expected = format!("1 to {KEY_BYTES_MAX} bytes");
            return Err(self.damaged("the length of a key", key_bytes, expected));
        }
        if value_bytes > VALUE_BYTES_MAX {
            let expected = format!("at most {VALUE_BYTES_MAX} bytes");
            return Err(self.damaged("the length of a value", value_bytes, expected));
        }
        let Some(key) = rest.get(..usize::from(key_bytes)) else {
            let found = format!("{} bytes long", rest.len());
            return Err(self.damaged("a key", found, format!("{key_bytes} bytes")));
        };
        let mut entry = ReadEntry {
            key: [0; KEY_BYTES_MAX],
            key_bytes,
            flags: number_32(head, 8),
            deadline_unix_secs: Some(number_64(head, 0)).filter(|secs| *secs > 0),
            value_bytes,
        };
        entry.key[..key.len()].copy_from_slice(key);
        self.at += HEAD_BYTES + key.len();
        Ok(entry)
    }

    /// Reads the next block and checks it.
    fn read_block(&mut self) -> Result<Kind, ReadError> {
        self.block_offset = self.offset;
        let mut header = [0; BLOCK_HEADER_BYTES];
        if self.fill(&mut header)? < header.len() {
            return Err(ReadError::Truncated { offset: self.offset, expected: "its last block" });
        }
        let kind_bytes: [u8; 4] = array(&header, 0);
        let Some(kind) = Kind::of(kind_bytes) else {
            let found = kind_bytes.escape_ascii();
            return Err(self.damaged("the kind of a block", found, "data, void or end."));
        };
        self.compare("the number of a block", self.number, number_32(&header, 4))?;
        let payload_bytes = number_32(&header, 8) as usize;
        let is_allowed = match kind {
            Kind::Data => payload_bytes <= BLOCK_BYTES_MAX,
            Kind::Void => payload_bytes == 0,
            Kind::End => payload_bytes == 8,
        };
        if !is_allowed {
            let expected = format!("at most {BLOCK_BYTES_MAX}, 0 of void, 8 of end.");
            return Err(self.damaged("the length of a block", payload_bytes, expected));
        }
        let mut block = std::mem::take(&mut self.block);
        block.resize(payload_bytes, 0);
        let read = self.fill(&mut block)?;
        self.block = block;
        self.at = 0;
        if read < payload_bytes {
            let expected = "the rest of a block";
            return Err(ReadError::Truncated { offset: self.offset, expected });
        }
        let checksum = checksum_of(&header, &self.block);
        self.compare("the checksum of a block", checksum, number_32(&header, 12))?;
        self.number = self.number.wrapping_add(1);
        Ok(kind)
    }

    /// Checks the number of items, and that the input has ended.
    fn check_end(&mut self) -> Result<(), ReadError> {
        let (counted, stated) = (self.items, number_64(&self.block, 0));
        if counted != stated {
            return Err(self.damaged("the number of items", stated, counted));
        }
        self.block.clear();
        self.at = 0;
        self.has_ended = true;
        self.block_offset = self.offset;
        if self.fill(&mut [0])? > 0 {
            return Err(self.damaged("the end", "followed by more bytes", "the last byte"));
        }
        Ok(())
    }

    fn compare(&self, part: &'static str, expected: u32, found: u32) -> Result<(), ReadError> {
        match expected == found {
            true => Ok(()),
            false => Err(self.damaged(part, format!("{found:#x}"), format!("{expected:#x}"))),
        }
    }

    fn damaged(
        &self,
        part: &'static str,
        found: impl ToString,
        expected: impl ToString,
    ) -> ReadError {
        let (found, expected) = (found.to_string(), expected.to_string());
        ReadError::Damaged { offset: self.block_offset, part, found, expected }
    }

    /// Reads until `bytes` is full or the input ends, and returns the number of bytes read.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, ReadError> {
        let mut read = 0;
        while read < bytes.len() {
            match self.input.read(&mut bytes[read..]) {
                Ok(0) => break,
                Ok(some) => {
                    read += some;
                    self.offset += some as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::Io { offset: self.offset, error }),
            }
        }
        Ok(read)
    }
}
