//! Proxies between applications and larderd: mcrouter's exact grammar, and the behaviour of
//! memcached's own proxy.

mod backend;

use std::io::{Read, Write};
use std::thread;

use anyhow::{Context, Result, ensure};
use backend::{Backend, Conversation};
use larder_testkit::mcrouter::{Reply, Request};
use larder_testkit::transcript::Split;
use larder_testkit::{ServerUnderTest, Stream, Transport};

use crate::binary;

const CONVERSATIONS: u64 = 40;
const BATCHES: u64 = 12;

fn start(transport: Transport, args: &[&str]) -> Result<ServerUnderTest> {
    ServerUnderTest::start(&binary(), transport, args)
}

/// Sends requests together, in random pieces, and passes the replies on in order.
fn exchange(
    stream: &mut Stream,
    requests: &[Request],
    seed: u64,
    mut check: impl FnMut(&Request, Reply) -> Result<()>,
) -> Result<()> {
    let mut bytes = Vec::new();
    for request in requests {
        request.push_to(&mut bytes);
    }
    let mut writer = stream.try_clone()?;
    let sending = thread::spawn(move || {
        let mut rest = bytes.as_slice();
        for length in (Split::Random { seed }).pieces(bytes.len()) {
            let (piece, left) = rest.split_at(length);
            writer.write_all(piece)?;
            rest = left;
        }
        anyhow::Ok(())
    });
    let (mut received, mut buffer) = (Vec::new(), [0; 65_536]);
    for (index, request) in requests.iter().enumerate() {
        let (reply, length) = loop {
            let read = request.read_reply(&received);
            if let Some(read) = read.with_context(|| format!("reply {index} of a pipeline"))? {
                break read;
            }
            let bytes =
                stream.read(&mut buffer).with_context(|| format!("no reply to {request:?}"))?;
            ensure!(bytes > 0, "closed before the reply to {request:?}");
            received.extend_from_slice(&buffer[..bytes]);
        };
        received.drain(..length);
        check(request, reply)?;
    }
    ensure!(received.is_empty(), "{:?} answers nothing", String::from_utf8_lossy(&received));
    sending.join().expect("the writer does not panic")
}

#[test]
fn every_pipeline_that_mcrouter_can_send_is_answered_as_it_expects() -> Result<()> {
    let server = start(Transport::Tcp, &["-m", "64"])?;
    for seed in 0..CONVERSATIONS {
        let mut stream = server.connect()?;
        let mut conversation = Conversation::new(seed);
        let mut backend = Backend::default();
        for batch in 0..BATCHES {
            let requests = conversation.requests(&backend);
            exchange(&mut stream, &requests, seed * BATCHES + batch, |request, reply| {
                backend.check(request, &reply).with_context(|| format!("{request:?} has {reply:?}"))
            })
            .with_context(|| format!("conversation {seed}, batch {batch}"))?;
        }
        // The next conversation must not find items of this one.
        exchange(&mut stream, &[Request::Flush { delay: None }], 0, |_, _| Ok(()))?;
    }
    Ok(())
}

#[test]
fn one_of_many_clients_that_miss_gets_the_lease() -> Result<()> {
    let server = start(Transport::Unix, &[])?;
    let askers: Vec<_> = (0..8).map(|_| server.connect()).collect::<Result<_>>()?;
    let asking: Vec<_> = askers
        .into_iter()
        .map(|mut stream| {
            thread::spawn(move || {
                let mut token = None;
                let request = Request::LeaseGet { key: "k".into() };
                exchange(&mut stream, &[request], 0, |_, reply| {
                    if let Reply::Lease { token: its } = reply {
                        token = Some(its);
                    }
                    Ok(())
                })?;
                token.context("no client has stored the item")
            })
        })
        .collect();
    let mut tokens = Vec::new();
    for asker in asking {
        tokens.push(asker.join().expect("askers do not panic")?);
    }
    let rights = tokens.iter().filter(|&&token| token > backend::HOT_MISS).count();
    ensure!(rights == 1, "{tokens:?}");
    Ok(())
}

#[test]
fn a_lease_is_over_when_it_is_used_or_the_item_deleted() -> Result<()> {
    let server = start(Transport::Unix, &[])?;
    let mut stream = server.connect()?;
    let ask = || Request::LeaseGet { key: "k".into() };
    let bring = |token| backend::store("lease-set", "k", Some(token), b"v");
    let mut say = |request: Request| {
        let mut said = None;
        exchange(&mut stream, &[request], 0, |_, reply| {
            said = Some(reply);
            Ok(())
        })?;
        said.context("no reply")
    };
    let word = |word: &str| Reply::Word(word.into());
    let Reply::Lease { token } = say(ask())? else { panic!("a miss") };
    assert_eq!(say(bring(token + 1))?, word("NOT_STORED"), "another token");
    assert_eq!(say(bring(token))?, word("STORED"));
    assert!(matches!(say(ask())?, Reply::Hit { .. }));
    assert_eq!(say(Request::Delete { key: "k".into(), exptime: 0 })?, word("DELETED"));
    assert_eq!(say(bring(token))?, word("NOT_STORED"), "a token is valid once");
    let Reply::Lease { token } = say(ask())? else { panic!("a miss") };
    assert_eq!(say(Request::Delete { key: "k".into(), exptime: 0 })?, word("NOT_FOUND"));
    assert_eq!(say(bring(token))?, word("NOT_STORED"), "the value is stale");
    Ok(())
}

#[test]
fn requests_as_memcacheds_proxy_sends_them_are_accepted() -> Result<()> {
    let server = start(Transport::Tcp, &[])?;
    let mut stream = server.connect()?;
    // The proxy writes `noreplY` over `noreply` and a blank over the flag `q`, and waits for the
    // replies.
    let said = [
        ("version\r\n", "VERSION 1.6.45\r\n"),
        ("set k 0 0 3 noreplY\r\nabc\r\n", "STORED\r\n"),
        ("get k\r\n", "VALUE k 0 3\r\nabc\r\nEND\r\n"),
        (
            "incr k 1 noreplY\r\n",
            "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        ),
        ("touch k 100 noreplY\r\n", "TOUCHED\r\n"),
        ("mg k v  \r\n", "VA 3\r\nabc\r\n"),
        ("mg k   v   k\r\n", "VA 3 kk\r\nabc\r\n"),
        ("ms k 3  T0\r\ndef\r\n", "HD\r\n"),
        ("mg nothing v  \r\n", "EN\r\n"),
        ("delete k noreplY\r\n", "DELETED\r\n"),
        ("md k  \r\n", "NF\r\n"),
        ("mn\r\n", "MN\r\n"),
    ];
    for (request, reply) in said {
        let found = stream.ask(request.as_bytes(), reply.as_bytes()).context(request)?;
        assert_eq!(String::from_utf8_lossy(&found), reply, "{request:?}");
    }
    Ok(())
}
