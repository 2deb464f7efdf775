//! The parser finds the same commands for every way to split a connection's bytes. For any bytes it
//! makes progress and never consumes more than its input.

use larder_protocol::binary::header::{Header, REQUEST_MAGIC};
use larder_protocol::{Bad, Command, Dialects, Parsed, Parser};
use proptest::collection::vec;
use proptest::prelude::*;

/// The results of a session for a stream, with values skipped like in a session.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: Vec<String>,
    closed: bool,
}

/// Runs a session that executes nothing and accepts every login. `pieces` arrive one after the
/// other.
fn see<'a>(mut parser: Parser, pieces: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let mut seen = Seen::default();
    let mut input: Vec<u8> = Vec::new();
    let mut skip_bytes: u64 = 0;
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let skipped = skip_bytes.min(input.len() as u64);
            input.drain(..skipped as usize);
            skip_bytes -= skipped;
            if seen.closed || skip_bytes > 0 {
                break;
            }
            let used = match parser.next(&input) {
                Parsed::NeedMore => break,
                Parsed::Skipped { consumed } => consumed,
                Parsed::Command { command, frame, consumed } => {
                    match command {
                        Command::Store(head) => {
                            skip_bytes = (head.value_bytes + frame.value_end().len()) as u64;
                        }
                        Command::Authenticate { .. } => parser.unlock(),
                        _ => {}
                    }
                    seen.events.push(format!("{command:?} {frame:?}"));
                    consumed
                }
                Parsed::Bad(Bad { error, consumed, swallow, close, frame }) => {
                    skip_bytes = swallow;
                    seen.closed = close;
                    seen.events.push(format!("{error:?} {swallow} {frame:?}"));
                    consumed
                }
            };
            assert!(used > 0, "the parser makes no progress on {} bytes", input.len());
            assert!(used <= input.len(), "{used} of {} bytes consumed", input.len());
            input.drain(..used);
        }
    }
    seen
}

const WORDS: &[&str] = &[
    "get",
    "gets",
    "gat",
    "gats",
    "set",
    "add",
    "replace",
    "append",
    "prepend",
    "cas",
    "delete",
    "incr",
    "decr",
    "touch",
    "flush_all",
    "version",
    "verbosity",
    "stats",
    "quit",
    "shutdown",
    "cache_memlimit",
    "noreply",
    "settings",
    "k",
    "key",
    "0",
    "1",
    "3",
    "-1",
    "4294967295",
    "99999999999999999999",
    "HTTP/1.1",
    "mg",
];

/// Generates bytes that are likely to be meaningful: words of the protocol with random separators.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        100 => prop::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
        12 => vec(any::<u8>(), 0..12),
        1 => (1usize..3000).prop_map(|count| vec![b'x'; count]),
        1 => (1usize..3000).prop_map(|count| b"k ".repeat(count)),
        1 => (1usize..3000).prop_map(|count| vec![b' '; count]),
    ];
    let separator = prop_oneof![
        6 => Just(&b" "[..]),
        1 => Just(&b"   "[..]),
        3 => Just(&b"\r\n"[..]),
        1 => Just(&b"\n"[..]),
    ];
    vec((word, separator), 0..40).prop_map(|parts| {
        parts.into_iter().flat_map(|(word, separator)| [&word[..], separator].concat()).collect()
    })
}

/// Generates binary requests, most of them valid.
fn binary_stream() -> impl Strategy<Value = Vec<u8>> {
    let lengths = prop_oneof![
        6 => Just(None),
        1 => any::<[u8; 4]>().prop_map(Some),
    ];
    let parts = (0u8..=0x26, prop::sample::select(vec![0usize, 0, 4, 8, 20]), 0usize..6, 0usize..9);
    let request = (parts, any::<u32>(), lengths).prop_map(|(parts, opaque, lengths)| {
        let (opcode, extras_bytes, key_bytes, value_bytes) = parts;
        let body_bytes = extras_bytes + key_bytes + value_bytes;
        let [extras, key, body, magic] = lengths.unwrap_or([0, 0, 0, 0]);
        let header = Header {
            opcode,
            extras_bytes: extras_bytes as u8 ^ extras >> 4,
            key_bytes: key_bytes as u16 ^ u16::from(key >> 3),
            body_bytes: body_bytes as u32 ^ u32::from(body >> 2),
            opaque,
            ..Header::default()
        };
        let magic = if magic > 250 { magic } else { REQUEST_MAGIC };
        let mut request = header.bytes(magic).to_vec();
        request.resize(request.len() + body_bytes, b'k');
        request
    });
    vec(request, 0..12).prop_map(|requests| requests.concat())
}

/// Generates a parser for each configuration of dialects and login.
fn parser() -> impl Strategy<Value = Parser> {
    prop::sample::select(vec![
        Parser::default(),
        Parser::new(Dialects::Text),
        Parser::new(Dialects::Binary),
        Parser::locked(Dialects::Text),
        Parser::locked(Dialects::Binary),
    ])
}

fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let login = b"set k 0 0 3\r\na b\r\n".to_vec();
    prop_oneof![
        3 => stream(),
        1 => stream().prop_map(move |stream| [&login[..], &stream].concat()),
        3 => binary_stream(),
    ]
}

proptest! {
    #[test]
    fn any_split_yields_the_same_commands(
        parser in parser(),
        stream in any_stream(),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        prop_assert_eq!(see(parser.clone(), pieces), see(parser, [&stream[..]]));
    }

    #[test]
    fn one_byte_at_a_time_yields_the_same_commands(parser in parser(), stream in any_stream()) {
        prop_assert_eq!(see(parser.clone(), stream.chunks(1)), see(parser, [&stream[..]]));
    }

    #[test]
    fn arbitrary_bytes_are_consumed_step_by_step(
        parser in parser(), stream in vec(any::<u8>(), 0..4096),
    ) {
        see(parser, [&stream[..]]);
    }
}
