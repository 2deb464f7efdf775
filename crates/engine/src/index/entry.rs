//! Found items as a journal records them.

use crate::index::Index;
use crate::index::find::Found;
use crate::journal::Entry;
use crate::segment::record::{Header, PIECE_HEAD_BYTES};

impl Index {
    /// Returns a found item with its key and value.
    pub(crate) fn entry<'a>(&self, key: &'a [u8], found: &Found, value: &'a [u8]) -> Entry<'a> {
        Entry {
            key,
            value,
            flags: found.header.flags(self.region().memory(), found.record_at),
            deadline: self.deadline(found),
            version: self.version(found),
            stale: found.header.is_stale(),
            token_sent: found.header.is_token_sent(),
            number: found.header.is_number(),
        }
    }

    /// Returns the value of a linked item, pieces included. The caller holds the lock of its group:
    /// whoever empties a segment needs it for each piece that moves.
    pub(crate) fn linked_value(&self, found: &Found) -> Vec<u8> {
        let mut value = Vec::new();
        if !found.header.is_large() {
            self.read_value(found, &mut value);
            return value;
        }
        for at in self.table(found) {
            let record_at = self.segments().record_at(self.slot(at));
            let bytes = Header::load(self.region().memory(), record_at).value_bytes();
            self.region().memory().read(record_at + PIECE_HEAD_BYTES, bytes, &mut value);
        }
        value
    }
}
