//! The terms of the listeners, which a server passes to its successor with the sockets. The
//! successor uses those of its own options, and logs the differences.

use std::fs::{self, Permissions};
use std::io;
use std::iter;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use larder_options::{ClientCertificates, Protocol};

use crate::log;
use crate::net::datagrams::Datagrams;
use crate::net::sockets::{Address, Socket};
use crate::net::terms::ListenerTerms;

/// Returns a text with a line for each socket, in the order in which the sockets are handed over.
/// The first line states whether systemd has given them.
pub(crate) fn text(sockets: &[Socket], datagrams: &[Datagrams], is_given: bool) -> String {
    let streams = sockets.iter().map(|socket| words(&socket.terms, socket.mode));
    let datagrams = datagrams.iter().map(|socket| words(&socket.terms, None));
    let lines = streams.chain(datagrams).map(|words| words.join(","));
    let first = if is_given { GIVEN } else { "opened" };
    iter::once(first.to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
}

/// Returns whether systemd has given the sockets, and the lines of the sockets.
pub(super) fn read(text: &str) -> (bool, impl Iterator<Item = &str>) {
    let mut lines = text.split('\n');
    (lines.next() == Some(GIVEN), lines)
}

/// Returns the words of a listener, always in the same order.
fn words(terms: &ListenerTerms, mode: Option<u32>) -> [String; 6] {
    let ListenerTerms { protocol, client_certificates, has_readers, is_readonly, needs_no_login } =
        *terms;
    let protocol = match protocol {
        Protocol::Auto => "proto[negotiating]",
        Protocol::Ascii => "proto[ascii]",
        Protocol::Binary => "proto[binary]",
    };
    let tls = match client_certificates {
        None => "notls",
        Some(ClientCertificates::None) => "btls",
        Some(ClientCertificates::Requested) => "tls",
        Some(ClientCertificates::Required) => "mtls",
    };
    let word = |is_there: bool, word: &str| match is_there {
        true => word.to_owned(),
        false => format!("no {word}"),
    };
    [
        protocol.to_owned(),
        tls.to_owned(),
        word(has_readers, "readers"),
        word(is_readonly, "readonly"),
        word(needs_no_login, "noauth"),
        mode.map(|mode| format!("{MODE}{mode:o}")).unwrap_or_default(),
    ]
}

/// True if the predecessor's options named the path of this socket.
pub(super) fn named_path(before: &str) -> bool {
    before.split(',').any(|word| word.starts_with(MODE))
}

/// The differences between the listeners of the predecessor and those of this process.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    lines: Vec<String>,
    /// Paths with their new permissions.
    modes: Vec<(PathBuf, u32)>,
}

impl Changes {
    /// Compares a listener with its words at the predecessor.
    pub(super) fn compare(&mut self, before: &str, socket: &Socket) {
        let now = words(&socket.terms, socket.mode);
        self.note_words(before, &socket.address, &now);
        let is_changed = |word: &String| !word.is_empty() && before.split(',').all(|of| of != word);
        if let (Address::Unix(path), Some(mode), [.., word]) = (&socket.address, socket.mode, &now)
            && named_path(before)
            && is_changed(word)
        {
            self.modes.push((path.clone(), mode));
        }
    }

    /// Compares a UDP socket with its words at the predecessor.
    pub(super) fn compare_datagrams(&mut self, before: &str, socket: &Datagrams) {
        self.note_words(before, &Address::Tcp(socket.address), &words(&socket.terms, None));
    }

    fn note_words(&mut self, before: &str, address: &Address, now: &[String]) {
        for (before, now) in before.split(',').zip(now) {
            if before != now && !before.is_empty() && !now.is_empty() {
                self.lines.push(format!("listener {address}: {before} → {now}"));
            }
        }
    }

    /// Notes a listener that the predecessor did not have.
    pub(super) fn note_new(&mut self, address: &Address) {
        self.lines.push(format!("listener {address}: new"));
    }

    /// Notes a listener that the options no longer name.
    pub(super) fn note_gone(&mut self, address: &Address) {
        let why = "closed, because the options no longer name it";
        self.lines.push(format!("listener {address}: {why}"));
    }

    /// Notes a new listener that cannot be opened before a restart.
    pub(super) fn note_closed(&mut self, address: &SocketAddr, error: &io::Error) {
        self.lines.push(format!("listener {address}: needs a restart: {error}"));
    }

    /// Changes the permissions of the paths, and logs all differences. Called once this process is
    /// about to serve, because until then the listeners are those of the predecessor.
    pub(crate) fn apply(self) {
        for (path, mode) in self.modes {
            if let Err(error) = fs::set_permissions(&path, Permissions::from_mode(mode)) {
                let path = path.display();
                log::warn(format_args!("larderd: cannot change the mode of {path}: {error}"));
            }
        }
        for line in self.lines {
            log::info(format_args!("larderd: {line}"));
        }
    }
}

const MODE: &str = "mode=";
const GIVEN: &str = "given";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_word_is_named_with_its_old_and_its_new_form() {
        let plain = ListenerTerms::plain(Protocol::Auto);
        let readers = ListenerTerms { has_readers: true, needs_no_login: true, ..plain };
        let socket = |terms, mode| Socket {
            descriptor: fs::File::open("/dev/null").unwrap().into(),
            transport: crate::net::inbox::Transport::Unix,
            address: Address::Unix("/s".into()),
            terms,
            mode,
        };
        let before = text(&[socket(readers, Some(0o660)), socket(plain, None)], &[], true);
        let (is_given, mut lines) = read(&before);
        let (first, second) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(is_given && lines.next().is_none());
        assert!(!read(&text(&[], &[], false)).0);
        assert!(named_path(first) && !named_path(second), "{before}");
        let mut changes = Changes::default();
        changes.compare(first, &socket(readers, Some(0o660)));
        changes.compare(second, &socket(plain, Some(0o600)));
        assert!(changes.lines.is_empty() && changes.modes.is_empty(), "{changes:?}");
        changes
            .compare(first, &socket(ListenerTerms { has_readers: false, ..readers }, Some(0o600)));
        assert_eq!(
            changes.lines,
            ["listener /s: readers → no readers", "listener /s: mode=660 → mode=600"]
        );
        assert_eq!(changes.modes, [("/s".into(), 0o600)]);
        // Another version may send other words.
        changes.compare("", &socket(plain, None));
        changes.compare("a,b,,d,e,f,g,h", &socket(plain, Some(0o600)));
    }
}
