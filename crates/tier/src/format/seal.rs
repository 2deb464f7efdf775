//! Checksums that belong to one directory and one place.

use crc32fast::Hasher;

use crate::format::Address;

/// The identity of a directory: random bytes, drawn when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uuid(pub [u8; 16]);

/// Makes and checks the checksums of one directory: CRC-32 (IEEE 802.3) over the uuid, the place
/// and the bytes.
#[derive(Clone, Debug)]
pub struct Seal {
    uuid: Uuid,
    seeded: Hasher,
}

impl Seal {
    /// The seal of a directory.
    pub fn of(uuid: Uuid) -> Self {
        let mut seeded = Hasher::new();
        seeded.update(&uuid.0);
        Self { uuid, seeded }
    }

    /// The directory.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The checksum of what lies at an address.
    pub(crate) fn at(&self, address: Address, parts: &[&[u8]]) -> u32 {
        self.seeded_with(address.stored(), parts)
    }

    /// The checksum of what has no address: the header of a segment, in the extent `extent`.
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
