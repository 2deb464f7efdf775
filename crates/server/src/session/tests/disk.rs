//! Sessions over a cache with a disk tier. A session whose caller looks up its keys must respond
//! like a session that reads the disk itself.

use larder::{Cache, Deferred, DiskNeed, DiskRead};
use larder_protocol::binary::{HEADER_BYTES, opcode};
use tempfile::TempDir;

use super::binary::packet;
use super::*;

/// The first byte of a binary response.
const RESPONSE_MAGIC: u8 = 0x81;

/// The number of items. Memory has space only for the last of them.
const ITEMS: usize = 6000;

/// A peer of a server with a small memory and a disk that contains all items.
struct DiskPeer {
    executor: Executor,
    session: Session,
    deferred: Deferred,
    unused: Vec<u8>,
    /// How often the session has stopped for the disk.
    stops: usize,
    _folder: TempDir,
}

impl DiskPeer {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tier").display().to_string();
        let options = [("tier_path", &*path), ("tier_size", "64m"), ("tier_mode", "store")];
        let options = SMALL.iter().copied().chain(options);
        let (options, _) = Options::from_map(options).unwrap();
        let executor = Executor::new(Arc::new(Server::new(options).unwrap()), 0);
        for number in 0..ITEMS {
            executor.cache().set(format!("k{number}"), value(number), None).unwrap();
        }
        executor.cache().set("n5", "41", None).unwrap();
        executor.cache().sync().unwrap();
        let session = Session::new(executor.server(), 1, Protocol::Auto);
        let (deferred, unused) = (Deferred::default(), Vec::new());
        Self { executor, session, deferred, unused, stops: 0, _folder: folder }
    }

    /// Begins a new session, because the first byte decides the protocol of a session.
    fn reconnect(&mut self) {
        self.session = Session::new(self.executor.server(), 1, Protocol::Auto);
    }

    /// Sends bytes and returns all responses. If `asks`, looks up the keys for the session.
    fn send(&mut self, bytes: &[u8], asks: bool) -> Vec<u8> {
        self.unused.extend_from_slice(bytes);
        let mut answers = Vec::new();
        loop {
            let wait = if asks { Wait::Ask(&self.deferred) } else { Wait::Block };
            let (mut out, allowance) = (Output::default(), Allowance::of_commands(3));
            let input = &self.unused;
            let progress = self.session.receive(&self.executor, wait, input, allowance, &mut out);
            self.unused.drain(..progress.consumed);
            self.deferred.forget_found();
            answers.extend(out.parts().flatten());
            match progress.next {
                Next::Turn | Next::GiveWay => {}
                Next::Disk => self.look_up(|_| ()),
                _ => return answers,
            }
        }
    }

    /// Looks up the keys that the session waits for. Runs `between` before the session receives the
    /// result.
    fn look_up(&mut self, between: impl FnOnce(&Cache)) {
        self.stops += 1;
        let wait = Wait::Ask(&self.deferred);
        let keys = self.session.keys_to_ask(&self.executor, wait, &self.unused);
        let raw = self.executor.cache().raw(wait);
        let found: Vec<_> = keys
            .iter()
            .map(|key| {
                let (mut lookup, mut read) = raw.look_up(key).unwrap();
                while let Some(wanted) = read.take() {
                    read = raw.look_on(&mut lookup, DiskRead::perform(wanted));
                }
                lookup
            })
            .collect();
        between(self.executor.cache());
        found.into_iter().for_each(|lookup| self.deferred.give_found(lookup));
    }

    /// True if the item is not in memory.
    fn is_cold(&self, key: &str) -> bool {
        self.executor.cache().raw(Wait::Block).must_look_up(key.as_bytes(), DiskNeed::Reads)
    }
}

fn value(number: usize) -> String {
    format!("value {number} ").repeat(200)
}

