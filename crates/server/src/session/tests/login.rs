//! Sessions that must authenticate first.

use larder_protocol::binary::client::{Manner, ParsedReply, read_reply, request};
use larder_protocol::binary::{opcode, status};
use larder_protocol::{Arithmetic, Delete, Dialects};

use super::*;
use crate::server::credentials::Credentials;

/// Returns a server with the user foo, whose password is bar.
fn server(dialects: Dialects) -> Arc<Server> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "foo:bar\n").unwrap();
    let (options, _) = Options::from_map([]).unwrap();
    let mut server = Server::new(options).unwrap();
    server.access.credentials = Some(Credentials::open(file.path().to_owned(), dialects).unwrap());
    Arc::new(server)
}

/// Returns the status of the only response to a command.
fn ask(peer: &mut Peer, command: &Command<'_>) -> u16 {
    let mut sent = Vec::new();
    request::command(&mut sent, command, Manner::default()).unwrap();
    let answer = peer.send(&sent);
    match read_reply(&answer) {
        ParsedReply::Reply { reply, consumed } if consumed == answer.len() => reply.status,
        _ => panic!("{}", answer.escape_ascii()),
    }
}

fn login<'a>(mechanism: &'a [u8], credentials: &'a [u8]) -> Command<'a> {
    Command::Authenticate { mechanism, credentials, is_step: false }
}

const GOOD: &[u8] = b"\0foo\0bar";
const BAD: &[u8] = b"\0foo\0baz";
const SET: Command<'_> = Command::Store(Store { key: b"k", ..Store::PLAIN });

/// Returns all commands of the binary protocol that require authentication.
fn for_insiders() -> Vec<Command<'static>> {
    let key = b"k";
    vec![
        Command::Get { key, with_cas: true, exptime: None },
        Command::Get { key, with_cas: true, exptime: Some(0) },
        Command::Touch { key, exptime: 0 },
        SET,
        Command::Delete(Delete::of(key)),
        Command::Arithmetic(Arithmetic::of(key, larder_item::Direction::Increment, 1)),
        Command::FlushAll { exptime: 0 },
        Command::Stats(larder_protocol::StatsSection::General),
        Command::NoOp,
        Command::Quit,
    ]
}

#[test]
fn only_exempt_commands_are_executed_before_a_login() {
    let server = server(Dialects::Binary);
    for command in for_insiders() {
        let mut peer = Peer::at(Arc::clone(&server));
        assert_eq!(ask(&mut peer, &command), status::NOT_ALLOWED, "{command:?}");
        assert!(peer.closed, "{command:?}");
    }
    let mut peer = Peer::at(server);
    assert_eq!(ask(&mut peer, &Command::Version), status::SUCCESS);
    assert_eq!(ask(&mut peer, &Command::Mechanisms), status::SUCCESS);
    assert!(!peer.closed);
}

/// CVE-2013-7239 of memcached.
#[test]
fn only_exempt_commands_are_executed_after_a_failed_login() {
    let server = server(Dialects::Binary);
    for command in for_insiders() {
        let mut peer = Peer::at(Arc::clone(&server));
        assert_eq!(ask(&mut peer, &login(b"PLAIN", BAD)), status::NOT_ALLOWED);
        assert!(!peer.closed, "it may try again");
        assert_eq!(ask(&mut peer, &command), status::NOT_ALLOWED, "{command:?}");
        assert!(peer.closed, "{command:?}");
    }
}

#[test]
fn a_login_opens_everything_and_a_failed_one_closes_it_again() {
    let mut peer = Peer::at(server(Dialects::Binary));
    assert_eq!(ask(&mut peer, &login(b"PLAIN", BAD)), status::NOT_ALLOWED);
    assert_eq!(ask(&mut peer, &login(b"PLAIN", GOOD)), status::SUCCESS);
    assert_eq!(ask(&mut peer, &SET), status::SUCCESS);
    assert_eq!(ask(&mut peer, &login(b"PLAIN", BAD)), status::NOT_ALLOWED);
    assert_eq!(ask(&mut peer, &SET), status::NOT_ALLOWED);
    assert_eq!((peer.count(Counter::AuthCmds), peer.count(Counter::AuthErrors)), (3, 2));
}

