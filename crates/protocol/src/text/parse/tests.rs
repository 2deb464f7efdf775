//! The accepted forms and the refusals of each command, and where the next command begins.

use super::*;
use crate::text::{SHORT_LINE_BYTES_MAX, VALUE_BYTES_MAX};
use crate::{Arithmetic, Delete, Frame, Refusal, Response, StatsSection, Store};

const KEY_251: &str = concat!(
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234",
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234",
    "012345678901234567890123456789012345678901234567890123456789012345678901234567890",
);

/// Returns the only command of a line, and true if it is quiet. The command must consume the whole
/// line.
fn command(line: &str) -> (Command<'_>, bool) {
    match Parser::default().next(line.as_bytes()) {
        Parsed::Command { command, frame: Frame::Text { quiet }, consumed } => {
            assert_eq!(consumed, line.len(), "{line:?}");
            (command, quiet)
        }
        other => panic!("{line:?}: {other:?}"),
    }
}

/// Returns the response to a refused line and the bytes skipped after it. The line must be
/// consumed, and the connection must stay open.
fn refused(line: &str) -> (Option<Response>, u64) {
    match Parser::default().next(line.as_bytes()) {
        Parsed::Bad(Bad { error, consumed, swallow, close: false, .. }) => {
            assert_eq!(consumed, line.len(), "{line:?}");
            (error, swallow)
        }
        other => panic!("{line:?}: {other:?}"),
    }
}

fn refusal(error: ClientError) -> (Option<Response>, u64) {
    (Some(Response::ClientError(error)), 0)
}