/// Clears the cas tokens of binary responses, because a changed item has a different token in each
/// cache.
fn without_tokens(mut responses: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while responses.get(at) == Some(&RESPONSE_MAGIC) {
        let body = responses[at + 8..at + 12].try_into().unwrap();
        responses[at + 16..at + 24].fill(0);
        at += HEADER_BYTES + u32::from_be_bytes(body) as usize;
    }
    responses
}

/// Returns conversations about items that are only on disk.
fn conversations() -> Vec<Vec<u8>> {
    let text = |lines: &[&str]| format!("{}\r\n", lines.join("\r\n")).into_bytes();
    let exptime = &100_u32.to_be_bytes();
    vec![
        text(&["get k0 k1 absent k2", "gets k3", "mn"]),
        text(&["gat 100 k4 k5", "gat 0 k6", "mn"]),
        text(&[
            "mg k7 v f t s k O7 q",
            "mg azg= b k v",
            "mg k9 t v T60",
            "mg absent9 v N30 t",
            "mn",
        ]),
        text(&["me k10", "mn"]),
        text(&["touch k11 100", "delete k12", "delete k12", "md k13 I", "mg k13 v s", "mn"]),
        text(&["md k14 x", "mg k14 v", "set k15 0 0 3", "new", "get k15", "mn"]),
        text(&["add k16 0 0 1", "x", "replace k17 7 0 2", "ab", "get k16 k17", "mn"]),
        text(&["append k18 0 0 3", "end", "prepend k19 0 0 1", ">", "get k18 k19", "mn"]),
        text(&["cas k20 0 0 1 1", "x", "set k21 0 0 1 noreply", "y", "get k20 k21", "mn"]),
        text(&["incr n5 1", "decr n5 2", "incr k22 1", "ma n5 t v", "ma new25 N0 J5 v", "mn"]),
        text(&[
            "ms k23 S2 MA",
            "!!",
            "ms absent24 2 MA N60",
            "!!",
            "mg absent24 v",
            "mg k23 s",
            "mn",
        ]),
        [
            packet(opcode::GETK, &[], b"k26", b""),
            packet(opcode::GETKQ, &[], b"k27", b""),
            packet(opcode::GETK, &[], b"absent28", b""),
            packet(opcode::GAT, exptime, b"k29", b""),
            packet(opcode::APPEND, &[], b"k30", b"end"),
            packet(opcode::GETQ, &[], b"k30", b""),
            packet(opcode::DELETE, &[], b"k31", b""),
            packet(opcode::NOOP, &[], b"", b""),
        ]
        .concat(),
    ]
}

#[test]
fn a_session_that_asks_answers_as_one_that_reads_the_disk() {
    let (mut asking, mut reading) = (DiskPeer::new(), DiskPeer::new());
    for conversation in conversations() {
        asking.reconnect();
        reading.reconnect();
        let before = asking.stops;
        let shown = |bytes: Vec<u8>| without_tokens(bytes).escape_ascii().to_string();
        let answers = shown(asking.send(&conversation, true));
        assert_eq!(
            answers,
            shown(reading.send(&conversation, false)),
            "{}",
            conversation.escape_ascii()
        );
        assert!(asking.stops > before, "{} needs no disk", conversation.escape_ascii());
        assert_eq!(reading.stops, 0);
    }
    let counted = [
        (Counter::CmdGet, "cmd_get"),
        (Counter::GetHits, "get_hits"),
        (Counter::GetMisses, "get_misses"),
        (Counter::CmdTouch, "cmd_touch"),
        (Counter::TouchHits, "touch_hits"),
        (Counter::CmdMeta, "cmd_meta"),
        (Counter::CmdSet, "cmd_set"),
        (Counter::DeleteHits, "delete_hits"),
        (Counter::DeleteMisses, "delete_misses"),
        (Counter::IncrHits, "incr_hits"),
    ];
    for (counter, name) in counted {
        let of = |peer: &DiskPeer| peer.executor.server().counter(counter);
        assert_eq!(of(&asking), of(&reading), "{name}: a command that has waited counts once");
    }
}

