//! Admin listeners with TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::Duration;

use larder_testkit::server::free_address;

use super::certificates::authority;
use super::{Scene, strs};
use crate::admin::Managed;
use crate::{Fixture, Ran, larder};

const TOKEN: &str = "0123456789-0123456789-0123456789";

/// A larderd with TLS on the cache and on an admin listener.
struct Encrypted {
    scene: Scene,
    _fixture: Fixture,
    admin: String,
    /// The option with a token that has the role `full`.
    token: String,
}

impl Encrypted {
    /// Starts a larderd with these words of `-o`.
    fn start(words: &str) -> Self {
        let scene = Scene::new();
        let admin = free_address().unwrap().to_string();
        let tokens = scene.files.write("tokens", &format!("full {TOKEN}\n"));
        fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
        let listen = format!("--admin-listen={admin},tls");
        let fixture = scene.start(words, &[&listen, "--admin-token-file", &tokens]);
        let token = format!("--token-file={}", scene.files.write("token", TOKEN));
        let encrypted = Self { scene, _fixture: fixture, admin, token };
        // The admin listener answers before the cache is open.
        let probe = [&encrypted.scene.tls()[..], &strs(&encrypted.scene.client)].concat();
        while encrypted.keys(&probe).stderr.contains("recovering") {
            sleep(Duration::from_millis(10));
        }
        encrypted
    }

    fn larder(&self, args: &[&str]) -> Ran {
        larder(b"", &[args, &["--server", &self.admin, &self.token]].concat())
    }

    fn keys(&self, options: &[&str]) -> Ran {
        self.larder(&[&["keys"], options].concat())
    }
}

#[test]
fn the_subcommands_of_the_admin_listener_speak_tls() {
    let encrypted = Encrypted::start("");
    let with = |args: &[&str]| encrypted.larder(&[args, &encrypted.scene.tls()].concat());
    with(&["keys"]).printed();
    let top = String::from_utf8(with(&["top", "--once"]).printed()).unwrap();
    assert!(top.contains(&format!("at {}", encrypted.admin)), "{top}");
    with(&["hot"]).printed();
    assert!(with(&["delete", "--prefix", "a"]).printed().starts_with(b"0 items removed"));
    assert!(with(&["drain"]).printed().starts_with(b"draining"));
    assert!(with(&["drain", "--undo"]).printed().starts_with(b"serving"));
}

#[test]
fn an_admin_listener_that_is_missed_is_explained() {
    let encrypted = Encrypted::start("");
    let Scene { files, .. } = &encrypted.scene;
    let tls = encrypted.scene.tls();
    encrypted.keys(&[]).failed(2, "speaks TLS: add --tls and --tls-ca FILE");
    let (_, other) = authority(files, "other");
    let untrusted = "certificate is not signed by an authority of --tls-ca";
    encrypted.keys(&["--tls", "--tls-ca", &other]).failed(2, untrusted);
    let elsewhere = [&tls[..], &["--tls-name=elsewhere"]].concat();
    encrypted.keys(&elsewhere).failed(2, "not for elsewhere: --tls-name gives the name");

    let plain = free_address().unwrap().to_string();
    let _managed = Managed::start(&["--admin-listen", &plain]);
    larder(b"", &["keys", "--server", &plain]).failed(2, "this needs a token");
    let ran = larder(b"", &[&["keys", "--server", &plain], &tls[..]].concat());
    ran.failed(2, "does not speak TLS: leave --tls out");
}

#[test]
fn an_admin_listener_that_demands_certificates_gets_them() {
    for versions in ["", ",ssl_min_version=3"] {
        let words = format!(",ssl_verify_mode=2{versions}");
        let encrypted = Encrypted::start(&words);
        let Scene { client, stranger, .. } = &encrypted.scene;
        let with = |more: &[&str]| encrypted.keys(&[&encrypted.scene.tls()[..], more].concat());
        with(&strs(client)).printed();
        with(&[]).failed(2, "--tls-cert FILE and --tls-key FILE");
        with(&strs(stranger)).failed(2, "the certificate of --tls-cert must be");
    }
}