/// Returns all keys of the first line of `input` as text, and the length of the line.
fn keys(input: &[u8]) -> (Vec<String>, usize) {
    let mut parser = Parser::default();
    let (mut keys, mut position) = (Vec::new(), 0);
    loop {
        match parser.next(&input[position..]) {
            Parsed::Command { command, consumed, .. } => {
                position += consumed;
                match command {
                    Command::Get { key, .. } => {
                        keys.push(String::from_utf8(key.to_vec()).unwrap());
                    }
                    Command::EndOfKeys => return (keys, position),
                    other => panic!("{other:?}"),
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn get_yields_its_keys_one_by_one_and_then_the_end() {
    assert_eq!(keys(b"get a\r\nget b\r\n"), (vec!["a".into()], 7));
    assert_eq!(keys(b"get  a b   c \n"), (vec!["a".into(), "b".into(), "c".into()], 14));
    assert_eq!(keys(b"gets noreply\r\n"), (vec!["noreply".into()], 14));
    assert_eq!(keys(b"gat 10 a b\r\n"), (vec!["a".into(), "b".into()], 12));
}

#[test]
fn get_says_whether_cas_and_a_new_exptime_are_wanted() {
    for (line, with_cas, exptime) in [
        (&b"get k\r\n"[..], false, None),
        (b"gets k\r\n", true, None),
        (b"gat 0 k\r\n", false, Some(0)),
        (b"gats  -1 k\r\n", true, Some(-1)),
        (b"gat 4294967295 k\r\n", false, Some(-1)),
    ] {
        let parsed = Parser::default().next(line);
        let Parsed::Command { command, frame, .. } = parsed else { panic!("{parsed:?}") };
        assert_eq!(command, Command::Get { key: b"k", with_cas, exptime });
        assert_eq!(frame, Frame::default());
    }
}

#[test]
fn get_without_keys_or_with_one_that_is_too_long_is_refused_as_a_whole() {
    for line in ["get\r\n", "get \r\n", "gets\r\n", "gat\r\n", "gat 10\r\n", "gat x\r\n"] {
        assert_eq!(refused(line), refusal(ClientError::BadFormat), "{line:?}");
    }
    let with_long_key = format!("get a {KEY_251} b\r\n");
    assert_eq!(refused(&with_long_key), refusal(ClientError::BadFormat));
    assert_eq!(keys(format!("get a {}\r\n", &KEY_251[1..]).as_bytes()).0.len(), 2);
    assert_eq!(refused("gat x k\r\n"), refusal(ClientError::BadExptime));
}

#[test]
fn get_takes_more_keys_than_the_token_limit() {
    let line = format!("gats 5 {}\r\n", "key ".repeat(100));
    assert_eq!(keys(line.as_bytes()).0.len(), 100);
}

#[test]
fn a_line_may_end_in_a_bare_newline_and_loses_one_carriage_return_only() {
    assert_eq!(keys(b"get k\n").0, ["k"]);
    assert_eq!(keys(b"get k\r\r\n").0, ["k\r"]);
    assert_eq!(command("version\n").0, Command::Version);
}

#[test]
fn a_line_shorter_than_four_bytes_has_a_bad_format() {
    for line in ["\n", "\r\n", "a\r\n", "ab\n", " \r\n"] {
        assert_eq!(refused(line), refusal(ClientError::BadFormat), "{line:?}");
    }
    assert_eq!(refused("ab\r\n"), refusal(ClientError::UnknownCommand));
}

#[test]
fn names_are_lower_case_and_begin_their_line() {
    for line in [" get k\r\n", "GET k\r\n", "get\tk\r\n", "getk\r\n", "\u{80}ab\r\n"] {
        assert_eq!(refused(line), refusal(ClientError::UnknownCommand), "{line:?}");
    }
}

#[test]
fn an_unknown_command_with_noreply_gets_no_response() {
    assert_eq!(refused("fetch k noreply\r\n"), (None, 0));
    assert_eq!(refused("fetch k noreplY\r\n"), refusal(ClientError::UnknownCommand));
}

#[test]
fn a_web_browser_is_disconnected_without_a_response() {
    let line = b"GET / HTTP/1.1\r\n";
    let frame = Frame::default();
    let bad = Bad { error: None, frame, consumed: line.len(), swallow: 0, close: true };
    assert_eq!(Parser::default().next(line), Parsed::Bad(bad));
    assert_eq!(keys(b"get / HTTP/1.1\r\n").0, ["/", "HTTP/1.1"]);
}

#[test]
fn stores_name_a_mode_and_announce_a_value() {
    let head = Store { key: b"k", flags: 7, exptime: -1, value_bytes: 3, ..Store::PLAIN };
    for (name, mode) in [
        ("set", StoreMode::Set),
        ("add", StoreMode::Add),
        ("replace", StoreMode::Replace),
        ("append", StoreMode::Append),
        ("prepend", StoreMode::Prepend),
    ] {
        let line = format!("{name} k 7 -1 3\r\n");
        assert_eq!(command(&line), (Command::Store(Store { mode, ..head }), false));
    }
    let compared = Store { cas: Some(99), ..head };
    assert_eq!(command("cas k 7 -1 3 99 noreply\r\n"), (Command::Store(compared), true));
    assert_eq!(command("set  k   7 -1 3 \n"), (Command::Store(head), false));
}

#[test]
fn noreply_is_the_exact_last_word_and_other_words_are_ignored() {
    assert!(command("set k 0 0 1 noreply\r\n").1);
    assert!(command("set k 0 0 1 more noreply \r\n").1);
    assert!(!command("set k 0 0 1 noreplY\r\n").1);
    assert!(!command("set k 0 0 1 noreply more\r\n").1);
    let indexed = format!("set k 0 0 1{} noreply", " x".repeat(17));
    assert!(command(&format!("{indexed} more\r\n")).1);
    assert!(!command(&format!("set k 0 0 1{} noreply\r\n", " x".repeat(18))).1);
}

#[test]
fn flags_and_exptime_of_a_store_are_cut_to_32_bits() {
    let (Command::Store(head), _) = command("set k 4294967297 4294967295 1\r\n") else {
        panic!("a store");
    };
    assert_eq!((head.flags, head.exptime), (1, -1));
}

#[test]
fn a_store_with_an_invalid_length_is_refused_even_with_noreply_and_skips_nothing() {
    for length in ["-1", "abc", "", "2147483646", "4294967297", "18446744073709551614", "1.5"] {
        let line = format!("set k 0 0 {length} noreply\r\n");
        assert_eq!(refused(&line), refusal(ClientError::BadFormat), "{line:?}");
    }
    assert_eq!(refused("set k 0 0\r\n"), refusal(ClientError::BadFormat));
    assert_eq!(refused("set k 0 0 noreply\r\n"), refusal(ClientError::BadFormat));
    let (Command::Store(head), _) = command("set k 0 0 2147483645\r\n") else { panic!("a store") };
    assert_eq!(head.value_bytes, VALUE_BYTES_MAX);
}

#[test]
fn a_store_refused_for_another_reason_skips_its_value() {
    let swallowed = (Some(Response::ClientError(ClientError::BadFormat)), 5);
    let long_key = format!("set {KEY_251} 0 0 3\r\n");
    for line in
        ["set k x 0 3\r\n", "set k -1 0 3\r\n", "set k 0 x 3\r\n", "cas k 0 0 3\r\n", &long_key]
    {
        assert_eq!(refused(line), swallowed, "{line:?}");
        let quiet = line.replace("\r\n", " noreply\r\n");
        assert_eq!(refused(&quiet), (None, 5), "{quiet:?}");
    }
    assert_eq!(refused("cas k 0 0 3 x\r\n"), swallowed);
}

#[test]
fn delete_takes_a_key_and_refuses_a_delay_and_several_words() {
    let delete = Command::Delete(Delete::of(b"k"));
    assert_eq!(command("delete k\r\n"), (delete, false));
    assert_eq!(command("delete k 0\r\n"), (delete, false));
    assert_eq!(command("delete k 0 noreply\r\n"), (delete, true));
    assert_eq!(command("delete k noreplY\r\n"), (delete, false));
    assert_eq!(command("delete k noreplY noreply\r\n"), (delete, true));
    assert_eq!(refused("delete k b c d e\r\n"), refusal(ClientError::BadDeleteUsage));
    assert_eq!(refused("delete k 0 b noreply\r\n"), (None, 0));
    assert_eq!(command("delete noreply\r\n"), (Command::Delete(Delete::of(b"noreply")), true));
    assert_eq!(refused("delete k 10\r\n"), refusal(ClientError::BadDeleteUsage));
    assert_eq!(refused("delete k -10\r\n"), refusal(ClientError::BadDeleteUsage));
    assert_eq!(refused("delete k 10 noreply\r\n"), (None, 0));
    assert_eq!(refused("delete\r\n"), refusal(ClientError::BadFormat));
    assert_eq!(refused(&format!("delete {KEY_251}\r\n")), refusal(ClientError::BadFormat));
}

#[test]
fn arithmetic_takes_a_key_and_an_unsigned_delta() {
    let increment = Command::Arithmetic(Arithmetic::of(b"k", Direction::Increment, u64::MAX));
    assert_eq!(command("incr k 18446744073709551615\r\n"), (increment, false));
    let decrement = Command::Arithmetic(Arithmetic::of(b"k", Direction::Decrement, 1));
    assert_eq!(command("decr k 1 noreply\r\n"), (decrement, true));
    assert_eq!(refused("incr k -1\r\n"), refusal(ClientError::BadDelta));
    assert_eq!(refused("incr k x noreply\r\n"), (None, 0));
    assert_eq!(refused("incr k\r\n"), refusal(ClientError::BadFormat));
    assert_eq!(refused(&format!("decr {KEY_251} 1\r\n")), refusal(ClientError::BadFormat));
}

#[test]
fn touch_takes_a_negative_exptime_as_routers_write_it() {
    let touch = Command::Touch { key: b"k", exptime: -1 };
    assert_eq!(command("touch k -1\r\n"), (touch, false));
    assert_eq!(command("touch k 4294967295 noreply\r\n"), (touch, true));
    assert_eq!(refused("touch k 4294967296\r\n"), refusal(ClientError::BadExptime));
    assert_eq!(refused("touch k\r\n"), refusal(ClientError::BadFormat));
    assert_eq!(refused("touch k noreply\r\n"), (None, 0));
}

#[test]
fn a_prefix_to_delete_is_one_word_with_at_most_a_flag() {
    let asked = |prefix: &'static [u8], base64| Command::DeletePrefix { prefix, base64 };
    assert_eq!(command("delete_prefix user:7:\r\n"), (asked(b"user:7:", false), false));
    assert_eq!(command("delete_prefix  AP8= b \r\n"), (asked(b"AP8=", true), false));
    assert_eq!(command("delete_prefix noreply\r\n"), (asked(b"noreply", false), false));
    assert_eq!(refused("delete_prefix\r\n"), refusal(Refusal::NoPrefix.into()));
    assert_eq!(refused("delete_prefix  \r\n"), refusal(Refusal::NoPrefix.into()));
    for line in ["delete_prefix a noreply\r\n", "delete_prefix a b b\r\n", "delete_prefix a B\r\n"]
    {
        assert_eq!(refused(line), refusal(ClientError::BadFormat), "{line:?}");
    }
    assert_eq!(command("stats delete_prefix\r\n").0, Command::Stats(StatsSection::DeletePrefix));
}

#[test]
fn flush_all_may_have_a_delay() {
    assert_eq!(command("flush_all\r\n"), (Command::FlushAll { exptime: 0 }, false));
    assert_eq!(command("flush_all noreply\r\n"), (Command::FlushAll { exptime: 0 }, true));
    assert_eq!(command("flush_all 10 noreply\r\n"), (Command::FlushAll { exptime: 10 }, true));
    assert_eq!(command("flush_all -10\r\n"), (Command::FlushAll { exptime: -10 }, false));
    assert_eq!(refused("flush_all soon\r\n"), refusal(ClientError::BadExptime));
    assert_eq!(refused("flush_all noreply 10\r\n"), refusal(ClientError::BadExptime));
}

#[test]
fn version_and_quit_ignore_what_follows() {
    assert_eq!(command("version noreply\r\n"), (Command::Version, false));
    assert_eq!(command("quit now\r\n"), (Command::Quit, false));
}

#[test]
fn verbosity_takes_a_level() {
    assert_eq!(command("verbosity 9 noreply\r\n"), (Command::Verbosity { level: 9 }, true));
    assert_eq!(refused("verbosity\r\n"), refusal(ClientError::BadFormat));
    assert_eq!(refused("verbosity -1\r\n"), refusal(ClientError::BadFormat));
    assert_eq!(refused("verbosity noreply\r\n"), (None, 0));
}

#[test]
fn some_sections_of_stats_may_be_abbreviated() {
    for (line, section) in [
        ("stats\r\n", StatsSection::General),
        ("stats items\r\n", StatsSection::Items),
        ("stats slabs x\r\n", StatsSection::Slabs),
        ("stats sizes\r\n", StatsSection::Sizes),
        ("stats larder\r\n", StatsSection::Larder),
        ("stats hotkeys\r\n", StatsSection::HotKeys),
        ("stats origins\r\n", StatsSection::Origins),
        ("stats users\r\n", StatsSection::Users),
        ("stats slow\r\n", StatsSection::Slow),
        ("stats prefixes\r\n", StatsSection::Prefixes),
        ("stats conns\r\n", StatsSection::Connections),
        ("stats co\r\n", StatsSection::Connections),
        ("stats s\r\n", StatsSection::Settings),
        ("stats settings\r\n", StatsSection::Settings),
        ("stats r\r\n", StatsSection::Reset),
    ] {
        assert_eq!(command(line), (Command::Stats(section), false), "{line:?}");
    }
    for word in ["i", "si", "l", "connss", "settingss", "noreply", "maps", "h"] {
        assert_eq!(refused(&format!("stats {word}\r\n")), refusal(ClientError::UnknownCommand));
    }
}

#[test]
fn a_dump_names_a_class_below_64_and_a_number_of_items() {
    for line in ["stats cachedump 1 0\r\n", "stats c 1 0\r\n"] {
        let section = StatsSection::CacheDump { class: 1, items_max: 0 };
        assert_eq!(command(line), (Command::Stats(section), false), "{line:?}");
    }
    assert_eq!(refused("stats cachedump\r\n"), refusal(ClientError::BadDump));
    assert_eq!(refused("stats cachedump 1\r\n"), refusal(ClientError::BadDump));
    assert_eq!(refused("stats cachedump x 1\r\n"), refusal(ClientError::BadFormat));
    assert_eq!(refused("stats cachedump 1 -1\r\n"), refusal(ClientError::BadFormat));
    assert_eq!(refused("stats cachedump 64 0\r\n"), refusal(ClientError::NoSuchClass));
}

#[test]
fn graceful_may_be_abbreviated() {
    assert_eq!(command("shutdown\r\n").0, Command::Shutdown { graceful: false });
    assert_eq!(command("shutdown g\r\n").0, Command::Shutdown { graceful: true });
    assert_eq!(command("shutdown graceful\r\n").0, Command::Shutdown { graceful: true });
    assert_eq!(refused("shutdown now\r\n"), refusal(ClientError::BadShutdownMode));
    assert_eq!(refused("shutdown graceful x\r\n"), refusal(ClientError::BadShutdownMode));
    assert_eq!(refused("shutdown noreply\r\n"), (None, 0));
}

#[test]
fn a_memory_limit_that_is_tiny_or_in_bytes_is_refused() {
    assert_eq!(command("cache_memlimit 8\r\n").0, Command::MemoryLimit { mebibytes: 8 });
    assert_eq!(refused("cache_memlimit 7\r\n"), refusal(ClientError::MemoryLimitTooSmall));
    assert_eq!(refused("cache_memlimit 1000000001\r\n"), refusal(ClientError::MemoryLimitInBytes));
    assert_eq!(refused("cache_memlimit\r\n"), refusal(ClientError::UnknownCommand));
    assert_eq!(refused("cache_memlimit 64m noreply\r\n"), (None, 0));
}

#[test]
fn a_long_line_ends_the_connection_unless_it_names_keys() {
    let closed = |input: &[u8]| match Parser::default().next(input) {
        Parsed::Bad(Bad { error, consumed, swallow: 0, close: true, .. }) => {
            assert_eq!(consumed, input.len());
            Some(error)
        }
        _ => None,
    };
    let long = [b'x'; SHORT_LINE_BYTES_MAX + 1];
    assert_eq!(closed(&long[1..]), None);
    assert_eq!(closed(&long), Some(None));
    assert_eq!(closed(&[&long[..], b"\r\n"].concat()), Some(None));
    for name in [&b"get "[..], b"gets ", b"gat ", b"gats "] {
        assert_eq!(closed(&[name, &long].concat()), None);
    }
    let hidden_by = |spaces: usize| [&b" ".repeat(spaces)[..], b"get ", &long].concat();
    assert_eq!(closed(&hidden_by(100)), None);
    assert_eq!(closed(&hidden_by(101)), Some(None));
}

/// Returns the parser's results for a stream that arrives in pieces of `step` bytes, and the length
/// of the longest part that the caller had to buffer.
fn streamed(input: &[u8], step: usize) -> (Vec<String>, usize) {
    let (mut parser, mut seen, mut start, mut kept_bytes_max) = (Parser::default(), vec![], 0, 0);
    for end in (0..=input.len()).step_by(step).chain([input.len()]) {
        loop {
            let bytes = match parser.next(&input[start..end]) {
                Parsed::NeedMore => break,
                Parsed::Skipped { consumed } => consumed,
                Parsed::Command { command, consumed, .. } => {
                    seen.push(match command {
                        Command::Get { key, with_cas, exptime } => {
                            format!("{} {with_cas} {exptime:?}", key.escape_ascii())
                        }
                        command => format!("{command:?}"),
                    });
                    consumed
                }
                Parsed::Bad(bad) => {
                    seen.push(format!("{:?} {}", bad.error, bad.close));
                    bad.consumed
                }
            };
            start += bytes;
        }
        kept_bytes_max = kept_bytes_max.max(end - start);
    }
    (seen, kept_bytes_max)
}

#[test]
fn keys_of_a_long_line_are_yielded_as_they_arrive_and_never_kept() {
    let keys = [b"k".repeat(250), b"a\r".to_vec()].concat();
    let keys = [&b"k "[..], &keys[..250], b"   ", &keys[250..], b" "].concat().repeat(2000);
    for (name, flags) in [("get", "false None"), ("gats 10 ", "true Some(10)")] {
        let line = [name.as_bytes(), b" ", &keys, b"last\r\nmn\r\n"].concat();
        let (whole, _) = streamed(&line, line.len());
        assert_eq!(whole.len(), 3 * 2000 + 3);
        assert_eq!(whole[0], format!("k {flags}"));
        assert_eq!(whole[2], format!("a\\r {flags}"));
        assert_eq!(whole[whole.len() - 3..], [&format!("last {flags}"), "EndOfKeys", "NoOp"]);
        for step in [1, 7, 1000] {
            let (seen, kept_bytes_max) = streamed(&line, step);
            assert_eq!(seen, whole, "{step}");
            assert!(kept_bytes_max <= SHORT_LINE_BYTES_MAX, "{kept_bytes_max} bytes are kept");
        }
    }
}

#[test]
fn an_error_in_a_long_line_stands_in_the_place_of_its_end() {
    let (padding, long_key) = (" ".repeat(SHORT_LINE_BYTES_MAX), "x".repeat(251));
    let refusal = |error: ClientError| format!("{:?} false", refusal(error).0);
    let bad_format = refusal(ClientError::BadFormat);
    for (line, expected) in [
        (format!("get a{padding}{long_key} b"), vec!["a false None".into(), bad_format.clone()]),
        (format!("get a{padding}{long_key}"), vec!["a false None".into(), bad_format.clone()]),
        (format!("get {padding}"), vec![bad_format.clone()]),
        (format!("gat {padding}1"), vec![bad_format.clone()]),
        (format!("gat {padding}"), vec![bad_format]),
        (format!("gats{padding}x a b"), vec![refusal(ClientError::BadExptime)]),
        (format!("gat {padding}{long_key} a b"), vec![refusal(ClientError::BadExptime)]),
        (format!(" get a{padding}b"), vec![refusal(ClientError::UnknownCommand)]),
    ] {
        let expected = [expected, vec!["NoOp".into()]].concat();
        let line = format!("{line}\r\nmn\r\n");
        for step in [line.len(), 1, 13] {
            assert_eq!(streamed(line.as_bytes(), step).0, expected, "{} by {step}", &line[..20]);
        }
    }
}

#[test]
fn an_incomplete_line_is_never_searched_twice() {
    let mut parser = Parser::default();
    let input = b"get some_key\r\n";
    for cut in 0..input.len() {
        assert_eq!(parser.next(&input[..cut]), Parsed::NeedMore, "{cut}");
        assert_eq!(parser.scanned_bytes, cut);
    }
    assert!(matches!(parser.next(input), Parsed::Command { consumed: 12, .. }));
    assert_eq!(parser.scanned_bytes, 0);
}
