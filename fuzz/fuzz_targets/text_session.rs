//! Whatever a peer sends, a session neither panics nor answers differently when it comes in other pieces.
#![no_main]

mod conversation;
mod threads;

use conversation::{answers, cut};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // The first bytes are the lengths of the pieces, over and over.
    let Some((lengths, stream)) = input.split_first_chunk::<4>() else { return };
    let whole = answers(&[stream], 1000);
    let pieces = cut(stream, lengths);
    let in_pieces = answers(&pieces, 2);
    assert_eq!(comparable(&whole), comparable(&in_pieces), "pieces of {lengths:?}");
});

/// Drops the lines that differ between two servers: statistics tell times and numbers of bytes, and
/// the first lease token is random.
fn comparable(answers: &[u8]) -> Vec<&[u8]> {
    let differs = |line: &&[u8]| line.starts_with(b"STAT ") || line.starts_with(b"LVALUE ");
    answers.split(|byte| *byte == b'\n').filter(|line| !differs(line)).collect()
}
