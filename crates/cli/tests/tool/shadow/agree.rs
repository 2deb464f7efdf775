//! Two servers that agree: every dialect, and differences that have an explanation.

use std::io::{Read, Write};
use std::thread::sleep;
use std::time::Duration;

use larder_protocol::binary::header::{HEADER_BYTES, Header, REQUEST_MAGIC};
use larder_protocol::binary::opcode;

use larder_testkit::Stream;

use super::{Shadow, larderd, memcached};

/// Requests with their responses, and the number of requests that they count as.
const TEXT: &[(&str, &str, u64)] = &[
    ("set k 5 0 3\r\nabc\r\n", "STORED\r\n", 1),
    ("get k\r\n", "VALUE k 5 3\r\nabc\r\nEND\r\n", 1),
    ("get a k b k\r\n", "VALUE k 5 3\r\nabc\r\nVALUE k 5 3\r\nabc\r\nEND\r\n", 4),
    ("add k 0 0 1\r\nx\r\n", "NOT_STORED\r\n", 1),
    ("append k 0 0 2\r\nde\r\n", "STORED\r\n", 1),
    ("replace none 0 0 1\r\nx\r\n", "NOT_STORED\r\n", 1),
    ("set n 0 0 2 noreply\r\n10\r\nincr n 5\r\n", "15\r\n", 2),
    ("decr n 20\r\n", "0\r\n", 1),
    ("incr k 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n", 1),
    ("touch k 100\r\n", "TOUCHED\r\n", 1),
    ("gat 0 k\r\n", "VALUE k 5 5\r\nabcde\r\nEND\r\n", 1),
    (
        "set k 0 0 3\r\nabcde\r\n",
        "CLIENT_ERROR bad data chunk\r\nCLIENT_ERROR bad command line format\r\n",
        2,
    ),
    ("no such command\r\n", "ERROR\r\n", 1),
    ("delete k\r\n", "DELETED\r\n", 1),
    ("delete k noreply\r\nget k n\r\n", "VALUE n 0 2\r\n0 \r\nEND\r\n", 3),
    ("flush_all\r\n", "OK\r\n", 1),
    ("get n\r\n", "END\r\n", 1),
];

const META: &[(&str, &str, u64)] = &[
    ("ms m 3 F7 T100\r\nabc\r\n", "HD\r\n", 1),
    ("mg m v f t s k Oq\r\n", "VA 3 f7 t100 s3 km Oq\r\nabc\r\n", 1),
    ("mg none v\r\n", "EN\r\n", 1),
    ("ms m 1 q\r\nx\r\nmg none k q\r\nmg m k v q\r\nmn\r\n", "VA 1 km\r\nx\r\nMN\r\n", 4),
    ("ms bg== 1 b\r\n5\r\nma n D2\r\n", "HD\r\nHD\r\n", 2),
    ("ma n v\r\n", "VA 1\r\n8\r\n", 1),
    ("md m q\r\nmd m\r\n", "NF\r\n", 2),
    ("mn\r\n", "MN\r\n", 1),
];

#[test]
fn two_servers_that_agree_have_no_differences_in_text_and_meta() {
    let (live, candidate) = (larderd(&[]), larderd(&[]));
    let shadow = Shadow::start(live.address(), candidate.address(), &[]);
    let mut client = shadow.connect();
    let mut requests = 0;
    for (request, answer, count) in TEXT.iter().chain(META) {
        let found = client.ask(request.as_bytes(), answer.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&found), *answer, "{request}");
        requests += count;
    }
    // The same bytes again, pipelined and in pieces of three bytes.
    let all: Vec<u8> = TEXT.iter().chain(META).flat_map(|(request, ..)| request.bytes()).collect();
    for piece in all.chunks(3) {
        client.write_all(piece).unwrap();
    }
    client.ask(b"mn\r\n", b"MN\r\nMN\r\n").unwrap();
    drop(client);
    sleep(Duration::from_millis(200));
    shadow.stop().agrees(requests * 2 + 1, &[]);
    // The candidate has the items of the live server.
    for server in [&live, &candidate] {
        let mut direct = server.connect().unwrap();
        assert_eq!(direct.ask(b"get n\r\n", b"END\r\n").unwrap(), b"VALUE n 0 1\r\n8\r\nEND\r\n");
    }
}

/// Returns a binary request.
fn binary(code: u8, opaque: u32, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let header = Header {
        opcode: code,
        key_bytes: key.len() as u16,
        extras_bytes: extras.len() as u8,
        body_bytes: (extras.len() + key.len() + value.len()) as u32,
        opaque,
        cas,
        ..Header::default()
    };
    [&header.bytes(REQUEST_MAGIC), extras, key, value].concat()
}

/// Reads binary responses up to one with this opaque. Returns their statuses and tokens.
fn answers(client: &mut impl Read, last: u32) -> Vec<(u32, u16, u64)> {
    let mut found = Vec::new();
    loop {
        let mut head = [0; HEADER_BYTES];
        client.read_exact(&mut head).unwrap();
        let header = Header::read(&head);
        client.read_exact(&mut vec![0; header.body_bytes as usize]).unwrap();
        found.push((header.opaque, header.status, header.cas));
        if header.opaque == last {
            return found;
        }
    }
}

