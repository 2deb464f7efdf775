//! Stores items and counts the readable ones.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use larder_bench::mix;
use larder_testkit::Stream;

pub(crate) const KEY_BYTES: u64 = 20;
pub(crate) const VALUE_BYTES: u64 = 100;
pub(crate) const ITEM_BYTES: u64 = KEY_BYTES + VALUE_BYTES;

/// Items sent together.
const BATCH: u64 = 1000;
/// Keys per get. Both servers read a line of this length in one piece.
const KEYS_OF_A_GET: u64 = 50;

pub(crate) struct Load {
    pub(crate) items: u64,
    pub(crate) exptime: u32,
}

impl Load {
    /// Stores all items, the newest last.
    pub(crate) fn store(&self, stream: &mut Stream) -> Result<()> {
        let mut request = Vec::new();
        for first in (0..self.items).step_by(BATCH as usize) {
            request.clear();
            for number in first..self.items.min(first + BATCH) {
                let exptime = self.exptime;
                write!(request, "set {} 0 {exptime} {VALUE_BYTES} noreply\r\n", key(number))?;
                request.extend_from_slice(&value(number));
                request.extend_from_slice(b"\r\n");
            }
            stream.write_all(&request).context("storing")?;
        }
        // The stores have no replies. If one failed, its error would arrive before the version.
        let answer = stream.ask(b"version\r\n", b"\r\n")?;
        ensure!(answer.starts_with(b"VERSION "), "{}", answer.escape_ascii());
        Ok(())
    }

    /// Reads all items, checks them and returns the number of hits.
    pub(crate) fn count_readable(&self, stream: &mut Stream) -> Result<u64> {
        let mut readable = 0;
        let mut request = Vec::new();
        for first in (0..self.items).step_by(KEYS_OF_A_GET as usize) {
            let numbers = first..self.items.min(first + KEYS_OF_A_GET);
            request.clear();
            request.extend_from_slice(b"get");
            numbers.clone().try_for_each(|number| write!(request, " {}", key(number)))?;
            request.extend_from_slice(b"\r\n");
            // No value ends with this, because values do not contain letters.
            let answer = stream.ask(&request, b"END\r\n")?;
            readable += count(&answer, numbers)?;
        }
        Ok(readable)
    }
}

/// Returns the number of items in a response, and checks that it contains nothing else.
fn count(answer: &[u8], numbers: std::ops::Range<u64>) -> Result<u64> {
    let mut rest = answer;
    let mut found = 0;
    for number in numbers {
        let head = format!("VALUE {} 0 {VALUE_BYTES}\r\n", key(number));
        if let Some(behind) = rest.strip_prefix(head.as_bytes()) {
            let behind = behind.strip_prefix(&value(number)).context("a wrong value")?;
            rest = behind.strip_prefix(b"\r\n").context("a value that is too long")?;
            found += 1;
        }
    }
    ensure!(rest == b"END\r\n", "an unexpected answer: {}", rest.escape_ascii());
    Ok(found)
}

/// Returns the key with this number, [`KEY_BYTES`] long.
fn key(number: u64) -> String {
    format!("item{:016x}", mix(number))
}

/// Returns the value of the key with this number.
fn value(number: u64) -> [u8; VALUE_BYTES as usize] {
    let digits = mix(!number).to_le_bytes().map(|byte| b'0' + byte % 10);
    std::array::from_fn(|at| digits[at % digits.len()])
}
