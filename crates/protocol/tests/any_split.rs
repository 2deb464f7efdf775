//! However the bytes of a connection are cut into pieces, the parser finds the same commands; and
//! whatever they are, it neither stands still nor takes more than there is.

use larder_protocol::text::{LINE_END, Parser};
use larder_protocol::{Bad, Command, Parsed};
use proptest::collection::vec;
use proptest::prelude::*;

/// What a session sees of a stream, with the values cut out as a session cuts them.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: Vec<String>,
    closed: bool,
}

/// A session that executes nothing. `pieces` arrive one after the other.
fn see<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let mut parser = Parser::default();
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
                Parsed::Command { command, frame, consumed } => {
                    if let Command::Store(head) = command {
                        skip_bytes = (head.value_bytes + LINE_END.len()) as u64;
                    }
                    seen.events.push(format!("{command:?} {frame:?}"));
                    consumed
                }
                Parsed::Bad(Bad { error, consumed, swallow, close, .. }) => {
                    skip_bytes = swallow;
                    seen.closed = close;
                    seen.events.push(format!("{error:?} {swallow}"));
                    consumed
                }
            };
            assert!(0 < used && used <= input.len(), "{used} of {} bytes", input.len());
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

/// Bytes that are likely to mean something: words of the protocol with anything between them.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        100 => prop::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
        12 => vec(any::<u8>(), 0..12),
        1 => (1usize..3000).prop_map(|count| vec![b'x'; count]),
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

proptest! {
    #[test]
    fn any_split_yields_the_same_commands(
        stream in stream(),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        prop_assert_eq!(see(pieces), see([&stream[..]]));
    }

    #[test]
    fn one_byte_at_a_time_yields_the_same_commands(stream in stream()) {
        prop_assert_eq!(see(stream.chunks(1)), see([&stream[..]]));
    }

    #[test]
    fn arbitrary_bytes_are_used_up_step_by_step(stream in vec(any::<u8>(), 0..4096)) {
        see([&stream[..]]);
    }
}
