//! Sessions in the binary protocol.

use larder_protocol::Dialects;
use larder_protocol::binary::client::{Manner, ParsedReply, read_reply, request};
use larder_protocol::binary::{Header, REQUEST_MAGIC, opcode, status};

use super::*;

/// Returns a request that consists of these parts.
pub(super) fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let header = Header {
        opcode,
        key_bytes: key.len() as u16,
        extras_bytes: extras.len() as u8,
        body_bytes: (extras.len() + key.len() + value.len()) as u32,
        ..Header::default()
    };
    [&header.bytes(REQUEST_MAGIC), extras, key, value].concat()
}

fn binary_set(opcode: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    packet(opcode, &[0, 0, 0, 5, 0, 0, 0, 0], key, value)
}

/// Returns opcode, status and value of each response.
fn replies(answers: &[u8]) -> Vec<(u8, u16, Vec<u8>)> {
    let (mut replies, mut rest) = (Vec::new(), answers);
    while !rest.is_empty() {
        let ParsedReply::Reply { reply, consumed } = read_reply(rest) else {
            panic!("{}", rest.escape_ascii());
        };
        replies.push((reply.opcode, reply.status, reply.value.to_vec()));
        rest = &rest[consumed..];
    }
    replies
}

#[test]
fn a_batch_of_quiet_gets_is_answered_in_its_order() {
    let mut peer = Peer::of(&[]);
    let sent = [
        binary_set(opcode::SETQ, b"a", b"1"),
        binary_set(opcode::SETQ, b"b", b""),
        packet(opcode::GETKQ, &[], b"b", b""),
        packet(opcode::GETKQ, &[], b"none", b""),
        packet(opcode::GETQ, &[], b"a", b""),
        packet(opcode::NOOP, &[], b"", b""),
    ];
    let expected = [
        (opcode::GETKQ, status::SUCCESS, Vec::new()),
        (opcode::GETQ, status::SUCCESS, b"1".to_vec()),
        (opcode::NOOP, status::SUCCESS, Vec::new()),
    ];
    assert_eq!(replies(&peer.send(&sent.concat())), expected);
}

#[test]
fn large_values_come_and_go_in_parts() {
    let mut peer = Peer::of(SMALL);
    let value = value(700_000);
    let sent = [
        binary_set(opcode::SET, b"large", &value),
        packet(opcode::GET, &[], b"large", b""),
        packet(opcode::NOOP, &[], b"", b""),
    ];
    let answers = replies(&peer.send(&sent.concat()));
    assert_eq!(answers[0], (opcode::SET, status::SUCCESS, Vec::new()));
    assert!(answers[1] == (opcode::GET, status::SUCCESS, value));
    assert_eq!(answers[2], (opcode::NOOP, status::SUCCESS, Vec::new()));
    assert!(peer.out_bytes_max < OUTPUT_BYTES_HIGH + 20_000, "{}", peer.out_bytes_max);
}

/// CVE-2011-4971 of memcached (t/issue_192.t): a body of nearly 4 GiB.
#[test]
fn a_body_that_never_arrives_takes_no_memory() {
    for opcode in [opcode::SET, opcode::ADDQ, opcode::APPEND, 0x1b, opcode::SASL_AUTH] {
        let mut peer = Peer::of(SMALL);
        let extras_bytes = if opcode == opcode::SET || opcode == opcode::ADDQ { 8 } else { 0 };
        let header = Header {
            opcode,
            key_bytes: 1,
            extras_bytes,
            body_bytes: u32::MAX,
            ..Header::default()
        };
        let mut sent = header.bytes(REQUEST_MAGIC).to_vec();
        sent.extend_from_slice(&[b'x'; 3000]);
        assert_eq!(peer.send(&sent), b"", "{opcode:#x}");
        assert!(peer.session.held_bytes() < 100);
        assert_eq!((peer.unused.len(), peer.closed), (0, false));
    }
}