#[test]
fn only_plain_with_its_three_parts_is_a_login() {
    let server = server(Dialects::Binary);
    for (mechanism, credentials) in [
        (&b"CRAM-MD5"[..], GOOD),
        (b"plain", GOOD),
        (b"PLAIN", b""),
        (b"PLAIN", b"foo bar"),
        (b"PLAIN", b"foo\0bar"),
        (b"PLAIN", b"\0foo\0bar\0"),
        (b"PLAIN", b"root\0foo\0bar"),
        (b"PLAIN", b"\0\0"),
    ] {
        let mut peer = Peer::at(Arc::clone(&server));
        let answer = ask(&mut peer, &login(mechanism, credentials));
        assert_eq!(answer, status::NOT_ALLOWED, "{}", credentials.escape_ascii());
    }
    let mut peer = Peer::at(Arc::clone(&server));
    let step = Command::Authenticate { mechanism: b"PLAIN", credentials: GOOD, is_step: true };
    assert_eq!(ask(&mut peer, &step), status::NOT_ALLOWED);
    assert_eq!(ask(&mut peer, &login(&[b'X'; 40], GOOD)), status::INVALID);
    assert!(!peer.closed);
    // The last failure was not counted.
    assert_eq!((peer.count(Counter::AuthCmds), peer.count(Counter::AuthErrors)), (9, 9));
}

#[test]
fn another_protocol_does_not_bypass_authentication() {
    let mut peer = Peer::at(server(Dialects::Binary));
    assert_eq!(peer.says("get k\r\n"), "");
    assert!(peer.closed);
    let mut peer = Peer::at(server(Dialects::Text));
    let mut get = Vec::new();
    let command = Command::Get { key: b"\r\n", with_cas: true, exptime: None };
    request::command(&mut get, &command, Manner::default()).unwrap();
    assert_eq!(peer.send(&get), b"CLIENT_ERROR unauthenticated\r\n");
    let mut peer = Peer::of(&[]);
    assert_eq!(ask(&mut peer, &login(b"PLAIN", GOOD)), status::UNKNOWN);
    assert_eq!(ask(&mut peer, &Command::Mechanisms), status::UNKNOWN);
    assert_eq!(peer.count(Counter::AuthCmds), 0);
}

#[test]
fn a_text_login_may_fail_and_be_tried_again() {
    let mut peer = Peer::at(server(Dialects::Text));
    assert_eq!(
        peer.says(
            "get k\r\nset k 0 0 7\r\nfoo baz\r\nversion\r\nset k 0 0 7\r\nfoo bar\r\n\
             set k 0 0 7\r\nfoo bar\r\nget k\r\n"
        ),
        "CLIENT_ERROR unauthenticated\r\nCLIENT_ERROR authentication failure\r\n\
         CLIENT_ERROR unauthenticated\r\nSTORED\r\nSTORED\r\nVALUE k 0 7\r\nfoo bar\r\nEND\r\n"
    );
    assert_eq!((peer.count(Counter::AuthCmds), peer.count(Counter::AuthErrors)), (2, 1));
}

#[test]
fn a_login_holds_for_its_session_only() {
    let server = server(Dialects::Binary);
    let mut inside = Peer::at(Arc::clone(&server));
    assert_eq!(ask(&mut inside, &login(b"PLAIN", GOOD)), status::SUCCESS);
    let mut outside = Peer::at(server);
    assert_eq!(ask(&mut outside, &SET), status::NOT_ALLOWED);
    assert_eq!(ask(&mut inside, &SET), status::SUCCESS);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    /// Only valid credentials authenticate a session, regardless of other input.
    #[test]
    fn random_bytes_never_authenticate_a_session(opcodes in vec(0u8..=0x26, 0..20), noise in vec(any::<u8>(), 0..50)) {
        let mut sent = Vec::new();
        for opcode in opcodes {
            let header = larder_protocol::binary::Header {
                opcode,
                key_bytes: 5,
                body_bytes: 5 + BAD.len() as u32,
                ..Default::default()
            };
            sent.extend_from_slice(&header.bytes(larder_protocol::binary::REQUEST_MAGIC));
            sent.extend_from_slice(b"PLAIN");
            sent.extend_from_slice(BAD);
        }
        sent.extend_from_slice(&noise);
        let mut peer = Peer::at(server(Dialects::Binary));
        peer.send(&sent);
        if !peer.closed {
            let mut get = Vec::new();
            let command = Command::Get { key: b"k", with_cas: true, exptime: None };
            request::command(&mut get, &command, Manner::default()).unwrap();
            let answers = peer.send(&get.repeat(200));
            prop_assert!(!answers.windows(2).any(|two| two == [0x81, opcode::GET].as_slice())
                || peer.closed);
        }
        prop_assert_eq!(peer.count(Counter::CmdGet), 0);
    }
}
