//! Tokens that are guessed, old, or those of another origin.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Result, ensure};
use larder_testkit::Transport;

use super::{Near, line, start};

/// Names a stream on the connection for fetches.
fn name(near: &mut Near, token: u128) -> Result<String> {
    near.ask(&format!("larder_follower {token:032x}\r\n"))
}

const REFUSED: &str = "CLIENT_ERROR no change stream has this token";

/// A fetch with another token must not note an interest: no near cache, or one without a copy,
/// would be told of the changes.
#[test]
fn a_token_of_no_stream_notes_no_interest() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=4"])?;
    let other_server = start(Transport::Tcp, &["--followers=4"])?;
    let mut near = Near::follow(&server)?;
    let other = Near::follow(&other_server)?;
    let token = near.terms.token;
    let guesses = (0..128).map(|bit| token ^ (1 << bit));
    let guesses = guesses.chain([token.wrapping_add(1), !token, 0, u128::MAX, other.terms.token]);
    for guess in guesses {
        ensure!(name(&mut near, token)? == "OK");
        ensure!(near.fetch(b"k")?.is_noted());
        ensure!(name(&mut near, guess)? == REFUSED, "{guess:032x} of {token:032x}");
        ensure!(!near.fetch(b"k")?.is_noted(), "the connection keeps the stream that it had named");
    }
    let mut stranger = server.connect()?;
    stranger.ask(b"larder_fetch k\r\n", b"EN U\r\n")?;
    Ok(())
}

/// No interest remains of a fetch whose token was refused: a change of its key tells nothing.
#[test]
fn a_change_tells_nothing_of_a_fetch_with_a_refused_token() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=4"])?;
    let mut near = Near::follow(&server)?;
    let token = near.terms.token;
    ensure!(name(&mut near, token ^ 1)? == REFUSED);
    ensure!(!near.fetch(b"k")?.is_noted());
    let mut client = server.connect()?;
    client.ask(b"set k 0 0 1\r\nv\r\n", b"STORED\r\n")?;
    ensure!(near.changes()?.is_empty());
    ensure!(name(&mut near, token)? == "OK");
    ensure!(near.fetch(b"k")?.is_noted());
    client.ask(b"set k 0 0 1\r\nw\r\n", b"STORED\r\n")?;
    ensure!(near.changes()? == [near.changed(b"k")]);
    Ok(())
}

/// The token of a stream that has ended stays useless while others take its slot, and no stream has
/// the token of another one.
#[test]
fn a_token_is_never_used_again() -> Result<()> {
    let server = start(Transport::Tcp, &["--followers=4"])?;
    let Near { stream, mut data, terms, .. } = Near::follow(&server)?;
    drop(stream);
    let mut tokens = BTreeSet::from([terms.token]);
    for round in 0..200 {
        let next = loop {
            // The places of streams that have just ended become free a moment later.
            if let Ok(next) = Near::follow(&server) {
                break next;
            }
        };
        ensure!(tokens.insert(next.terms.token), "the token of round {round} is used again");
        data.get_mut().write_all(b"larder_fetch k\r\n")?;
        let answer = line(&mut data)?;
        ensure!(answer == "EN U" || round == 0, "{answer} after {round} other streams");
    }
    ensure!(tokens.iter().all(|token| token.count_ones() > 20), "tokens that are easy to guess");
    Ok(())
}