/// CVE-2016-8704, -8705, -8706, CVE-2017-9951 and CVE-2020-10931 of memcached.
#[test]
fn lengths_that_contradict_each_other_end_the_session_with_an_error() {
    for opcode in 0..=0x24 {
        for (key_bytes, extras_bytes, body_bytes) in [(3, 0, 2), (0xffff, 8, 10), (1, 0xff, 5)] {
            let mut peer = Peer::of(SMALL);
            let header =
                Header { opcode, key_bytes, extras_bytes, body_bytes, ..Header::default() };
            let sent = [&header.bytes(REQUEST_MAGIC)[..], &[b'x'; 300]].concat();
            let expected = (opcode, status::UNKNOWN, b"Unknown command".to_vec());
            assert_eq!(replies(&peer.send(&sent)), [expected]);
            assert!(peer.closed);
        }
    }
}

#[test]
fn a_quit_is_answered_and_a_quiet_one_is_not() {
    for (opcode, answers) in [(opcode::QUIT, 1), (opcode::QUITQ, 0)] {
        let mut peer = Peer::of(&[]);
        let sent = [packet(opcode, &[], b"", b""), packet(opcode::NOOP, &[], b"", b"")].concat();
        assert_eq!(replies(&peer.send(&sent)).len(), answers);
        assert!(peer.closed);
    }
}

#[test]
fn each_get_is_a_command_where_commands_are_counted() {
    let peer = Peer::of(&[]);
    let mut session = Session::new(peer.executor.server(), 1, Protocol::Binary);
    let input = packet(opcode::GETQ, &[], b"k", b"").repeat(3);
    let allowance = Allowance::of_commands(2);
    let progress =
        session.receive(&peer.executor, Wait::Block, &input, allowance, &mut Output::default());
    assert_eq!(progress, Progress { consumed: 50, next: Next::Turn });
}

#[test]
fn unsolicited_errors_use_the_dialect_of_the_peer() {
    let mut peer = Peer::of(SMALL);
    peer.send(&packet(opcode::NOOP, &[], b"", b""));
    assert!(matches!(peer.session.unasked(), Frame::Binary(frame) if frame.opcode == opcode::GET));
    let set = binary_set(opcode::SETQ, b"k", b"value");
    peer.send(&set[..set.len() - 1]);
    assert!(matches!(peer.session.unasked(), Frame::Binary(frame) if frame.opcode == opcode::SETQ));
    let mut peer = Peer::of(SMALL);
    peer.says("set k 0 0 5 noreply\r\nval");
    assert_eq!(peer.session.unasked(), Frame::default());
}

#[test]
fn commands_are_counted_as_memcached_counts_them() {
    let mut peer = Peer::of(&[]);
    let sent = [
        binary_set(opcode::SET, b"a", b"1"),
        binary_set(opcode::ADD, b"a", b"1"),
        packet(opcode::GET, &[], b"a", b""),
        packet(opcode::GETQ, &[], b"b", b""),
        packet(opcode::GAT, &[0; 4], b"a", b""),
        packet(opcode::TOUCH, &[0; 4], b"b", b""),
        packet(opcode::DELETE, &[], b"b", b""),
        packet(opcode::DELETE, &[], b"a", b""),
        packet(opcode::FLUSH, &[], b"", b""),
    ];
    peer.send(&sent.concat());
    for (counter, count) in [
        (Counter::CmdSet, 2),
        (Counter::CmdGet, 2),
        (Counter::GetHits, 1),
        (Counter::GetMisses, 1),
        (Counter::CmdTouch, 2),
        (Counter::TouchHits, 1),
        (Counter::TouchMisses, 1),
        (Counter::DeleteHits, 1),
        (Counter::DeleteMisses, 1),
        (Counter::CmdFlush, 1),
    ] {
        assert_eq!(peer.count(counter), count, "{counter:?}");
    }
}

