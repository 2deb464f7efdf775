//! Sessions over a real cache. The tests divide the input in many ways; the responses must always
//! be the same.

use std::sync::Arc;

use larder_options::Options;
use larder_stats::Counter;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::buffers::output::OUTPUT_BYTES_HIGH;
use crate::server::Server;

mod binary;
mod disk;
mod login;
mod rights;

/// A peer and the server it talks to.
struct Peer {
    executor: Executor,
    session: Session,
    /// Bytes that were sent, but not yet consumed by the session.
    unused: Vec<u8>,
    closed: bool,
    /// The longest output of a call, in bytes.
    out_bytes_max: usize,
}

impl Peer {
    fn of(options: &[(&str, &str)]) -> Self {
        let (options, _) = Options::from_map(options.iter().copied()).unwrap();
        Self::at(Arc::new(Server::new(options).unwrap()))
    }

    fn at(server: Arc<Server>) -> Self {
        let executor = Executor::new(server, 0);
        let protocol = executor.server().options.protocol;
        let (session, unused) = (Session::new(executor.server(), 1, protocol), Vec::new());
        Self { executor, session, unused, closed: false, out_bytes_max: 0 }
    }

    /// Sends bytes in one piece and returns all responses.
    fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.unused.extend_from_slice(bytes);
        let mut answers = Vec::new();
        let mut next = Next::Turn;
        while next != Next::Input && !self.closed {
            let mut out = Output::default();
            let allowance = Allowance::of_commands(3);
            let progress = self.session.receive(
                &self.executor,
                Wait::Block,
                &self.unused,
                allowance,
                &mut out,
            );
            self.unused.drain(..progress.consumed);
            self.out_bytes_max = self.out_bytes_max.max(out.bytes.len());
            answers.extend(out.parts().flatten());
            next = progress.next;
            self.closed = next == Next::Close;
        }
        answers
    }

    /// Sends bytes in pieces, divided at each of `cuts`.
    fn send_cut(&mut self, bytes: &[u8], cuts: &[Index]) -> Vec<u8> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        let (mut answers, mut start) = (Vec::new(), 0);
        for cut in cuts.into_iter().chain([bytes.len()]) {
            answers.append(&mut self.send(&bytes[start..cut]));
            start = cut;
        }
        answers
    }

    fn says(&mut self, words: &str) -> String {
        String::from_utf8(self.send(words.as_bytes())).unwrap()
    }

    fn count(&self, counter: Counter) -> u64 {
        self.executor.server().counter(counter)
    }
}

/// Options of a cache so small that it stores values of more than 8 KiB in pieces.
const SMALL: &[(&str, &str)] = &[("memory_limit", "2"), ("max_item_size", "1m")];

/// Returns a value of this length in which misplaced parts are visible.
fn value(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| b'a' + (at % 25) as u8 + (at / 1000 % 2) as u8).collect()
}

fn set(key: &str, value: &[u8]) -> Vec<u8> {
    let head = format!("set {key} 5 0 {}\r\n", value.len());
    [head.as_bytes(), value, b"\r\n"].concat()
}

#[test]
fn a_pipeline_is_answered_in_its_order() {
    let mut peer = Peer::of(&[]);
    assert_eq!(
        peer.says("set k 7 0 5\r\nhello\r\nget k x k\r\ndelete k\r\nget k\r\nversion\r\n"),
        "STORED\r\nVALUE k 7 5\r\nhello\r\nVALUE k 7 5\r\nhello\r\nEND\r\nDELETED\r\nEND\r\n\
         VERSION 1.6.45\r\n"
    );
}

#[test]
fn an_error_in_the_middle_of_a_pipeline_shifts_nothing() {
    let mut peer = Peer::of(&[]);
    assert_eq!(
        peer.says(
            "set a 0 0 1\r\n1\r\nset a 0 0 x\r\nnonsense\r\nset a x 0 4\r\nget \r\n\
             set a 0 0 2\r\n123\r\nget a\r\n"
        ),
        "STORED\r\nCLIENT_ERROR bad command line format\r\nERROR\r\n\
         CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad data chunk\r\n\
         CLIENT_ERROR bad command line format\r\nVALUE a 0 1\r\n1\r\nEND\r\n"
    );
}

#[test]
fn noreply_hides_the_outcome_and_the_errors_of_a_store() {
    let mut peer = Peer::of(&[("memory_limit", "2"), ("max_item_size", "1k")]);
    let large = format!("set k 0 0 2000 noreply\r\n{}\r\n", "x".repeat(2000));
    assert_eq!(peer.says(&large), "");
    assert_eq!(peer.says("set k 0 0 1 noreply\r\n1\r\nset k 0 0 1 noreply\r\n2xx"), "");
    assert_eq!(peer.says("get k\r\n"), "VALUE k 0 1\r\n1\r\nEND\r\n");
}