#[test]
fn binary_requests_are_compared_also_quiet_ones_and_with_tokens() {
    let (live, candidate) = (larderd(&[]), memcached(&[]));
    // The servers number their items differently.
    for _ in 0..3 {
        live.connect().unwrap().ask(b"set other 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
    }
    let shadow = Shadow::start(live.address(), candidate.address(), &[]);
    let mut client = shadow.connect();
    let extras = [0, 0, 0, 9, 0, 0, 0, 0];
    let mut pipeline = binary(opcode::SETQ, 1, &extras, b"k", b"abc", 0);
    pipeline.extend(binary(opcode::GETKQ, 2, b"", b"none", b"", 0));
    pipeline.extend(binary(opcode::GETQ, 3, b"", b"k", b"", 0));
    pipeline.extend(binary(opcode::ADDQ, 4, &extras, b"k", b"abc", 0));
    pipeline.extend(binary(opcode::INCREMENT, 5, &[0; 20], b"n", b"", 0));
    pipeline.extend(binary(opcode::GET, 6, b"", b"k", b"", 0));
    pipeline.extend(binary(opcode::VERSION, 7, b"", b"", b"", 0));
    pipeline.extend(binary(opcode::STAT, 8, b"", b"", b"", 0));
    pipeline.extend(binary(opcode::NOOP, 9, b"", b"", b"", 0));
    client.write_all(&pipeline).unwrap();
    let found = answers(&mut client, 9);
    let of = |opaque| found.iter().find(|(found, ..)| *found == opaque).copied();
    assert_eq!(of(2), None, "a quiet miss");
    assert_eq!(of(4).map(|(_, status, _)| status), Some(2), "exists: {found:?}");
    let token = of(6).unwrap().2;
    client.write_all(&binary(opcode::SET, 10, &extras, b"k", b"new", token)).unwrap();
    client.write_all(&binary(opcode::GET, 11, b"", b"k", b"", 0)).unwrap();
    let found = answers(&mut client, 11);
    assert_eq!((found[0].1, found[1].1), (0, 0), "the token of the live server holds");
    drop(client);
    sleep(Duration::from_millis(200));
    shadow.stop().agrees(11, &[("volatile", 2)]);
    let mut direct = candidate.connect().unwrap();
    assert_eq!(direct.ask(b"get k\r\n", b"END\r\n").unwrap(), b"VALUE k 9 3\r\nnew\r\nEND\r\n");
}

/// Reads tokens on one connection and uses them immediately on another one, or on the same one.
fn use_tokens(reader: &mut Stream, writer: &mut Stream) {
    let token = |answer: Vec<u8>| {
        let text = String::from_utf8(answer).unwrap();
        let mut words = text.split([' ', '\r']);
        words.find_map(|word| word.strip_prefix('c')?.parse::<u64>().ok()).unwrap()
    };
    reader.ask(b"set k 0 0 1\r\n1\r\n", b"STORED\r\n").unwrap();
    for (round, value) in ["a", "bb", "ccc"].iter().enumerate() {
        let answer = reader.ask(b"gets k\r\n", b"END\r\n").unwrap();
        let text = String::from_utf8(answer).unwrap();
        let words: Vec<_> = text.split_whitespace().collect();
        let cas = format!("cas k 0 0 {} {}\r\n{value}\r\n", value.len(), words[4]);
        assert_eq!(writer.ask(cas.as_bytes(), b"\r\n").unwrap(), b"STORED\r\n", "{round}");
        assert_eq!(writer.ask(cas.as_bytes(), b"\r\n").unwrap(), b"EXISTS\r\n", "{round}");
    }
    let known = token(reader.ask(b"mg k c\r\n", b"\r\n").unwrap());
    let store = format!("ms k 1 C{known} c\r\nm\r\n");
    let known = token(writer.ask(store.as_bytes(), b"\r\n").unwrap());
    let answer = reader.ask(format!("md k C{known}\r\n").as_bytes(), b"\r\n").unwrap();
    assert_eq!(answer, b"HD\r\n");
}

#[test]
fn tokens_of_the_live_server_become_tokens_of_the_candidate() {
    let (live, candidate) = (memcached(&[]), larderd(&[]));
    let shadow = Shadow::start(live.address(), candidate.address(), &[]);
    let mut client = shadow.connect();
    let mut same = client.try_clone().unwrap();
    use_tokens(&mut client, &mut same);
    drop((client, same));
    sleep(Duration::from_millis(200));
    let ended = shadow.stop();
    ended.agrees(13, &[]);
}

/// The candidate may execute requests of different connections in another order. So some tokens
/// remain unknown, but that is no difference.
#[test]
fn tokens_that_cross_connections_cause_no_differences() {
    let (live, candidate) = (memcached(&[]), larderd(&[]));
    let shadow = Shadow::start(live.address(), candidate.address(), &[]);
    let (mut reader, mut writer) = (shadow.connect(), shadow.connect());
    for _ in 0..50 {
        use_tokens(&mut reader, &mut writer);
    }
    drop((reader, writer));
    sleep(Duration::from_millis(300));
    let ended = shadow.stop();
    ended.is_complete();
    assert_eq!((ended.count("differences/total"), ended.exit_code), (0, 0), "{}", ended.report);
    assert_eq!(ended.count("requests"), 650, "{}", ended.report);
}

#[test]
fn a_candidate_that_begins_cold_has_no_differences() {
    let (live, candidate) = (memcached(&[]), larderd(&[]));
    let mut direct = live.connect().unwrap();
    for key in ["a", "b", "c", "d"] {
        direct.ask(format!("set {key} 0 0 1\r\n5\r\n").as_bytes(), b"STORED\r\n").unwrap();
    }
    let shadow = Shadow::start(live.address(), candidate.address(), &[]);
    let mut client = shadow.connect();
    let mut ask = |request: &str, answer: &str| {
        let found = client.ask(request.as_bytes(), answer.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&found), answer);
    };
    ask("get a\r\n", "VALUE a 0 1\r\n5\r\nEND\r\n");
    // Each of these outcomes depends on an item that the candidate lacks.
    ask("add a 0 0 1\r\n6\r\n", "NOT_STORED\r\n");
    ask("incr b 1\r\n", "6\r\n");
    ask("delete c\r\n", "DELETED\r\n");
    ask("append d 0 0 1\r\n6\r\n", "STORED\r\n");
    // The add has stored another value at the candidate.
    ask("get a\r\n", "VALUE a 0 1\r\n5\r\nEND\r\n");
    ask("set a 0 0 1\r\n7\r\n", "STORED\r\n");
    ask("get a c\r\n", "VALUE a 0 1\r\n7\r\nEND\r\n");
    drop(client);
    sleep(Duration::from_millis(200));
    let ended = shadow.stop();
    ended.is_complete();
    assert_eq!(ended.count("explained/hit_at_live_only"), 5, "{}", ended.report);
    assert_eq!(ended.count("explained/diverged"), 1, "{}", ended.report);
    assert_eq!(ended.count("candidate/lost_items"), 0, "{}", ended.report);
    assert_eq!((ended.count("differences/total"), ended.exit_code), (0, 0), "{}", ended.report);
}