/// The log shows header, extras and key of a request in full, but neither its value nor a password.
/// CVE-2013-0179, -7290 and -7291 of memcached.
#[test]
fn the_log_shows_neither_values_nor_passwords() {
    let store = binary_set(opcode::SET, &[b'k'; 250], b"value");
    let login = packet(opcode::SASL_AUTH, &[], b"PLAIN", b"\0user\0password");
    let long = packet(opcode::SASL_AUTH, &[], &[b'X'; 40], b"\0user\0password");
    for (bytes, heard_bytes) in [(store, 24 + 8 + 250), (login, 24), (long, 24)] {
        let heard = match Parser::new(Dialects::Binary).next(&bytes) {
            Parsed::Command { command, frame, consumed } => {
                words(Some(&command), &frame, &bytes, consumed)
            }
            Parsed::Bad(bad) => words(None, &bad.frame, &bytes, bad.consumed),
            Parsed::NeedMore | Parsed::Skipped { .. } => panic!("all of it is there"),
        };
        assert_eq!(heard.len(), heard_bytes);
    }
    let login = b"set k 0 0 7\r\nfoo bar\r\n";
    let Parsed::Command { command, frame, consumed } = Parser::locked(Dialects::Text).next(login)
    else {
        panic!("a login");
    };
    assert_eq!(words(Some(&command), &frame, login, consumed), b"set k 0 0 7\r");
    let login = b"set k 0 0 3\r\nbar\r\n";
    let Parsed::Bad(bad) = Parser::locked(Dialects::Text).next(login) else { panic!("no login") };
    assert_eq!(words(None, &bad.frame, login, bad.consumed), b"set k 0 0 3\r");
}

/// Generates valid requests, and malformed ones that resemble them.
fn command() -> impl Strategy<Value = Vec<u8>> {
    let key = select(vec![&b"a"[..], b"b", b"c"]);
    let bytes = prop_oneof![0usize..20, 7000usize..9000, select(vec![20_000, 70_000, 300_000])];
    let store =
        (0u8..=0x1a, key.clone(), bytes).prop_map(|(opcode, key, bytes)| {
            match opcode::aloud(opcode) {
                opcode::APPEND | opcode::PREPEND => packet(opcode, &[], key, &value(bytes)),
                _ => binary_set(opcode::SET + opcode % 3, key, &value(bytes)),
            }
        });
    let others =
        (0u8..=0x26, key, 0usize..3, any::<bool>()).prop_map(|(opcode, key, form, odd)| {
            let extras = match opcode::aloud(opcode) {
                opcode::INCREMENT | opcode::DECREMENT => &[0; 20][..],
                opcode::TOUCH | opcode::GAT | opcode::GATK => &[0; 4],
                _ => &[],
            };
            let key = match opcode::aloud(opcode) {
                // Statistics contain times.
                opcode::STAT => &b"sizes"[..],
                opcode::NOOP | opcode::VERSION | opcode::FLUSH | opcode::SASL_LIST => b"",
                _ => key,
            };
            let extras = if form == 0 && odd { &[0; 3] } else { extras };
            packet(opcode, extras, key, b"")
        });
    let large = Just(binary_set(opcode::SET, b"a", &value(2_000_000)));
    prop_oneof![8 => store, 20 => others, 1 => large]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn responses_do_not_depend_on_how_input_is_divided(
        commands in vec(command(), 1..20),
        cuts in vec(any::<Index>(), 0..30),
    ) {
        let shown = |answers: &[u8]| format!("{:?}", replies(answers));
        responses_are_equal_in_parts(&commands.concat(), &cuts, shown)?;
    }

    #[test]
    fn random_bytes_never_break_a_binary_session(bytes in vec(any::<u8>(), 0..2000)) {
        Peer::of(SMALL).send(&[&[REQUEST_MAGIC], &bytes[..]].concat());
    }
}

#[test]
fn the_client_side_and_the_session_understand_each_other() {
    let mut peer = Peer::of(&[]);
    let mut sent = Vec::new();
    let manner = Manner { opaque: 9, ..Manner::default() };
    let head = Store { key: b"k", flags: 3, ..Store::PLAIN };
    request::store(&mut sent, &head, b"value", manner).unwrap();
    let get = Command::Get { key: b"k", with_cas: true, exptime: None };
    request::command(&mut sent, &get, manner).unwrap();
    let answers = peer.send(&sent);
    let ParsedReply::Reply { reply: stored, consumed } = read_reply(&answers) else {
        panic!("stored")
    };
    let ParsedReply::Reply { reply: hit, .. } = read_reply(&answers[consumed..]) else {
        panic!("hit")
    };
    assert_eq!((hit.opaque, hit.flags(), hit.value), (9, Some(3), &b"value"[..]));
    assert!(hit.cas != 0);
    assert!(hit.cas == stored.cas);
}
