//! The same commands have the same outcome in the text, the meta and the binary protocol.
#![no_main]

mod threads;

use std::sync::Arc;

use arbitrary::Arbitrary;
use larder::{Direction, StoreMode, Wait};
use larder_options::{Options, Protocol};
use larder_protocol::binary::client as binary;
use larder_protocol::text::client as text;
use larder_protocol::{Arithmetic, Command, Delete, Store};
use larder_server::{Allowance, Executor, Next, Output, Server, Session};
use libfuzzer_sys::fuzz_target;
use threads::Threads;

fuzz_target!(|operations: Vec<Operation>| {
    let _threads = Threads::remember();
    let mut peers = [Dialect::Text, Dialect::Meta, Dialect::Binary].map(Peer::new);
    for operation in operations.iter().take(200) {
        let [text, meta, binary] = peers.each_mut().map(|peer| peer.ask(operation));
        assert_eq!(text, meta, "{operation:?}: text and meta");
        assert_eq!(text, binary, "{operation:?}: text and binary");
    }
});

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Operation {
    Get { key: u8 },
    Store { key: u8, mode: Mode, flags: u32, exptime: Exptime, value: Value },
    Delete { key: u8 },
    Count { key: u8, down: bool, delta: u64 },
    Touch { key: u8, exptime: Exptime },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Exptime {
    Never,
    Later,
    Past,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Value {
    Number(u64),
    Bytes(u16),
}

/// The outcome of an operation, independent of the dialect.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Hit { flags: u32, value: Vec<u8> },
    Number(u64),
    Done,
    Missing,
    Refused,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Text,
    Meta,
    Binary,
}

impl Exptime {
    fn number(self) -> i64 {
        match self {
            Self::Never => 0,
            Self::Later => 1000,
            Self::Past => -1,
        }
    }
}

impl Value {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Number(number) => number.to_string().into_bytes(),
            // No value is too large for an item. If a store fails for this reason, only the meta
            // protocol removes the existing item in every mode.
            Self::Bytes(bytes) => vec![b'v'; usize::from(bytes) % 60_000],
        }
    }
}

/// A separate server, and a session in one dialect.
struct Peer {
    dialect: Dialect,
    executor: Executor,
    session: Session,
}

impl Peer {
    fn new(dialect: Dialect) -> Self {
        // Memory for all items, because evictions depend on how often a dialect reads an item.
        let settings = [("memory_limit", "64"), ("max_item_size", "64k")];
        let (options, _) = Options::from_map(settings).expect("options are right");
        let server = Arc::new(Server::new(options).expect("memory"));
        let session = Session::new(&server, 1, Protocol::Auto);
        Self { dialect, executor: Executor::new(server, 0), session }
    }

    fn ask(&mut self, operation: &Operation) -> Outcome {
        let mut request = Vec::new();
        match self.dialect {
            Dialect::Text => in_text(&mut request, operation),
            Dialect::Meta => in_meta(&mut request, operation),
            Dialect::Binary => in_binary(&mut request, operation),
        }
        let (mut rest, mut answer) = (&request[..], Output::default());
        loop {
            let allowance = Allowance {
                commands_max: 1000,
                keys_max: usize::MAX,
                out_bytes_max: usize::MAX,
                is_tight: false,
            };
            let progress =
                self.session.receive(&self.executor, Wait::Block, rest, allowance, &mut answer);
            rest = &rest[progress.consumed..];
            match progress.next {
                Next::Input => break,
                Next::Drain | Next::Turn | Next::GiveWay => {}
                next => panic!("{:?} {operation:?}: {next:?}", self.dialect),
            }
        }
        let answer = answer.parts().collect::<Vec<_>>().concat();
        match self.dialect {
            Dialect::Text => of_text(&answer),
            Dialect::Meta => of_meta(&answer, operation),
            Dialect::Binary => of_binary(&answer, operation),
        }
    }
}

fn key(key: u8) -> [u8; 2] {
    [b'k', b'0' + key % 4]
}

