//! The addresses on which a server listens, and the local readers that they admit.

use std::path::PathBuf;
use std::slice;

use crate::given::values::Values;
use crate::table::Id;
use crate::typed::options::Options;
use crate::typed::tls::ClientCertificates;
use crate::value::listen::{Listen, ListenPlace};
use crate::value::protocol::Protocol;
use crate::value::readers::LocalReaders;

/// An address to bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAt {
    /// A host name or an address; `None`: every address of the machine.
    pub host: Option<String>,
    /// Its port; 0: any free one.
    pub port: u16,
    /// The client certificates that TLS asks for at this address; `None`: no TLS. UDP never has
    /// TLS.
    pub client_certificates: Option<ClientCertificates>,
    /// The protocol of its clients.
    pub protocol: Protocol,
    /// True if its clients may change nothing.
    pub is_readonly: bool,
}

/// A unix socket to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixListenAt {
    /// Its path.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
    /// The protocol of its clients.
    pub protocol: Protocol,
    /// True if the processes of [`Options::local_readers`] may connect here to read the cache's
    /// memory.
    pub has_readers: bool,
    /// True if its clients may change nothing.
    pub is_readonly: bool,
    /// True if its clients need not log in, although others must.
    pub needs_no_login: bool,
    /// True if it replaces a socket on which another process listens, as memcached does.
    pub takes_over: bool,
}

impl Options {
    /// Returns the addresses to bind for TCP. Empty with `-s`, with `-p 0`, and if all addresses of
    /// `-l` are unix sockets.
    pub fn tcp_addresses(&self) -> Vec<ListenAt> {
        self.addresses(self.port)
    }

    /// Returns the addresses to bind for UDP. They are those of TCP. Empty also with `-U 0`, the
    /// default.
    pub fn udp_addresses(&self) -> Vec<ListenAt> {
        self.addresses(self.udp_port)
    }

    /// Returns the unix sockets: the one of `-s` or, without it, those of `-l`.
    pub fn unix_addresses(&self) -> Vec<UnixListenAt> {
        if let Some(path) = &self.unix_socket {
            return vec![UnixListenAt {
                path: path.clone(),
                mode: self.unix_mask,
                protocol: self.protocol,
                has_readers: self.local_readers != LocalReaders::Off,
                is_readonly: false,
                needs_no_login: false,
                takes_over: true,
            }];
        }
        let at = |listen: &Listen| match &listen.place {
            ListenPlace::Tcp { .. } => None,
            ListenPlace::Unix { path, mode, has_readers, needs_no_login } => Some(UnixListenAt {
                path: path.clone(),
                mode: mode.unwrap_or(self.unix_mask),
                protocol: listen.protocol.unwrap_or(self.protocol),
                has_readers: *has_readers,
                is_readonly: listen.is_readonly,
                needs_no_login: *needs_no_login,
                takes_over: false,
            }),
        };
        self.listen.iter().filter_map(at).collect()
    }

    /// True if other processes may read the cache's memory: a unix socket admits them. False with a
    /// memory file, because anyone who truncates a named file would crash the readers.
    pub fn has_readers(&self) -> bool {
        self.memory_file.is_none() && self.unix_addresses().iter().any(|at| at.has_readers)
    }

    fn addresses(&self, port: Option<u16>) -> Vec<ListenAt> {
        let Some(default_port) = port.filter(|_| self.unix_socket.is_none()) else {
            return Vec::new();
        };
        let listen = match self.listen.is_empty() {
            true => slice::from_ref(&Listen::EVERYWHERE),
            false => &self.listen[..],
        };
        let at = |listen: &Listen| match &listen.place {
            ListenPlace::Unix { .. } => None,
            ListenPlace::Tcp { host, port, security } => Some(ListenAt {
                host: host.clone(),
                port: port.unwrap_or(default_port),
                client_certificates: self
                    .tls
                    .as_ref()
                    .and_then(|tls| tls.client_certificates(*security)),
                protocol: listen.protocol.unwrap_or(self.protocol),
                is_readonly: listen.is_readonly,
            }),
        };
        listen.iter().filter_map(at).collect()
    }
}

/// Returns the processes of `--local-readers`. Without it, an address with the word `readers`
/// admits those of the server's user.
pub(crate) fn local_readers(values: &Values) -> LocalReaders {
    let given = values.text(Id::LocalReaders).and_then(LocalReaders::parse).unwrap_or_default();
    match given {
        LocalReaders::Off if wants_readers(values) => LocalReaders::SameUser,
        given => given,
    }
}

