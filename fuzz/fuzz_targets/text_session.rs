//! Whatever a peer sends, a session neither panics nor answers differently when it comes in other pieces.
#![no_main]

use std::sync::Arc;

use larder_options::Options;
use larder_server::session::OUTPUT_BYTES_HIGH;
use larder_server::{Allowance, Executor, Next, Server, Session};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // The first bytes are the lengths of the pieces, over and over.
    let Some((lengths, stream)) = input.split_first_chunk::<4>() else { return };
    let whole = answers(&[stream], 1000);
    let pieces = cut(stream, lengths);
    assert_eq!(without_stats(&whole), without_stats(&answers(&pieces, 2)), "pieces of {lengths:?}");
});

fn cut<'a>(stream: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let (mut rest, mut pieces) = (stream, Vec::new());
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, behind) = rest.split_at(rest.len().min(usize::from(*length) + 1));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// What a fresh server answers, until it closes or has seen everything.
fn answers(pieces: &[&[u8]], commands_max: usize) -> Vec<u8> {
    let settings = [("memory_limit", "2"), ("max_item_size", "64k")];
    let (options, _) = Options::from_map(settings).expect("options are right");
    let executor = Executor::new(Arc::new(Server::new(options).expect("memory")), 0);
    let mut session = Session::new(1);
    let allowance = Allowance { commands_max, out_bytes_max: OUTPUT_BYTES_HIGH };
    let (mut unused, mut answers) = (Vec::new(), Vec::new());
    for piece in pieces {
        unused.extend_from_slice(piece);
        loop {
            let mut out = Vec::new();
            let progress = session.receive(&executor, &unused, allowance, &mut out);
            unused.drain(..progress.consumed);
            answers.append(&mut out);
            match progress.next {
                Next::Input => break,
                Next::Drain | Next::Turn => {}
                Next::Close => return answers,
            }
        }
    }
    answers
}

/// Statistics tell times and numbers of bytes, which differ.
fn without_stats(answers: &[u8]) -> Vec<&[u8]> {
    answers.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"STAT ")).collect()
}
