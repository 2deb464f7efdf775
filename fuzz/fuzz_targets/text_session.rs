//! Whatever a peer sends, a session neither panics nor answers differently when it comes in other pieces.
#![no_main]

mod conversation;

use conversation::{answers, cut};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // The first bytes are the lengths of the pieces, over and over.
    let Some((lengths, stream)) = input.split_first_chunk::<4>() else { return };
    let whole = answers(&[stream], 1000);
    let pieces = cut(stream, lengths);
    assert_eq!(without_stats(&whole), without_stats(&answers(&pieces, 2)), "pieces of {lengths:?}");
});

/// Statistics tell times and numbers of bytes, which differ.
fn without_stats(answers: &[u8]) -> Vec<&[u8]> {
    answers.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"STAT ")).collect()
}
