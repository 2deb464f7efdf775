//! The 24-byte header of every request and every response.

/// The length of a header in bytes.
pub const HEADER_BYTES: usize = 24;

/// The first byte of a request.
pub const REQUEST_MAGIC: u8 = 0x80;

/// The first byte of a response.
pub const RESPONSE_MAGIC: u8 = 0x81;

/// A header without its first byte and without the data type, which is always 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The command, one of [`opcode`](super::opcode).
    pub opcode: u8,
    /// Length of the key in bytes.
    pub key_bytes: u16,
    /// Length of the extras, which precede the key, in bytes.
    pub extras_bytes: u8,
    /// The outcome, one of [`status`](super::status); 0 in a request, where memcached ignores it.
    pub status: u16,
    /// Length of extras, key and value together, in bytes.
    pub body_bytes: u32,
    /// The opaque number that the peer chose for the request.
    pub opaque: u32,
    /// A cas token, or 0.
    pub cas: u64,
}

impl Header {
    /// Parses a header. Ignores its first byte.
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [_, opcode, k0, k1, extras_bytes, _, s0, s1, rest @ ..] = *bytes;
        let [b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = rest;
        Self {
            opcode,
            key_bytes: u16::from_be_bytes([k0, k1]),
            extras_bytes,
            status: u16::from_be_bytes([s0, s1]),
            body_bytes: u32::from_be_bytes([b0, b1, b2, b3]),
            opaque: u32::from_be_bytes([o0, o1, o2, o3]),
            cas: u64::from_be_bytes(cas),
        }
    }

    /// Returns the bytes of the header.
    pub fn bytes(&self, magic: u8) -> [u8; HEADER_BYTES] {
        let [k0, k1] = self.key_bytes.to_be_bytes();
        let [s0, s1] = self.status.to_be_bytes();
        let [b0, b1, b2, b3] = self.body_bytes.to_be_bytes();
        let [o0, o1, o2, o3] = self.opaque.to_be_bytes();
        let [c0, c1, c2, c3, c4, c5, c6, c7] = self.cas.to_be_bytes();
        [
            magic,
            self.opcode,
            k0,
            k1,
            self.extras_bytes,
            0,
            s0,
            s1,
            b0,
            b1,
            b2,
            b3,
            o0,
            o1,
            o2,
            o3,
            c0,
            c1,
            c2,
            c3,
            c4,
            c5,
            c6,
            c7,
        ]
    }

    /// Returns the length of the value in bytes; `None` if extras and key exceed the body.
    pub fn value_bytes(&self) -> Option<u32> {
        self.body_bytes.checked_sub(u32::from(self.key_bytes) + u32::from(self.extras_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header {
            opcode: 0x01,
            key_bytes: 0x0203,
            extras_bytes: 0x04,
            status: 0x0506,
            body_bytes: 0x0708_090a,
            opaque: 0x0b0c_0d0e,
            cas: 0x0f10_1112_1314_1516,
        };
        let bytes = header.bytes(REQUEST_MAGIC);
        let expected = [
            0x80, 1, 2, 3, 4, 0, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
        ];
        assert_eq!(bytes, expected);
        assert_eq!(Header::read(&bytes), header);
    }

    #[test]
    fn lengths_that_contradict_each_other_leave_no_value() {
        let header = Header { key_bytes: 5, extras_bytes: 8, body_bytes: 12, ..Header::default() };
        assert_eq!(header.value_bytes(), None);
        assert_eq!(Header { body_bytes: u32::MAX, ..header }.value_bytes(), Some(u32::MAX - 13));
    }
}
