//! The output of a session: bytes, interleaved with pieces of large values that are sent directly
//! from the cache's memory.

use larder::Piece;

/// The output of a turn. A session writes it; a connection sends it, in one or several parts.
#[derive(Debug, Default)]
pub struct Output {
    /// The bytes of the output without the pieces.
    pub(crate) bytes: Vec<u8>,
    /// Boxed because most outputs have no pieces, and a box keeps the outputs small, which are
    /// moved often.
    pieces: Option<Box<Pieces>>,
    /// How many bytes of the output have been sent, including the pieces.
    sent_bytes: usize,
}

#[derive(Debug, Default)]
struct Pieces {
    /// Each piece with its position: the offset in `bytes` before which it is sent. In ascending
    /// order.
    places: Vec<(usize, Piece)>,
    /// The total length of the pieces.
    bytes: usize,
    /// The total length of the pieces that had to be copied.
    copied_bytes: usize,
}

impl Pieces {
    fn are_many(&self) -> bool {
        self.places.len() >= PIECES_MAX || self.bytes >= PIECES_BYTES_HIGH
    }
}

impl Output {
    /// True if the output is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.pieces.is_none()
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.pieces.as_ref().map_or(0, |pieces| pieces.bytes)
    }

    /// Empties the output and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.pieces, self.sent_bytes) = (None, 0);
    }

    /// Appends a piece of a value. The output keeps the piece until it is sent.
    pub(crate) fn push_piece(&mut self, piece: Piece) {
        let pieces = self.pieces.get_or_insert_default();
        pieces.bytes += piece.len();
        pieces.copied_bytes += piece.owned_bytes();
        pieces.places.push((self.bytes.len(), piece));
    }

    /// True if the output should be sent before more is appended. `bytes_max` limits the bytes
    /// outside the cache's memory.
    #[inline]
    pub(crate) fn is_full(&self, bytes_max: usize) -> bool {
        self.bytes.len() >= bytes_max
            || self.pieces.as_ref().is_some_and(|pieces| {
                pieces.are_many() || self.bytes.len() + pieces.copied_bytes >= bytes_max
            })
    }

    /// True if the output has no pieces, so that [`Self::rest`] is all of the unsent part.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.pieces.is_none()
    }

    /// Returns the unsent bytes of an output without pieces.
    #[inline]
    pub(crate) fn rest(&self) -> &[u8] {
        self.bytes.get(self.sent_bytes..).unwrap_or_default()
    }

    /// Returns the unsent parts in order.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let places = self.pieces.as_ref().map_or(&[][..], |pieces| &pieces.places);
        let ends = places.iter().map(|(at, piece)| (*at, &**piece));
        let mut start = 0;
        let parts = ends.chain([(self.bytes.len(), &[][..])]).flat_map(move |(end, piece)| {
            let before = &self.bytes[start..end];
            start = end;
            [before, piece]
        });
        let mut passed = self.sent_bytes;
        parts.filter_map(move |part| {
            let rest = &part[passed.min(part.len())..];
            passed -= part.len() - rest.len();
            (!rest.is_empty()).then_some(rest)
        })
    }

    /// Records that `bytes` more bytes have been sent.
    pub(crate) fn note_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
    }

    /// True if everything has been sent.
    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        self.sent_bytes >= self.len()
    }

    /// Returns the memory that the output owns beyond its own size, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let held = |pieces: &Pieces| {
            pieces.places.capacity() * size_of::<(usize, Piece)>() + pieces.copied_bytes
        };
        self.bytes.capacity() + self.pieces.as_ref().map_or(0, |pieces| held(pieces))
    }

    /// Frees memory that the unsent rest does not need, if that is much. Called when the socket
    /// does not accept all of the output.
    pub(crate) fn compact(&mut self) {
        let rest_bytes = self.rest().len();
        let spare_bytes = self.bytes.capacity() - rest_bytes.min(self.bytes.capacity());
        if self.is_whole() && spare_bytes > SPARE_BYTES_MAX.max(rest_bytes / 4) {
            self.bytes = self.rest().to_vec();
            self.sent_bytes = 0;
        }
    }

    /// Returns the vector that contains the output.
    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.bytes
    }
}

impl From<Vec<u8>> for Output {
    #[inline]
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, pieces: None, sent_bytes: 0 }
    }
}

/// The rest is not copied to save less memory than this.
const SPARE_BYTES_MAX: usize = 1024;

/// The maximum number of pieces in one send. The system accepts a few hundred parts.
const PIECES_MAX: usize = 64;

/// With this many bytes in pieces, other connections take their turn first.
const PIECES_BYTES_HIGH: usize = 1024 * 1024;

/// With this much output outside the cache's memory, a session waits until it is sent.
pub(crate) const OUTPUT_BYTES_HIGH: usize = 64 * 1024;

#[cfg(test)]
pub(crate) mod tests {
    use larder::{Cache, Read};

    use super::*;

    /// Returns an output that contains a value, and the cache that holds the value.
    pub(crate) fn output_with_value(head: &[u8], value: &[u8], tail: &[u8]) -> (Output, Cache) {
        let cache = Cache::builder().memory_bytes(16 << 20).open().unwrap();
        cache.set(b"k", value, None).unwrap();
        let mut output = Output::from(head.to_vec());
        let Read::Large(_, mut large) = cache.read(b"k", &mut Vec::new(), |_, _| ()) else {
            panic!("the value is kept in pieces")
        };
        while let Some(piece) = large.take_piece().unwrap() {
            output.push_piece(piece);
        }
        output.bytes.extend_from_slice(tail);
        (output, cache)
    }

    #[test]
    fn pieces_stand_where_they_were_put_however_much_has_been_sent() {
        let value: Vec<u8> = (0..300_000u32).map(|number| number as u8).collect();
        let (mut output, _cache) = output_with_value(b"head", &value, b"tail");
        let expected = [b"head", &value[..], b"tail"].concat();
        assert_eq!(output.len(), expected.len());
        for sent in [0, 1, 3, 1, 100_000, 50_000, 149_995, 4] {
            output.note_sent(sent);
            let rest = output.parts().collect::<Vec<_>>().concat();
            assert!(rest == expected[output.sent_bytes..], "after {}", output.sent_bytes);
        }
        output.note_sent(4);
        assert!(output.is_sent());
        assert!(output.parts().next().is_none());
    }

    #[test]
    fn pieces_are_not_memory_that_it_owns() {
        let (output, cache) = output_with_value(b"", &[7; 300_000], b"");
        assert!(output.held_bytes() < 8192, "{}", output.held_bytes());
        assert!(cache.report().segments_pinned > 0);
        drop(output);
        assert_eq!(cache.report().segments_pinned, 0);
    }
}
