//! Sends arbitrary bytes to a text session. The session must not panic, and must give the same
//! answers however the bytes are split.
#![no_main]

mod conversation;
mod threads;

use conversation::{answers, cut};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // The first bytes are the lengths of the pieces, used in a cycle.
    let Some((lengths, stream)) = input.split_first_chunk::<4>() else { return };
    let whole = answers(&[stream], 1000);
    let pieces = cut(stream, lengths);
    let in_pieces = answers(&pieces, 2);
    assert_eq!(comparable(&whole), comparable(&in_pieces), "pieces of {lengths:?}");
});

/// Removes the lines that differ between two servers: statistics contain times and byte counts, and
/// the first lease token is random.
fn comparable(answers: &[u8]) -> Vec<&[u8]> {
    let differs = |line: &&[u8]| line.starts_with(b"STAT ") || line.starts_with(b"LVALUE ");
    answers.split(|byte| *byte == b'\n').filter(|line| !differs(line)).collect()
}
