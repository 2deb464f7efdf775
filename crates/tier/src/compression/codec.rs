//! Compresses and decompresses values.

use std::cell::RefCell;
use std::sync::OnceLock;

use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict, get_frame_content_size};

use crate::format::{RecordFault, VALUE_BYTES_MAX};

/// The level of zstd. Level 3 saves 3 % of the bytes for 30 % more time.
const LEVEL: i32 = 1;
/// Shorter values are not compressed: a frame has 10 bytes in addition to its content.
pub(crate) const VALUE_BYTES_MIN: usize = 64;
/// The first bytes of each frame, which the log does not repeat.
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// The memory that a thread keeps for the frame that it decompresses, in bytes.
const FRAME_BYTES_KEPT: usize = 64 << 10;

/// The position of the number in a dictionary of zstd.
const NUMBER_AT: usize = 4;

/// A dictionary, ready for use.
pub(crate) struct Dictionary {
    bytes: Vec<u8>,
    /// Made when a value is first compressed; `None` if zstd does not accept the bytes.
    compressor: OnceLock<Option<CDict<'static>>>,
    /// Made when a value is first decompressed; `None` if zstd does not accept the bytes.
    decompressor: OnceLock<Option<DDict<'static>>>,
}

impl Dictionary {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, compressor: OnceLock::new(), decompressor: OnceLock::new() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn compressor(&self) -> Option<&CDict<'static>> {
        self.compressor.get_or_init(|| CDict::try_create(&self.bytes, LEVEL)).as_ref()
    }

    fn decompressor(&self) -> Option<&DDict<'static>> {
        self.decompressor.get_or_init(|| DDict::try_create(&self.bytes)).as_ref()
    }
}

/// Sets the number in the bytes of a trained dictionary. A frame repeats it, and zstd refuses to
/// decompress a frame with another dictionary.
pub(super) fn set_number(dictionary: &mut [u8], number: u8) {
    dictionary[NUMBER_AT..NUMBER_AT + 4].copy_from_slice(&u32::from(number).to_le_bytes());
}

/// A compressed value.
pub(crate) struct Frame(Vec<u8>);

impl Frame {
    /// Returns the bytes that a record contains.
    pub(crate) fn stored(&self) -> &[u8] {
        &self.0[MAGIC.len()..]
    }
}

/// What a thread needs to compress and decompress.
#[derive(Default)]
struct Contexts {
    compressor: Option<CCtx<'static>>,
    decompressor: Option<DCtx<'static>>,
    frame: Vec<u8>,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::default();
}

/// Compresses a value. Returns `None` if it does not become shorter.
///
/// Cost: 2 to 3 µs for 300 bytes, 100 µs for 32 KiB. The first call of a thread allocates 40 KiB,
/// and a call with a long value up to 0.6 MiB.
pub(crate) fn compress(value: &[u8], dictionary: Option<&Dictionary>) -> Option<Frame> {
    // zstd gives up when the frame does not fit.
    let mut frame = Vec::with_capacity(value.len() + MAGIC.len() - 1);
    CONTEXTS.with_borrow_mut(|contexts| {
        let compressor = match &mut contexts.compressor {
            Some(compressor) => compressor,
            none => none.insert(CCtx::try_create()?),
        };
        let compressed = match dictionary {
            Some(dictionary) => {
                compressor.compress_using_cdict(&mut frame, value, dictionary.compressor()?)
            }
            None => compressor.compress(&mut frame, value, LEVEL),
        };
        compressed.ok()
    })?;
    frame.starts_with(&MAGIC).then_some(Frame(frame))
}

/// Decompresses a value.
///
/// Cost: a microsecond for 300 bytes. The first call of a thread allocates 96 KiB.
///
/// # Errors
///
/// [`RecordFault::Value`] if the bytes are not a frame of this dictionary.
pub(super) fn decompress(
    stored: &[u8],
    dictionary: Option<&Dictionary>,
) -> Result<Vec<u8>, RecordFault> {
    CONTEXTS.with_borrow_mut(|contexts| {
        let Contexts { decompressor, frame, .. } = contexts;
        frame.clear();
        frame.extend_from_slice(&MAGIC);
        frame.extend_from_slice(stored);
        let value = decompress_frame(decompressor.get_or_insert_default(), frame, dictionary);
        frame.shrink_to(FRAME_BYTES_KEPT);
        value.ok_or(RecordFault::Value)
    })
}

fn decompress_frame(
    decompressor: &mut DCtx<'static>,
    frame: &[u8],
    dictionary: Option<&Dictionary>,
) -> Option<Vec<u8>> {
    // The frame contains the length of the value. No memory is allocated for an impossible one.
    let len = usize::try_from(get_frame_content_size(frame).ok()??).ok()?;
    if len > VALUE_BYTES_MAX {
        return None;
    }
    let mut value = Vec::with_capacity(len);
    let decompressed = match dictionary {
        Some(dictionary) => {
            decompressor.decompress_using_ddict(&mut value, frame, dictionary.decompressor()?)
        }
        None => decompressor.decompress(&mut value, frame),
    };
    (decompressed == Ok(len)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame header that claims a length of 2⁶⁰ bytes: one byte of flags, eight of length.
    const BOMB: [u8; 9] = [0xE0, 0, 0, 0, 0, 0, 0, 0, 0x10];

    #[test]
    fn a_value_becomes_shorter_and_comes_back() {
        let value = b"the same words again, ".repeat(30);
        let frame = compress(&value, None).unwrap();
        assert!(frame.stored().len() < 60, "{} bytes", frame.stored().len());
        assert_eq!(decompress(frame.stored(), None), Ok(value));
    }

    #[test]
    fn a_value_that_does_not_become_shorter_is_not_compressed() {
        let noise: Vec<u8> =
            (0..200_u32).map(|n| (n.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
        assert!(compress(&noise, None).is_none());
    }

    #[test]
    fn an_impossible_length_allocates_nothing() {
        assert_eq!(decompress(&BOMB, None), Err(RecordFault::Value));
        assert_eq!(decompress(&[], None), Err(RecordFault::Value));
    }

    #[test]
    fn damaged_frames_are_errors() {
        let value = b"the same words again, ".repeat(30);
        let frame = compress(&value, None).unwrap();
        for bit in 0..frame.stored().len() * 8 {
            let mut damaged = frame.stored().to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // The checksum of the record covers the frame; zstd must only not crash.
            let _ = decompress(&damaged, None);
        }
        for len in 0..frame.stored().len() {
            assert!(decompress(&frame.stored()[..len], None).is_err(), "{len} bytes");
        }
    }
}