#[test]
fn a_change_is_judged_by_the_item_as_it_is_after_the_wait() {
    let mut peer = DiskPeer::new();
    assert!(peer.is_cold("k0") && peer.is_cold("k1"), "memory has the first items");
    let (deferred, mut out) = (Deferred::default(), Output::default());
    let mut receive = |peer: &mut DiskPeer, input: &[u8], deferred: &Deferred| {
        let (wait, allowance) = (Wait::Ask(deferred), Allowance::of_commands(10));
        peer.session.receive(&peer.executor, wait, input, allowance, &mut out)
    };
    let add = b"add k0 0 0 1\r\nx\r\n";
    let line_bytes = add.len() - b"x\r\n".len();
    let stopped = receive(&mut peer, add, &deferred);
    assert_eq!(stopped, Progress { consumed: line_bytes, next: Next::Disk }, "the value stays");
    peer.unused = add[line_bytes..].to_vec();
    // The item that the lookup found is deleted before the session resumes the command.
    peer.look_up(|cache| assert!(cache.delete("k0").unwrap()));
    let deferred = std::mem::take(&mut peer.deferred);
    let mut progress = receive(&mut peer, b"x\r\n", &deferred);
    while progress.next == Next::Disk {
        peer.look_up(|_| ());
        let deferred = std::mem::take(&mut peer.deferred);
        progress = receive(&mut peer, b"x\r\n", &deferred);
    }
    assert_eq!(progress, Progress { consumed: 3, next: Next::Input });
    assert_eq!(out.bytes, b"STORED\r\n", "nothing had the key when the add was executed");
}

#[test]
fn a_command_that_waits_is_parsed_once_and_answered_once() {
    let mut peer = DiskPeer::new();
    let (mut out, allowance) = (Output::default(), Allowance::of_commands(10));
    let list = b"get k0 absent k1\r\nmn\r\n";
    let mut consumed = Vec::new();
    let mut rest = &list[..];
    loop {
        let deferred = std::mem::take(&mut peer.deferred);
        let wait = Wait::Ask(&deferred);
        let progress = peer.session.receive(&peer.executor, wait, rest, allowance, &mut out);
        consumed.push(progress.consumed);
        rest = &rest[progress.consumed..];
        if progress.next == Next::Input {
            break;
        }
        assert_eq!(progress.next, Next::Disk);
        assert!(!peer.session.is_between_commands(), "it has begun a command");
        peer.unused = rest.to_vec();
        peer.look_up(|_| ());
    }
    assert_eq!(consumed.iter().sum::<usize>(), list.len());
    assert!(consumed[0] >= b"get k0".len(), "the first key is consumed before it is answered");
    let answers = String::from_utf8(out.bytes).unwrap();
    assert_eq!(answers.matches("VALUE k0 ").count(), 1, "{answers}");
    assert_eq!(answers.matches("VALUE k1 ").count(), 1, "{answers}");
    assert!(answers.ends_with("END\r\nMN\r\n"), "{answers}");
}

#[test]
fn a_miss_after_the_wait_repeats_the_key_of_the_request() {
    let mut peer = DiskPeer::new();
    let (mut out, allowance) = (Output::default(), Allowance::of_commands(10));
    let request = packet(opcode::GETK, &[], b"k0", b"");
    let mut rest = &request[..];
    loop {
        let deferred = std::mem::take(&mut peer.deferred);
        let wait = Wait::Ask(&deferred);
        let progress = peer.session.receive(&peer.executor, wait, rest, allowance, &mut out);
        rest = &rest[progress.consumed..];
        if progress.next != Next::Disk {
            break;
        }
        peer.look_up(|cache| assert!(cache.delete("k0").unwrap()));
    }
    assert_eq!(peer.stops, 1, "the item is on the disk");
    assert_eq!(out.bytes[HEADER_BYTES..], *b"k0", "{}", out.bytes.escape_ascii());
}