#[test]
fn a_store_too_large_is_skipped_then_refused_and_removes_the_old_item() {
    let mut peer = Peer::of(&[("memory_limit", "2"), ("max_item_size", "1k")]);
    peer.says("set k 0 0 1\r\n1\r\nadd other 0 0 1\r\n1\r\n");
    assert_eq!(peer.says("set k 0 0 5000\r\n"), "");
    assert_eq!(peer.says(&"x".repeat(5001)), "");
    assert_eq!(peer.says("xget k\r\n"), "SERVER_ERROR object too large for cache\r\nEND\r\n");
    assert_eq!(
        peer.says(&format!("append other 0 0 5000\r\n{}\r\nget other\r\n", "x".repeat(5000))),
        "SERVER_ERROR object too large for cache\r\nVALUE other 0 1\r\n1\r\nEND\r\n"
    );
    assert_eq!((peer.count(Counter::StoreTooLarge), peer.count(Counter::CmdSet)), (2, 2));
}

#[test]
fn large_values_arrive_and_are_sent_in_parts_with_little_buffered() {
    let mut peer = Peer::of(SMALL);
    let value = value(700_000);
    assert_eq!(peer.send(&set("large", &value)), b"STORED\r\n");
    let mut expected = b"VALUE large 5 700000\r\n".to_vec();
    expected.extend_from_slice(&value);
    expected.extend_from_slice(b"\r\nEND\r\n");
    assert_eq!(peer.send(b"get large\r\n"), expected);
    assert!(peer.out_bytes_max < OUTPUT_BYTES_HIGH + 20_000, "{}", peer.out_bytes_max);
}

#[test]
fn a_value_that_never_arrives_takes_no_memory() {
    let mut peer = Peer::of(SMALL);
    peer.says("set k 0 0 7000\r\nabc");
    assert!(peer.session.held_bytes() < 100);
    let mut peer = Peer::of(SMALL);
    peer.says("set k 0 0 1000000\r\nabc");
    assert!(peer.session.held_bytes() < 100);
    assert_eq!(peer.unused.len(), 0);
}

#[test]
fn a_large_value_without_its_line_end_is_not_stored() {
    let mut peer = Peer::of(SMALL);
    let mut command = set("k", &value(20_000));
    let end = command.len() - 1;
    command[end] = b'x';
    for cut in [end, end - 1, end - 2] {
        let (first, second) = command.split_at(cut);
        assert_eq!(peer.send(first), b"");
        assert_eq!(peer.send(second), b"CLIENT_ERROR bad data chunk\r\n");
        assert_eq!(peer.says("get k\r\n"), "END\r\n");
    }
}

#[test]
fn a_list_of_keys_waits_for_its_answers_to_be_sent() {
    let mut peer = Peer::of(SMALL);
    peer.send(&set("k", &value(5000)));
    let answers = peer.says(&format!("get{}\r\n", " k".repeat(200)));
    assert_eq!(answers.matches("VALUE k 5 5000\r\n").count(), 200);
    assert!(answers.ends_with("\r\nEND\r\n"));
    assert!(peer.out_bytes_max < OUTPUT_BYTES_HIGH + 5100, "{}", peer.out_bytes_max);
}

#[test]
fn a_turn_ends_after_its_commands_only_if_there_are_more() {
    let peer = Peer::of(&[]);
    let mut session = Session::new(peer.executor.server(), 1, Protocol::Auto);
    let mut receive = |input: &[u8]| {
        let allowance = Allowance::of_commands(2);
        session.receive(&peer.executor, Wait::Block, input, allowance, &mut Output::default())
    };
    let two = b"get a b c d\r\nversion\r\n";
    assert_eq!(receive(two), Progress { consumed: two.len(), next: Next::Input });
    let three = b"version\r\nfoo\r\nversion\r\n";
    assert_eq!(receive(three), Progress { consumed: 14, next: Next::Turn });
}

#[test]
fn a_turn_ends_within_a_list_after_its_keys() {
    let peer = Peer::of(&[]);
    let mut session = Session::new(peer.executor.server(), 1, Protocol::Auto);
    let allowance = Allowance { keys_max: 2, ..Allowance::of_commands(20) };
    let (mut rest, mut answers, mut turns) = (&b"get a b c d e\r\nversion\r\n"[..], Vec::new(), 0);
    while !rest.is_empty() {
        let mut out = Output::default();
        let progress = session.receive(&peer.executor, Wait::Block, rest, allowance, &mut out);
        answers.extend(out.parts().flatten().copied());
        rest = &rest[progress.consumed..];
        turns += 1;
    }
    let answers = String::from_utf8(answers).unwrap();
    assert!(answers.starts_with("END\r\nVERSION"), "{answers}");
    assert_eq!(turns, 3, "of two keys, of two, and of one with what comes behind it");
}