/// Calls `write` with the operation as a command, and the value of a store.
fn as_command(operation: &Operation, write: impl FnOnce(&Command<'_>, Option<Vec<u8>>)) {
    match *operation {
        Operation::Get { key: k } => {
            write(&Command::Get { key: &key(k), with_cas: false, exptime: None }, None);
        }
        Operation::Delete { key: k } => write(&Command::Delete(Delete::of(&key(k))), None),
        Operation::Count { key: k, down, delta } => {
            let direction = if down { Direction::Decrement } else { Direction::Increment };
            write(&Command::Arithmetic(Arithmetic::of(&key(k), direction, delta)), None);
        }
        Operation::Touch { key: k, exptime } => {
            write(&Command::Touch { key: &key(k), exptime: exptime.number() }, None);
        }
        Operation::Store { key: k, mode, flags, exptime, value } => {
            let (key, value) = (key(k), value.bytes());
            let mode = match mode {
                Mode::Set => StoreMode::Set,
                Mode::Add => StoreMode::Add,
                Mode::Replace => StoreMode::Replace,
                Mode::Append => StoreMode::Append,
                Mode::Prepend => StoreMode::Prepend,
            };
            // Append and prepend keep the item's flags and exptime; the binary protocol has no
            // fields for others.
            let extends = matches!(mode, StoreMode::Append | StoreMode::Prepend);
            let store = Store {
                key: &key,
                mode,
                flags: if extends { 0 } else { flags },
                exptime: if extends { 0 } else { exptime.number() },
                value_bytes: value.len(),
                ..Store::PLAIN
            };
            write(&Command::Store(store), Some(value));
        }
    }
}

fn in_text(out: &mut Vec<u8>, operation: &Operation) {
    as_command(operation, |command, value| match (command, value) {
        (Command::Store(head), Some(value)) => {
            text::request::store(out, head, &value, false).expect("a sendable key");
        }
        _ => text::request::command(out, command, false).expect("a sendable key"),
    });
}

fn in_binary(out: &mut Vec<u8>, operation: &Operation) {
    let manner = binary::Manner::default();
    as_command(operation, |command, value| match (command, value) {
        (Command::Store(head), Some(value)) => {
            binary::request::store(out, head, &value, manner).expect("a sendable store");
        }
        _ => binary::request::command(out, command, manner).expect("a sendable command"),
    });
}

fn in_meta(out: &mut Vec<u8>, operation: &Operation) {
    let name = |k: u8| String::from_utf8(key(k).to_vec()).expect("letters");
    let line = match *operation {
        Operation::Get { key } => format!("mg {} v f", name(key)),
        Operation::Delete { key } => format!("md {}", name(key)),
        Operation::Count { key, down, delta } => {
            format!("ma {} v D{delta} M{}", name(key), if down { 'D' } else { 'I' })
        }
        Operation::Touch { key, exptime } => format!("mg {} T{}", name(key), exptime.number()),
        Operation::Store { key, mode, flags, exptime, value } => {
            let mode = match mode {
                Mode::Set => 'S',
                Mode::Add => 'E',
                Mode::Replace => 'R',
                Mode::Append => 'A',
                Mode::Prepend => 'P',
            };
            let bytes = value.bytes().len();
            format!("ms {} {bytes} M{mode} F{flags} T{}", name(key), exptime.number())
        }
    };
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b"\r\n");
    if let Operation::Store { value, .. } = operation {
        out.extend_from_slice(&value.bytes());
        out.extend_from_slice(b"\r\n");
    }
}

fn of_text(answer: &[u8]) -> Outcome {
    use text::{ParsedReply, Reply};
    let ParsedReply::Reply { reply, .. } = text::read_reply(answer) else { panic!("{answer:?}") };
    match reply {
        Reply::Value(hit) => Outcome::Hit { flags: hit.flags, value: hit.value.into() },
        Reply::Number(number) => Outcome::Number(number),
        Reply::Stored | Reply::Deleted | Reply::Touched => Outcome::Done,
        Reply::End | Reply::NotFound => Outcome::Missing,
        Reply::NotStored | Reply::Exists => Outcome::Refused,
        Reply::Error(_) => Outcome::Failed,
        other => panic!("{other:?}"),
    }
}

fn of_meta(answer: &[u8], operation: &Operation) -> Outcome {
    let end = answer.iter().position(|byte| *byte == b'\n').expect("a line");
    let line = std::str::from_utf8(&answer[..end]).expect("plain words").trim_end();
    let words: Vec<_> = line.split(' ').collect();
    let value = answer[end + 1..].strip_suffix(b"\r\n");
    match (words[0], operation) {
        ("VA", Operation::Count { .. }) => {
            let number = std::str::from_utf8(value.expect("a value")).expect("digits");
            Outcome::Number(number.parse().expect("a number"))
        }
        ("VA", _) => Outcome::Hit {
            flags: words[2][1..].parse().expect("flags"),
            value: value.expect("a value").into(),
        },
        ("HD", _) => Outcome::Done,
        ("EN" | "NF", _) => Outcome::Missing,
        ("NS" | "EX", _) => Outcome::Refused,
        ("CLIENT_ERROR" | "SERVER_ERROR", _) => Outcome::Failed,
        other => panic!("{other:?}"),
    }
}

fn of_binary(answer: &[u8], operation: &Operation) -> Outcome {
    let binary::ParsedReply::Reply { reply, consumed } = binary::read_reply(answer) else {
        panic!("{answer:?}")
    };
    assert_eq!(consumed, answer.len());
    match (reply.status, operation) {
        (0, Operation::Get { .. }) => {
            Outcome::Hit { flags: reply.flags().expect("flags"), value: reply.value.into() }
        }
        (0, Operation::Count { .. }) => Outcome::Number(reply.number().expect("a number")),
        (0, _) => Outcome::Done,
        // The binary protocol has a separate status for each refused store.
        (1 | 2 | 5, Operation::Store { .. }) => Outcome::Refused,
        (1, _) => Outcome::Missing,
        _ => Outcome::Failed,
    }
}