/// True if an address of `-l` has the word `readers`. With `-s`, `-l` has no effect.
pub(crate) fn wants_readers(values: &Values) -> bool {
    values.given(Id::UnixSocket).is_none()
        && values.listen(Id::Listen).iter().any(Listen::has_readers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(map: &[(&str, &str)]) -> String {
        let (options, _) = Options::from_map(map.iter().copied()).unwrap();
        let texts: Vec<_> = options
            .tcp_addresses()
            .iter()
            .map(|at| format!("{} {}", at.host.as_deref().unwrap_or("all"), at.port))
            .collect();
        texts.join(", ")
    }

    #[test]
    fn an_address_without_a_port_uses_that_of_p() {
        assert_eq!(addresses(&[]), "all 11211");
        assert_eq!(addresses(&[("port", "-1")]), "all 0");
        let list = ("listen", "127.0.0.1,[::1]:3,*:0");
        assert_eq!(addresses(&[list, ("port", "7")]), "127.0.0.1 7, ::1 3, all 0");
    }

    #[test]
    fn there_is_no_tcp_with_port_0_or_a_unix_socket() {
        let list = ("listen", "127.0.0.1:5");
        assert_eq!(addresses(&[list, ("port", "0")]), "");
        assert_eq!(addresses(&[list, ("unix_socket", "/s")]), "");
    }

    #[test]
    fn each_address_selects_its_client_certificates() {
        let (options, _) = Options::from_map([
            ("enable_ssl", "yes"),
            ("ssl_chain_cert", "/c"),
            ("ssl_key", "/k"),
            ("ssl_ca_cert", "/a"),
            ("ssl_verify_mode", "1"),
            ("listen", "a,notls:b,btls:c,mtls:d"),
        ])
        .unwrap();
        let asked: Vec<_> =
            options.tcp_addresses().iter().map(|at| at.client_certificates).collect();
        type Asked = ClientCertificates;
        assert_eq!(asked, [Some(Asked::Requested), None, Some(Asked::None), Some(Asked::Required)]);
    }

    #[test]
    fn unix_sockets_stand_next_to_tcp_and_have_their_own_words() {
        let list = "127.0.0.1,unix[mode=660,readers]:/a,proto[ascii]:unix[noauth,readonly]:/b,\
                    readonly:[::1]:3";
        let more = [("listen", list), ("unix_mask", "750"), ("udp_port", "5"), ("port", "6")];
        let (options, _) = Options::from_map(more).unwrap();
        let of_a = UnixListenAt {
            path: "/a".into(),
            mode: 0o660,
            protocol: Protocol::Auto,
            has_readers: true,
            is_readonly: false,
            needs_no_login: false,
            takes_over: false,
        };
        let of_b = UnixListenAt {
            path: "/b".into(),
            mode: 0o750,
            protocol: Protocol::Ascii,
            has_readers: false,
            is_readonly: true,
            needs_no_login: true,
            takes_over: false,
        };
        assert_eq!(options.unix_addresses(), [of_a, of_b]);
        assert_eq!(addresses(&more), "127.0.0.1 6, ::1 3");
        let readonly: Vec<_> = options.udp_addresses().iter().map(|at| at.is_readonly).collect();
        assert_eq!(readonly, [false, true], "UDP uses the addresses of TCP");
        // No address of TCP is left, so the server opens no port.
        assert_eq!(addresses(&[("listen", "unix:/a")]), "");
        let (options, _) =
            Options::from_map([("listen", "*,unix:/a"), ("unix_socket", "/s")]).unwrap();
        assert_eq!(options.unix_addresses()[0].path.to_str(), Some("/s"), "as in memcached");
    }

    #[test]
    fn local_readers_need_a_socket_that_admits_them() {
        use LocalReaders::{Any, Off, SameUser};
        let word = ("listen", "*,unix[readers]:/a");
        for (map, who, expected) in [
            (&[word][..], SameUser, true),
            (&[word, ("local_readers", "any")], Any, true),
            (&[word, ("memory_file", "/f")], SameUser, false),
            (&[word, ("unix_socket", "/s")], Off, false),
            (&[("unix_socket", "/s"), ("local_readers", "any")], Any, true),
            (&[("listen", "unix:/a"), ("local_readers", "any")], Any, false),
            (&[], Off, false),
        ] {
            let (options, _) = Options::from_map(map.iter().copied()).unwrap();
            assert_eq!(
                (&options.local_readers, options.has_readers()),
                (&who, expected),
                "{map:?}"
            );
        }
    }

    #[test]
    fn listeners_that_contradict_other_options_are_refused() {
        let readers = ("listen", "*,unix[readers]:/a");
        for (map, words) in [
            (&[readers, ("local_readers", "off")][..], "off contradicts the word readers"),
            (&[readers, ("enable_largepages", "yes")], "listen: memory for local readers"),
            (&[("listen", "unix:/a,unix:/./a")], "listen: another listener has the path /./a"),
            (&[readers, ("admin_listen", "/a")], "admin_listen: another listener has the path /a"),
            (&[("unix_socket", "/a"), ("admin_listen", "unix:/a")], "has the path /a"),
            (&[("listen", "unix:/a"), ("enable_ssl", "yes")], "add an address of TCP to -l"),
        ] {
            let error = Options::from_map(map.iter().copied()).unwrap_err().to_string();
            assert!(error.contains(words), "{map:?}: {error}");
        }
        for (map, words) in [
            (&[("listen", "unix:/a"), ("local_readers", "any")][..], "unix[readers]:PATH in -l"),
            (&[readers, ("memory_file", "/f")], "-l: readers: it has no effect with -e"),
            (&[readers, ("unix_socket", "/s")], "its unix sockets have no effect with -s"),
            (&[("listen", "*"), ("port", "0")], "clients cannot connect"),
            (&[("listen", "unix:/a"), ("udp_port", "5")], "-U: it has no effect without an"),
        ] {
            let (_, warnings) = Options::from_map(map.iter().copied()).unwrap();
            assert!(warnings.len() == 1 && warnings[0].contains(words), "{map:?}: {warnings:?}");
        }
        let (_, warnings) = Options::from_map([readers, ("port", "0")]).unwrap();
        assert_eq!(warnings, [""; 0], "clients can connect to the unix socket");
    }
}