/// Some statistics visit tens of thousands of items. Twenty of them in one turn would make other
/// connections wait.
#[test]
fn statistics_are_a_turn_by_themselves() {
    let peer = Peer::of(&[]);
    let mut session = Session::new(peer.executor.server(), 1, Protocol::Auto);
    let allowance = Allowance::of_commands(20);
    let input = b"stats cachedump 1 0\r\n".repeat(2);
    let progress =
        session.receive(&peer.executor, Wait::Block, &input, allowance, &mut Output::default());
    assert_eq!(progress, Progress { consumed: 21, next: Next::GiveWay });
}

/// Base64 and the binary protocol allow any byte in a key.
#[test]
fn a_key_with_a_line_end_in_it_does_not_end_the_list_that_shows_it() {
    let mut peer = Peer::of(&[]);
    assert_eq!(peer.says("ms YQpFTkQ= 1 b\r\nx\r\n"), "HD\r\n");
    assert_eq!(peer.says("stats cachedump 1 0\r\n"), "ITEM a%0AEND [1 b; 0 s]\r\nEND\r\n");
}

#[test]
fn quit_ends_the_session_and_what_follows_is_not_executed() {
    let mut peer = Peer::of(&[]);
    assert_eq!(peer.says("version\r\nquit\r\nversion\r\n"), "VERSION 1.6.45\r\n");
    assert!(peer.closed);
}

#[test]
fn shutdown_needs_permission() {
    let mut peer = Peer::of(&[]);
    assert_eq!(peer.says("shutdown\r\n"), "SERVER_ERROR: shutdown not enabled\r\n");
    let mut peer = Peer::of(&[("enable_shutdown", "yes")]);
    assert_eq!(peer.says("shutdown graceful\r\n"), "");
    assert!(peer.closed);
    assert!(peer.executor.server().life.stop.requested().is_some());
}

#[test]
fn commands_are_counted_as_memcached_counts_them() {
    let mut peer = Peer::of(&[]);
    peer.says("set a 0 0 1\r\n1\r\nset b 0 -1 1\r\n1\r\nadd a 0 0 1\r\n1\r\nset a 0 0 1\r\n12\r\n");
    peer.says("get a b c\r\ngat 0 a c\r\ntouch a 0\r\ntouch c 0\r\n");
    peer.says("incr a 1\r\ndecr a 1\r\nincr c 1\r\ndecr c 1\r\n");
    peer.says("gets a\r\ncas a 0 0 1 1\r\n1\r\ncas c 0 0 1 1\r\n1\r\ndelete a\r\ndelete a\r\n");
    for (counter, count) in [
        (Counter::CmdGet, 4),
        (Counter::GetHits, 2),
        (Counter::GetMisses, 2),
        (Counter::CmdTouch, 4),
        (Counter::TouchHits, 2),
        (Counter::TouchMisses, 2),
        (Counter::CmdSet, 6),
        (Counter::IncrHits, 1),
        (Counter::IncrMisses, 1),
        (Counter::DecrHits, 1),
        (Counter::DecrMisses, 1),
        (Counter::CasBadval, 1),
        (Counter::CasMisses, 1),
        (Counter::DeleteHits, 1),
        (Counter::DeleteMisses, 1),
    ] {
        assert_eq!(peer.count(counter), count, "{counter:?}");
    }
    assert_eq!(peer.says("stats reset\r\n"), "RESET\r\n");
    assert_eq!((peer.count(Counter::CmdGet), peer.count(Counter::ItemsTotal)), (0, 0));
}

/// The maintainer of the cache may remove an expired item before the read, which then counts as a
/// plain miss. It sweeps at most once, because nothing advances the clock of this server.
#[test]
fn a_read_that_finds_an_expired_item_counts_it() {
    let mut peer = Peer::of(&[]);
    let expired = (0..3).map(|_| {
        peer.says("set k 0 -1 1\r\n1\r\nget k\r\n");
        peer.count(Counter::GetExpired)
    });
    let expired: Vec<u64> = expired.collect();
    assert!(expired[2] >= 2, "{expired:?} after each of three reads");
    assert_eq!(peer.count(Counter::GetMisses), 3);
}

