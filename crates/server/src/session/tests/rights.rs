//! Users with rights: every command of the tables, with every right.

use larder_protocol::docs::{ExampleRequest, Reach, example_requests};
use larder_protocol::{Denial, Right};

use super::*;

/// The prefix of the users whose names end in `-own`.
const OWN: &str = "own:";

/// Returns a server with a user for each right, without and with prefixes. The password of each is
/// its name.
fn server() -> Arc<Server> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let line = |name: &str, right: &str, rest: &str| {
        format!("{{ name = \"{name}\", password = \"{name}\"{right}{rest} }},\n")
    };
    let mut text = "users = [\n".to_owned();
    for name in ["none", "read", "write", "admin"] {
        let right = if name == "none" { String::new() } else { format!(", rights = \"{name}\"") };
        text += &line(name, &right, "");
        text += &line(&format!("{name}-own"), &right, &format!(", prefixes = [\"{OWN}\"]"));
    }
    text += &line("slow", ", rights = \"write\"", ", rate = 3");
    text += "]\n";
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    let options = [("users", path), ("enable_shutdown", "yes")];
    let (options, _) = Options::from_map(options).unwrap();
    Arc::new(Server::new(options).unwrap())
}

/// Returns a peer that has logged in, in the protocol of the request.
fn peer(server: &Arc<Server>, name: &str, is_binary: bool) -> Peer {
    let mut peer = Peer::at(Arc::clone(server));
    if is_binary {
        let credentials = format!("\0{name}\0{name}");
        let body = [b"PLAIN", credentials.as_bytes()].concat();
        let mut request = vec![0x80, 0x21, 0, 5, 0, 0, 0, 0, 0, 0, 0, body.len() as u8];
        request.resize(24, 0);
        let answer = peer.send(&[request, body].concat());
        assert_eq!(answer[6..8], [0, 0], "{name}");
    } else {
        let credentials = format!("{name} {name}");
        let login = format!("set x 0 0 {}\r\n{credentials}\r\n", credentials.len());
        assert_eq!(peer.says(&login), "STORED\r\n", "{name}");
    }
    peer
}

/// Returns why the tables forbid a request to the user with this name.
fn expected(request: &ExampleRequest, name: &str, key: &str) -> Option<Denial> {
    let needed = request.right?;
    let (right, prefix) =
        name.split_once('-').map_or((name, None), |(right, _)| (right, Some(OWN)));
    match (request.reach, prefix) {
        _ if Right::parse(right) < Some(needed) => Some(Denial::Right(needed)),
        (Reach::All, Some(_)) => Some(Denial::AllItems),
        (Reach::Key, Some(prefix)) if !key.starts_with(prefix) => Some(Denial::ForeignKey),
        _ => None,
    }
}

/// Returns the words of a refusal.
fn line(denial: Denial) -> String {
    let mut line = Vec::new();
    larder_protocol::text::render::response(&mut line, &denial.into());
    String::from_utf8(line).unwrap()
}

/// Every command, with every right, with an own and a foreign key, as it is and in base64, quiet
/// and not, in all protocols. After the request the stream must still be in step.
#[test]
fn every_command_is_judged_by_the_tables() {
    let server = server();
    let mut denied = 0;
    for name in ["none", "read", "write", "admin", "none-own", "read-own", "write-own", "admin-own"]
    {
        for key in ["own:k", "foreign:k"] {
            for request in example_requests(key.as_bytes()) {
                let shown = request.bytes.escape_ascii();
                let mut peer = peer(&server, name, request.is_binary);
                let before = peer.count(Counter::NotPermitted);
                let answer = peer.send(&request.bytes);
                let is_denied = peer.count(Counter::NotPermitted) > before;
                let expected = expected(&request, name, key);
                assert_eq!(is_denied, expected.is_some(), "{name}: {shown}");
                let Some(expected) = expected else { continue };
                denied += 1;
                if request.is_binary {
                    assert_eq!(answer[6..8], [0, 0x20], "{name}: {shown}");
                    let mut noop = vec![0x80, 0x0a];
                    noop.resize(24, 0);
                    let answer = peer.send(&noop);
                    assert_eq!((answer.len(), answer[1]), (24, 0x0a), "{name}: {shown}");
                } else {
                    let text = String::from_utf8(answer).unwrap();
                    let is_noreply = request.bytes.ends_with(b"noreply\r\n")
                        || request.bytes.ends_with(b"noreply\r\n88\r\n");
                    let words = if is_noreply { String::new() } else { line(expected) };
                    assert_eq!(text, words, "{name}: {shown}");
                    assert_eq!(peer.says("mn\r\n"), "MN\r\n", "{name}: {shown}");
                }
                assert!(!peer.closed, "{name}: {shown}");
            }
        }
    }
    assert!(denied > 400, "{denied}");
    assert!(server.cache.peek(b"foreign:k").is_none() || server.cache.peek(b"own:k").is_some());
}

