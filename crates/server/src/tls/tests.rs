//! Tests of a [`Tls`] with a client of the same library. The bytes between them are divided,
//! changed and delayed.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

/// Returns both configurations, with a certificate created for them.
fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

struct Ends {
    tls: Tls,
    socket: OwnedFd,
    records: Records,
    counters: Counters,
    heard: Vec<u8>,
    client: ClientConnection,
    peer: UnixStream,
}

impl Ends {
    fn new((server, client): &(Arc<ServerConfig>, Arc<ClientConfig>)) -> Self {
        let (socket, peer) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        peer.set_nonblocking(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        Self {
            tls: Tls::new(Arc::clone(server), true).unwrap(),
            socket: socket.into(),
            records: Records::new(16 * 1024),
            counters: Counters::default(),
            heard: Vec::new(),
            client: ClientConnection::new(Arc::clone(client), name).unwrap(),
            peer,
        }
    }

    /// Passes bytes to the server, at most `piece_bytes` at a time.
    fn give(&mut self, bytes: &[u8], piece_bytes: usize) -> Result<(), Errno> {
        for piece in bytes.chunks(piece_bytes) {
            self.peer.write_all(piece).unwrap();
            loop {
                let (tls, heard) = (&mut self.tls, &mut self.heard);
                let deliver = |plain: &[u8]| heard.extend_from_slice(plain);
                let (records, counters) = (&mut self.records, &self.counters);
                match tls.receive(&self.socket, counters, records, 64 * 1024, deliver) {
                    Ok(Received { is_end: true, .. }) => return Err(Errno::PIPE),
                    Ok(_) => {}
                    Err(Errno::AGAIN) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Returns the bytes that the client would send now.
    fn said(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Passes the server's output to the client, and returns the decrypted bytes.
    fn hear(&mut self) -> Result<Vec<u8>, Error> {
        let mut plain = Vec::new();
        while self.client.read_tls(&mut self.peer).is_ok_and(|bytes| bytes > 0) {
            let bytes = self.client.process_new_packets()?.plaintext_bytes_to_read();
            let start = plain.len();
            plain.resize(start + bytes, 0);
            self.client.reader().read_exact(&mut plain[start..]).unwrap();
        }
        Ok(plain)
    }

    fn shake_hands(&mut self, piece_bytes: usize) {
        for _ in 0..5 {
            let said = self.said();
            self.give(&said, piece_bytes).unwrap();
            self.hear().unwrap();
        }
        assert!(!self.client.is_handshaking());
        assert!(!self.tls.is_handshaking);
    }
}

#[test]
fn nothing_is_kept_between_whole_records() {
    for piece_bytes in [1, 7, 1000, 100_000] {
        let mut ends = Ends::new(&configs());
        ends.shake_hands(piece_bytes);
        assert_eq!(ends.counters.read(Counter::SslNewSessions), 1);
        ends.client.writer().write_all(&[b'a'; 40_000]).unwrap();
        let said = ends.said();
        ends.give(&said[..said.len() - 1], piece_bytes).unwrap();
        assert!((1..=INCOMING_BYTES_MAX).contains(&ends.tls.incoming_bytes()));
        ends.give(&said[said.len() - 1..], 1).unwrap();
        assert_eq!(ends.heard, [b'a'; 40_000]);
        assert_eq!((ends.tls.incoming_bytes(), ends.tls.outgoing_bytes()), (0, 0));
    }
}

#[test]
fn records_that_the_socket_does_not_accept_are_sent_later_in_order() {
    let mut ends = Ends::new(&configs());
    ends.shake_hands(usize::MAX);
    let answer: Vec<u8> = (0..2_000_000_u32).map(|at| (at % 251) as u8).collect();
    let (mut done, mut heard, mut kept_bytes) = (0, Vec::new(), 0);
    while heard.len() < answer.len() {
        done += ends.tls.send(&ends.socket, &mut ends.records, [&answer[done..]]).unwrap();
        kept_bytes = kept_bytes.max(ends.tls.outgoing_bytes());
        heard.extend(ends.hear().unwrap());
        // Halfway through, the client updates its key.
        if done < answer.len() / 2 {
            ends.client.refresh_traffic_keys().unwrap();
            let said = ends.said();
            ends.give(&said, usize::MAX).unwrap();
        }
    }
    assert!(heard == answer);
    assert!(kept_bytes > 0, "{kept_bytes}");
    assert!(kept_bytes < 64 * 1024, "{kept_bytes}");
}

#[test]
fn a_hello_in_many_small_records_is_understood() {
    let mut ends = Ends::new(&configs());
    let said = ends.said();
    // One record with a header of five bytes, and the message in pieces of three.
    let pieces: Vec<u8> = said[5..]
        .chunks(3)
        .flat_map(|piece| [&[0x16, 3, 1, 0, piece.len() as u8], piece].concat())
        .collect();
    ends.give(&pieces, 11).unwrap();
    ends.hear().unwrap();
    ends.shake_hands(usize::MAX);
    ends.client.writer().write_all(b"hello").unwrap();
    let said = ends.said();
    ends.give(&said, usize::MAX).unwrap();
    assert_eq!(ends.heard, b"hello");
}

#[test]
fn a_message_without_an_end_is_refused_before_it_is_large() {
    let mut ends = Ends::new(&configs());
    // The header announces a handshake message of 60,000 bytes.
    let head = [0x16, 3, 1, 0x40, 0, 1, 0, 0xea, 0x60];
    let mut bytes = head.to_vec();
    bytes.resize(0x4005, 0);
    let refused = (0..10).any(|_| {
        let refused = ends.give(&bytes, 5000).is_err();
        bytes = [&[0x16, 3, 1, 0x40, 0][..], &[0; 0x4000]].concat();
        assert!(ends.tls.incoming_bytes() <= INCOMING_BYTES_MAX);
        refused
    });
    assert!(refused);
    assert_eq!(ends.counters.read(Counter::SslHandshakeErrors), 1);
}

/// Pseudo-random numbers, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn bytes_changed_on_their_way_end_a_connection_and_nothing_else() {
    let configs = configs();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut ended, rounds) = (0, 600);
    for _ in 0..rounds {
        let mut ends = Ends::new(&configs);
        if dice.below(3) > 0 {
            ends.shake_hands(1 + dice.below(2000));
            ends.client.writer().write_all(&vec![b'x'; dice.below(20_000)]).unwrap();
        }
        let mut said = ends.said();
        for _ in 0..=dice.below(3) {
            let at = dice.below(said.len().max(1));
            match dice.below(4) {
                0 => said.truncate(at),
                1 => said.insert(at.min(said.len()), dice.below(256) as u8),
                2 => said.extend_from_within(at.min(said.len())..),
                _ => said.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << dice.below(8)),
            }
        }
        ended += u32::from(ends.give(&said, 1 + dice.below(5000)).is_err());
        // A response may be in progress at this point.
        let _ = ends.tls.send(&ends.socket, &mut ends.records, [&b"answer"[..]]);
        let _ = ends.hear();
        let said = ends.said();
        let _ = ends.give(&said, 1 + dice.below(5000));
        ends.tls.say_goodbye(&ends.socket);
        assert!(ends.tls.incoming_bytes() <= INCOMING_BYTES_MAX);
    }
    assert!(ended > rounds / 4, "{ended}");
}
