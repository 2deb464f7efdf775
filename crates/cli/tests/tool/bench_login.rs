//! `larder bench` on servers that authenticate clients by password or certificate.

use std::io::{Read, Write};
use std::net::TcpStream;

use larder_testkit::{ServerUnderTest, Transport};

use crate::bench::json;
use crate::secured::certificates::{Files, authority, identity};
use crate::{Fixture, Ran, binary, larder, start_server};

fn login<'a>(user: &'a str, password_file: &'a str) -> [&'a str; 4] {
    ["--user", user, "--password-file", password_file]
}

#[test]
fn a_password_opens_the_text_and_the_meta_protocol() {
    let files = Files::new();
    let users = files.write("users", "reader:pass-word\nother:x\n");
    let right = files.write("right", "pass-word\n");
    let wrong = files.write("wrong", "password\n");
    for transport in [Transport::Unix, Transport::Tcp] {
        let fixture = Fixture::start_on(transport, &["-m", "64", "-Y", &users]);
        for dialect in ["text", "meta"] {
            let bench = |login: &[&str]| {
                let args = ["--seconds=1", "--connections=3", "--json", "--dialect"];
                fixture.larder("bench", &[&args[..], &[dialect], login].concat())
            };
            let counted = json(bench(&login("reader", &right)).printed());
            assert_eq!(
                (&counted["hit_ratio"], &counted["errors"]),
                (&1.0.into(), &serde_json::json!({}))
            );
            let refused = "refuses the login of \"reader\": CLIENT_ERROR authentication failure";
            bench(&login("reader", &wrong)).failed(2, refused);
            let ran = bench(&["--no-load", "--mode=get"]);
            assert_eq!(ran.exit_code, 1, "{ran:?}");
            assert_eq!(json(ran.stdout)["requests"], 0);
        }
    }
}

#[test]
fn a_server_without_authentication_does_not_keep_the_password() {
    let files = Files::new();
    let password = files.write("password", "secret");
    let fixture = Fixture::start();
    let args = ["--seconds=1", "--connections=2"];
    fixture.larder("bench", &[&args[..], &login("reader", &password)].concat()).printed();
    assert_eq!(fixture.larder("get", &["login"]).exit_code, 1);
}

/// Accepts these credentials through SASL PLAIN, and responds to lookups with misses.
fn serve_sasl(credentials: &'static [u8]) -> String {
    fn packet(stream: &mut TcpStream) -> Option<([u8; 24], Vec<u8>)> {
        let mut header = [0; 24];
        stream.read_exact(&mut header).ok()?;
        let mut body = vec![0; u32::from_be_bytes(header[8..12].try_into().unwrap()) as usize];
        stream.read_exact(&mut body).ok()?;
        Some((header, body))
    }
    start_server(move |mut stream| {
        let mut is_in = false;
        while let Some((header, body)) = packet(&mut stream) {
            let is_login = header[1] == 0x21;
            is_in |= is_login && body == [b"PLAIN", credentials].concat();
            let (status, words) = match (is_in, is_login) {
                (false, _) => (0x20, &b"Auth failure."[..]),
                (true, true) => (0, &b"Authenticated"[..]),
                (true, false) => (1, &b"Not found"[..]),
            };
            let mut answer = [0; 24];
            (answer[0], answer[1], answer[7], answer[11]) =
                (0x81, header[1], status, words.len() as u8);
            answer[12..16].copy_from_slice(&header[12..16]);
            stream.write_all(&[&answer, words].concat()).ok();
        }
    })
}

#[test]
fn a_password_opens_the_binary_protocol_by_sasl() {
    let files = Files::new();
    let (right, wrong) = (files.write("right", "secret\r\n"), files.write("wrong", "Secret"));
    let address = serve_sasl(b"\0reader\0secret");
    check_sasl(&address, &["--no-load"], &right, &wrong);
    let users = files.write("users", "reader:secret\n");
    let pwdb = [("MEMCACHED_SASL_PWDB", &*users)];
    let server = ServerUnderTest::start_with(&binary(), Transport::Tcp, &["-S"], &pwdb);
    let fixture = Fixture { server: server.unwrap() };
    check_sasl(&fixture.address(), &[], &right, &wrong);
}

fn check_sasl(address: &str, more: &[&str], right: &str, wrong: &str) {
    let bench = |login: &[&str]| {
        let args = ["bench", "-s", address, "--dialect=binary", "--seconds=1", "--connections=2"];
        larder(b"", &[&args[..], &["--json"], more, login].concat())
    };
    let counted = json(bench(&login("reader", right)).printed());
    assert!(counted["requests"].as_u64() > Some(100), "{counted}");
    bench(&login("reader", wrong)).failed(2, "refuses the login of \"reader\": Auth failure.");
    let ran = bench(&[]);
    assert_ne!(ran.exit_code, 0, "{ran:?}");
}

#[test]
fn invalid_logins_are_refused() {
    let files = Files::new();
    let (empty, two) = (files.write("empty", "\n"), files.write("two", "a\nb\n"));
    for (options, said) in [
        (&["--user=a"][..], "--user needs a password: give --password-file FILE"),
        (&["--password-file=a"], "--password-file needs --user"),
        (&["--user=a b", "--password-file=x"], "expected a name without spaces"),
        (&["--user=a", "--password-file=/nowhere/x"], "cannot read the password in /nowhere/x"),
        (&["--user=a", "--password-file", &empty], "expected one line with the password"),
        (&["--user=a", "--password-file", &two], "expected one line with the password"),
        (&["--user=a", "--password-file", &two, "--udp"], "--udp does not support a login"),
        (&["--tls-cert=x"], "--tls-cert needs --tls"),
        (&["--tls", "--insecure", "--tls-cert=x"], "--tls-cert and --tls-key belong together"),
        (&["--tls", "--insecure", "--tls-key=x"], "--tls-cert and --tls-key belong together"),
        (
            &["--tls", "--insecure", "--tls-cert", &two, "--tls-key", &two],
            "there is no certificate in this file",
        ),
    ] {
        larder(b"", &[&["bench"], options].concat()).failed(2, said);
    }
}

#[test]
fn the_client_sends_its_certificate_to_a_server_that_requires_one() {
    let files = Files::new();
    let (ours, ca) = authority(&files, "ours");
    let (theirs, _) = authority(&files, "theirs");
    let [chain, key] = identity(&files, "server", &ours);
    let [certificate, certificate_key] = identity(&files, "client", &ours);
    let [stranger, stranger_key] = identity(&files, "stranger", &theirs);
    let words = format!("ssl_chain_cert={chain},ssl_key={key},ssl_ca_cert={ca},ssl_verify_mode=2");
    let fixture = Fixture::start_on(Transport::Tcp, &["-Z", "-o", &words]);
    let bench = |more: &[&str]| -> Ran {
        let args = ["--tls", "--tls-ca", &ca, "--tls-name=localhost", "--seconds=1", "--json"];
        fixture.larder("bench", &[&args[..], &["--connections=2", "--keys=100"], more].concat())
    };
    let ran = bench(&["--tls-cert", &certificate, "--tls-key", &certificate_key]);
    assert_eq!(json(ran.printed())["hit_ratio"], 1.0);
    for refused in [&[][..], &["--tls-cert", &stranger, "--tls-key", &stranger_key]] {
        assert_eq!(bench(refused).exit_code, 2, "{refused:?}");
    }
    bench(&["--tls-cert", &certificate, "--tls-key", &stranger_key]).failed(2, "stranger.key");
    bench(&["--tls-cert", &certificate, "--tls-key", &ca])
        .failed(2, "there is no private key in this file");
}
