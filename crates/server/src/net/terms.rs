//! The terms of a listener: what its connections may do, and how they are spoken to.

use larder_options::{ClientCertificates, ListenAt, Protocol, UnixListenAt};

/// The terms of a listener. Each of its connections has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerTerms {
    /// The protocol of its clients.
    pub(crate) protocol: Protocol,
    /// Whether TLS requires client certificates; `None` without TLS.
    pub(crate) client_certificates: Option<ClientCertificates>,
    /// True if the processes of `--local-readers` may connect here to read the cache's memory.
    pub(crate) has_readers: bool,
    /// True if clients may change nothing.
    pub(crate) is_readonly: bool,
    /// True if clients need not log in, although those of other listeners must.
    pub(crate) needs_no_login: bool,
}

impl ListenerTerms {
    /// Returns the terms of a listener without words.
    pub(crate) fn plain(protocol: Protocol) -> Self {
        Self {
            protocol,
            client_certificates: None,
            has_readers: false,
            is_readonly: false,
            needs_no_login: false,
        }
    }

    /// True if connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.client_certificates.is_some()
    }

    /// Returns the words that differ from a plain listener, for the line that names its address.
    pub(crate) fn named_words(&self) -> Vec<&'static str> {
        let words = [
            (self.is_encrypted(), "TLS"),
            (self.has_readers, "readers"),
            (self.is_readonly, "readonly"),
            (self.needs_no_login, "noauth"),
        ];
        words.into_iter().filter(|(is_said, _)| *is_said).map(|(_, word)| word).collect()
    }
}

impl From<&ListenAt> for ListenerTerms {
    fn from(at: &ListenAt) -> Self {
        let ListenAt { client_certificates, protocol, is_readonly, .. } = *at;
        Self { client_certificates, is_readonly, ..Self::plain(protocol) }
    }
}

impl From<&UnixListenAt> for ListenerTerms {
    fn from(at: &UnixListenAt) -> Self {
        let UnixListenAt { protocol, has_readers, is_readonly, needs_no_login, .. } = *at;
        Self { has_readers, is_readonly, needs_no_login, ..Self::plain(protocol) }
    }
}