/// Generates commands as peers send them, and malformed ones that resemble them.
fn command() -> impl Strategy<Value = Vec<u8>> {
    let key = select(vec!["a", "b", "c"]);
    let bytes = prop_oneof![0usize..20, 7000usize..9000, select(vec![20_000, 70_000, 300_000])];
    let store = select(vec!["set", "add", "replace", "append", "prepend"]);
    let end = prop_oneof![9 => Just("\r\n"), 1 => Just("x\r\n"), 1 => Just("\n")];
    let quiet = select(vec!["", "", " noreply"]);
    let stores = (store, key, bytes, end, quiet).prop_map(|(store, key, bytes, end, quiet)| {
        let head = format!("{store} {key} 1 0 {bytes}{quiet}\r\n");
        [head.as_bytes(), &value(bytes), end.as_bytes()].concat()
    });
    let lines = select(vec![
        "get a\r\n",
        "gets a b c d\n",
        "gat 0 b c\r\n",
        "delete a\r\n",
        "delete b noreply\r\n",
        "incr a 1\r\n",
        "touch c 100\r\n",
        "flush_all\r\n",
        "version\r\n",
        "set a 0 0 nonsense\r\n",
        "set a nonsense 0 3\r\nabc\r\n",
        "set a 0 0 2000000\r\n",
        "cas a 0 0 3 1\r\nabc\r\n",
        "GET a\r\n",
        " \r\n",
        "\r\n",
    ]);
    prop_oneof![2 => stores, 3 => lines.prop_map(|line| line.as_bytes().to_vec())]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn responses_do_not_depend_on_how_input_is_divided(
        commands in vec(command(), 1..20),
        cuts in vec(any::<Index>(), 0..30),
    ) {
        responses_are_equal_in_parts(&commands.concat(), &cuts, shown)?;
    }

    #[test]
    fn a_large_value_sent_in_any_parts_is_returned_whole(
        bytes in 7000usize..300_000,
        cuts in vec(any::<Index>(), 0..30),
    ) {
        let value = value(bytes);
        let mut peer = Peer::of(SMALL);
        prop_assert_eq!(peer.send_cut(&set("k", &value), &cuts), b"STORED\r\n");
        let expected = format!("VALUE k 5 {bytes}\r\n{}\r\nEND\r\n", String::from_utf8(value).unwrap());
        prop_assert!(peer.says("get k\r\n") == expected);
    }

    #[test]
    fn random_bytes_never_break_a_session(bytes in vec(any::<u8>(), 0..2000)) {
        Peer::of(SMALL).send(&bytes);
    }
}

/// Sends the bytes in one call and in parts, and compares the responses. Where they differ, prints
/// them with `shown`.
fn responses_are_equal_in_parts(
    bytes: &[u8],
    cuts: &[Index],
    shown: impl Fn(&[u8]) -> String,
) -> Result<(), TestCaseError> {
    let whole = Peer::of(SMALL).send(bytes);
    let mut peer = Peer::of(SMALL);
    let answers = peer.send_cut(bytes, cuts);
    prop_assert!(whole == answers, "{}\n{}", shown(&whole), shown(&answers));
    // A value that is still arriving is not an item yet.
    peer.session = Session::new(peer.executor.server(), 1, Protocol::Auto);
    prop_assert_eq!(peer.executor.server().cache.validate(), Ok(()));
    Ok(())
}

/// Returns the responses without their values.
fn shown(answers: &[u8]) -> String {
    let lines = answers.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn bytes_that_come_one_by_one_are_answered_like_all_at_once() {
    let mut bytes = b"set k 0 0 3\r\nabc\r\nget k k\r\nset k 0 0 3\r\nabcd\r\nfoo\r\n".to_vec();
    bytes.extend_from_slice(&set("large", &value(20_000)));
    bytes.extend_from_slice(b"get large\r\nquit\r\n");
    let whole = Peer::of(SMALL).send(&bytes);
    let mut peer = Peer::of(SMALL);
    let answers: Vec<u8> = bytes.chunks(1).flat_map(|byte| peer.send(byte)).collect();
    assert!(whole == answers, "{}\n{}", shown(&whole), shown(&answers));
}

#[test]
fn a_dump_that_shows_nothing_ends_its_turn_all_the_same() {
    let mut peer = Peer::of(&[]);
    let sets: String = (0..20_000).map(|key| format!("set {key} 0 0 1 noreply\r\nv\r\n")).collect();
    peer.send(sets.as_bytes());
    let allowance = Allowance::of_commands(20);
    let mut input = &b"lru_crawler metadump 39\r\nversion\r\n"[..];
    let (mut out, mut turns) = (Output::default(), 0);
    loop {
        let progress =
            peer.session.receive(&peer.executor, Wait::Block, input, allowance, &mut out);
        input = &input[progress.consumed..];
        if progress.next == Next::Input {
            break;
        }
        assert_eq!(progress.next, Next::GiveWay);
        turns += 1;
        assert_eq!(peer.count(Counter::CrawlersRunning), 1);
    }
    // The commands of one turn could have looked up a thousand keys.
    assert!((18..=40).contains(&turns), "{turns}");
    assert_eq!(String::from_utf8(out.bytes).unwrap(), "OK\r\nEND\r\nVERSION 1.6.45\r\n");
    assert_eq!(peer.count(Counter::CrawlersRunning), 0);
}
