//! Sends arbitrary datagrams from any address. The answer must consist of complete datagrams that
//! belong to their request. A foreign address must not receive many more bytes than it sent.
#![no_main]

mod threads;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use larder_options::Options;
use larder_server::reply;
use larder_server::{Executor, Output, Server};
use libfuzzer_sys::fuzz_target;
use threads::Threads;

fuzz_target!(|datagrams: Vec<(bool, bool, Vec<u8>)>| {
    let _threads = Threads::remember();
    let (options, _) = Options::from_map([("memory_limit", "2")]).expect("options are right");
    let factor = options.udp_reply_factor;
    let executor = Executor::new(Arc::new(Server::new(options).expect("memory")), 0);
    for (is_near, is_whole, mut datagram) in datagrams {
        if is_whole {
            datagram.splice(..0, *b"\x12\x34\0\0\0\x01\0\0");
        }
        let ip = if is_near { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(192, 0, 2, 1) };
        let peer = SocketAddr::new(IpAddr::V4(ip), 4000);
        let (mut sent, mut out) = (Vec::new(), Output::default());
        reply(&executor, &datagram, peer, &mut out, |datagram| {
            sent.push(datagram.to_vec());
            true
        });
        for (sequence, answer) in (0u16..).zip(&sent) {
            assert!((9..=1400).contains(&answer.len()));
            assert_eq!(answer[..2], datagram[..2]);
            assert_eq!(answer[2..4], sequence.to_be_bytes());
            assert_eq!(usize::from(u16::from_be_bytes([answer[4], answer[5]])), sent.len());
        }
        let sent_bytes: usize = sent.iter().map(Vec::len).sum();
        assert!(is_near || sent_bytes <= (datagram.len() * factor).max(SHORT_BYTES));
    }
});

/// The length of a refusal, which is sent even if a longer answer would not be.
const SHORT_BYTES: usize = 64;