/// A value of a hundred MiB passes the live path in pieces. Its copy for the candidate has a limit.
#[test]
fn large_values_are_forwarded_in_little_memory_and_smaller_ones_compared() {
    let args = ["-m", "1024", "-I", "256m"];
    let (live, candidate) = (larderd(&args), larderd(&args));
    let shadow = Shadow::start(live.address(), candidate.address(), &["--memory", "64m"]);
    let mut client = shadow.connect();
    for value_bytes in [4 << 20, 100 << 20] {
        let value = vec![b'x'; value_bytes];
        let head = format!("set large 0 0 {value_bytes}\r\n");
        client.ask(&[head.as_bytes(), &value, b"\r\n"].concat(), b"STORED\r\n").unwrap();
        let answer = client.ask(b"get large\r\n", b"END\r\n").unwrap();
        let head = format!("VALUE large 0 {value_bytes}\r\n");
        assert!(answer == [head.as_bytes(), &value, b"\r\nEND\r\n"].concat(), "{value_bytes}");
        sleep(Duration::from_millis(500));
    }
    drop(client);
    let status = format!("/proc/{}/status", shadow.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(status).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak_kib < 150 << 10, "{peak_kib} KiB");
    let ended = shadow.stop();
    ended.is_complete();
    assert!(ended.count("identical") >= 2, "{}", ended.report);
    assert_eq!((ended.count("differences/total"), ended.exit_code), (0, 0), "{}", ended.report);
}

#[test]
fn racing_changes_of_one_key_are_no_differences() {
    let (live, candidate) = (larderd(&[]), larderd(&[]));
    let shadow = Shadow::start(live.address(), candidate.address(), &[]);
    std::thread::scope(|scope| {
        for client in 0..4 {
            let mut stream = shadow.connect();
            scope.spawn(move || {
                for round in 0..2000 {
                    let value = format!("{client}:{round}");
                    let set = format!("set k{} 0 0 {}\r\n{value}\r\n", round % 3, value.len());
                    stream.ask(set.as_bytes(), b"STORED\r\n").unwrap();
                    let get = format!("get k{}\r\n", round % 3);
                    stream.ask(get.as_bytes(), b"END\r\n").unwrap();
                }
            });
        }
    });
    sleep(Duration::from_millis(300));
    let ended = shadow.stop();
    ended.is_complete();
    assert_eq!(ended.count("requests"), 16_000, "{}", ended.report);
    assert_eq!((ended.count("differences/total"), ended.exit_code), (0, 0), "{}", ended.report);
    assert!(ended.count("identical") > 8000, "{}", ended.report);
}