#[test]
fn a_list_with_one_foreign_key_is_refused_as_a_whole() {
    let server = server();
    let mut admin = peer(&server, "admin", false);
    assert_eq!(
        admin.says("set own:a 0 0 1\r\n1\r\nset own:b 0 0 1\r\n2\r\nset c 0 0 1\r\n3\r\n"),
        "STORED\r\n".repeat(3)
    );
    let mut own = peer(&server, "read-own", false);
    assert_eq!(
        own.says("get own:a own:b\r\n"),
        "VALUE own:a 0 1\r\n1\r\nVALUE own:b 0 1\r\n2\r\nEND\r\n"
    );
    let refused = line(Denial::ForeignKey);
    for list in ["get own:a c own:b\r\n", "gets c\r\n", "get own:a own:b c\r\n"] {
        assert_eq!(own.says(&format!("{list}mn\r\n")), format!("{refused}MN\r\n"), "{list}");
    }
    // A line that is too long to buffer is answered key by key to other users.
    let many = "own:a ".repeat(1000);
    assert_eq!(own.says(&format!("get {many}c\r\nmn\r\n")), format!("{refused}MN\r\n"));
    assert_eq!(own.says(&format!("get {many}\r\n")).matches("VALUE").count(), 1000);
    assert_eq!(own.says(&format!("get {}", "own:a ".repeat(50_000))), line(Denial::LongList));
    assert_eq!(own.says("c\r\nmn\r\n"), "MN\r\n");
    let none = line(Denial::Right(Right::Read));
    assert_eq!(peer(&server, "none", false).says("get a b c\r\nmn\r\n"), format!("{none}MN\r\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The responses to a pipeline do not depend on how the network splits it.
    #[test]
    fn a_judged_pipeline_has_the_same_answers_in_any_split(cuts in vec(any::<Index>(), 0..8)) {
        let server = server();
        let pipeline = b"get own:a c\r\nset c 0 0 3\r\nxyz\r\nset own:a 0 0 1 noreply\r\n7\r\n\
            get own:a own:b\r\nmg b3duOmE= b v\r\nmg Yw== b v\r\ndelete c noreply\r\nmn\r\n";
        let whole = peer(&server, "write-own", false).send(pipeline);
        let split = peer(&server, "write-own", false).send_cut(pipeline, &cuts);
        prop_assert_eq!(
            String::from_utf8_lossy(&split).into_owned(),
            String::from_utf8_lossy(&whole).into_owned()
        );
    }
}

#[test]
fn a_user_above_its_rate_is_refused_and_its_values_are_skipped() {
    let mut slow = peer(&server(), "slow", false);
    let limit = "SERVER_ERROR rate limit\r\n";
    assert_eq!(slow.says(&"set k 0 0 2\r\nab\r\n".repeat(4)), "STORED\r\n".repeat(3) + limit);
    assert_eq!(slow.says("get k k k\r\nmn\r\n"), format!("{limit}{limit}"));
    assert_eq!(slow.count(Counter::RateLimited), 3);
}

#[test]
fn a_login_that_must_be_verified_is_refused_where_no_worker_can_wait() {
    let mut admin = peer(&server(), "admin", false);
    admin.session.parser.lock();
    assert_eq!(
        admin.says("set x 0 0 11\r\nadmin wrong\r\n"),
        "SERVER_ERROR too many logins; try again later\r\n"
    );
}
