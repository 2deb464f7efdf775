//! The answers of a fresh server to a stream of bytes in pieces.

use std::sync::Arc;

use larder::Wait;
use larder_options::{Options, Protocol};
use larder_server::{Allowance, Executor, Next, Output, Server, Session};

use crate::threads::Threads;

/// Cuts a stream; the lengths of the pieces are used in a cycle.
pub fn cut<'a>(stream: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
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

/// Returns the answers of a fresh server, until it closes or has read everything.
pub fn answers(pieces: &[&[u8]], commands_max: usize) -> Vec<u8> {
    let _threads = Threads::remember();
    let settings = [("memory_limit", "2"), ("max_item_size", "64k")];
    let (options, _) = Options::from_map(settings).expect("options are right");
    let server = Arc::new(Server::new(options).expect("memory"));
    let executor = Executor::new(Arc::clone(&server), 0);
    let mut session = Session::new(&server, 1, Protocol::Auto);
    let allowance = Allowance::of_commands(commands_max);
    let (mut unused, mut answers) = (Vec::new(), Vec::new());
    for piece in pieces {
        unused.extend_from_slice(piece);
        loop {
            let mut out = Output::default();
            let progress = session.receive(&executor, Wait::Block, &unused, allowance, &mut out);
            unused.drain(..progress.consumed);
            answers.extend(out.parts().flatten());
            match progress.next {
                Next::Input => break,
                Next::Drain | Next::Turn | Next::GiveWay => {}
                // No client may read the memory, and the server has no disk.
                Next::Close
                | Next::Lines
                | Next::Changes
                | Next::Region
                | Next::Disk
                | Next::Wake
                | Next::Origin => {
                    return answers;
                }
            }
        }
    }
    answers
}
