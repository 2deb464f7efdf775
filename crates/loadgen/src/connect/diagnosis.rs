//! Finds out which protocol a server speaks after a conversation with it has failed.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use larder_protocol::Command;
use larder_protocol::binary::client::{Manner, request as binary};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::stream::Stream;

/// The protocol that a server speaks on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    /// TLS, on a connection that was opened without TLS.
    Tls,
    /// The text protocol, and perhaps also the binary protocol.
    Text,
    /// Only the binary protocol.
    Binary,
}

/// Requests the version in each protocol, each on a new connection. Returns `None` if the response
/// is unknown. Does not send a password.
pub(super) fn spoken(open: impl Fn() -> Result<Stream>) -> Option<Spoken> {
    let questions = [Ok(b"version\r\n".to_vec()), version_in_binary(), client_hello()];
    let mut questions = questions.into_iter().flatten();
    questions.find_map(|question| classify(&ask(&mut open().ok()?, &question)))
}

/// Returns the first bytes of the response; empty if the server does not respond.
fn ask(stream: &mut Stream, question: &[u8]) -> Vec<u8> {
    let mut answer = vec![0; ANSWER_BYTES_MAX];
    let asked = stream.set_read_timeout(ANSWER_TIME_MAX);
    let asked = asked.and_then(|()| stream.write_all(question)).and_then(|()| stream.flush());
    let received = asked.and_then(|()| stream.read(&mut answer));
    // The caller reports that the server does not answer.
    answer.truncate(received.unwrap_or(0));
    answer
}

fn classify(answer: &[u8]) -> Option<Spoken> {
    match answer {
        // TLS records: an alert, or a part of a handshake.
        [0x15 | 0x16, 3, ..] => Some(Spoken::Tls),
        [0x81, ..] => Some(Spoken::Binary),
        _ if [&b"VERSION"[..], b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR"]
            .iter()
            .any(|word| answer.starts_with(word)) =>
        {
            Some(Spoken::Text)
        }
        _ => None,
    }
}

fn version_in_binary() -> Result<Vec<u8>> {
    let mut request = Vec::new();
    binary::command(&mut request, &Command::Version, Manner::default())?;
    Ok(request)
}

/// Returns the first record of a TLS handshake. The handshake is never completed.
fn client_hello() -> Result<Vec<u8>> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let mut hello = Vec::new();
    let name = ServerName::try_from("localhost")?;
    ClientConnection::new(Arc::new(config), name)?.write_tls(&mut hello)?;
    Ok(hello)
}

const ANSWER_BYTES_MAX: usize = 64;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart_by_their_first_bytes() {
        for (answer, expected) in [
            (&b"VERSION 1.6.18\r\n"[..], Some(Spoken::Text)),
            (b"CLIENT_ERROR unauthenticated\r\n", Some(Spoken::Text)),
            (b"\x15\x03\x03\0\x02\x022", Some(Spoken::Tls)),
            (b"\x16\x03\x03\0z", Some(Spoken::Tls)),
            (b"\x81\x0b\0\0", Some(Spoken::Binary)),
            (b"HTTP/1.1 400", None),
            (b"\x15", None),
            (b"", None),
        ] {
            assert_eq!(classify(answer), expected, "{}", answer.escape_ascii());
        }
    }

    #[test]
    fn the_questions_are_of_their_protocols() {
        let hello = client_hello().unwrap();
        assert_eq!(classify(&hello), Some(Spoken::Tls), "{}", hello.escape_ascii());
        assert_eq!(version_in_binary().unwrap()[..2], [0x80, 0x0b]);
    }
}
