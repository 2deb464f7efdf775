//! Checksums that are valid for one directory and one position only.

use crc32fast::Hasher;

use crate::format::Address;

/// The identity of a directory: random bytes, generated when the directory is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uuid(pub [u8; 16]);

/// Computes the checksums of one directory: CRC-32 (IEEE 802.3) over the uuid, the position and the
/// bytes.
#[derive(Clone, Debug)]
pub struct Seal {
    uuid: Uuid,
    /// The state of the checksum after the uuid.
    seeded: Hasher,
}

impl Seal {
    /// Returns the seal of a directory.
    pub fn of(uuid: Uuid) -> Self {
        let mut seeded = Hasher::new();
        seeded.update(&uuid.0);
        Self { uuid, seeded }
    }

    /// Returns the uuid of the directory.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Returns the checksum of bytes at an address.
    pub(crate) fn at(&self, address: Address, parts: &[&[u8]]) -> u32 {
        self.seeded_with(address.stored(), parts)
    }

    /// Returns the checksum of a segment header, which has no address. Its position is the extent.
    pub(crate) fn in_extent(&self, extent: u32, parts: &[&[u8]]) -> u32 {
        self.seeded_with(u64::from(extent), parts)
    }

    fn seeded_with(&self, place: u64, parts: &[&[u8]]) -> u32 {
        let mut hasher = self.seeded.clone();
        hasher.update(&place.to_le_bytes());
        parts.iter().for_each(|part| hasher.update(part));
        hasher.finalize()
    }
}
