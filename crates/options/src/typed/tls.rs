//! The settings of `-Z` and the `ssl_*` words.

use std::path::PathBuf;

use crate::error::OptionError;
use crate::given::values::Values;
use crate::table::Id;
use crate::value::listen::{Listen, Security};

/// How connections are encrypted: `-Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// `-o ssl_chain_cert`: file of the server's certificate and its chain, in PEM.
    pub chain_cert: PathBuf,
    /// `-o ssl_key`: the key of that certificate.
    pub key: PathBuf,
    /// `-o ssl_keyformat`: the form of the key.
    pub key_format: KeyFormat,
    /// `-o ssl_ca_cert`: the authorities that sign clients' certificates, in PEM.
    pub ca_cert: Option<PathBuf>,
    /// `-o ssl_verify_mode`: the client certificates that the server asks for at addresses of `-l`
    /// without one of the prefixes `notls:`, `btls:` and `mtls:`.
    pub verify: ClientCertificates,
    /// `-o ssl_ciphers`: names of cipher suites; `None`: all.
    pub ciphers: Option<String>,
    /// `-o ssl_wbuf_size`: how many bytes of a response are encrypted at a time before they are
    /// sent.
    pub write_bytes: usize,
    /// `-o ssl_session_cache`: clients may resume a session.
    pub session_cache: bool,
    /// `-o ssl_min_version` is 3: TLS 1.3 only. Otherwise also TLS 1.2; older versions are not
    /// supported.
    pub only_tls13: bool,
}

/// The format of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFormat {
    /// `1`, the default.
    Pem,
    /// `2`.
    Der,
}

/// The client certificates that a server asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// None.
    None,
    /// Optional; a certificate that a client sends must be valid.
    Requested,
    /// Required and valid.
    Required,
}

impl Tls {
    /// Returns the TLS settings; `None` without `-Z`.
    pub(crate) fn new(values: &Values) -> Option<Self> {
        if !values.switch(Id::EnableSsl) {
            return None;
        }
        let path = |id| values.text(id).map(PathBuf::from);
        Some(Self {
            chain_cert: path(Id::SslChainCert)?,
            key: path(Id::SslKey)?,
            key_format: match values.number(Id::SslKeyformat) {
                Some(2) => KeyFormat::Der,
                _ => KeyFormat::Pem,
            },
            ca_cert: path(Id::SslCaCert),
            verify: match values.number(Id::SslVerifyMode) {
                Some(2) => ClientCertificates::Required,
                // In these modes certificates are optional. Without authorities every certificate
                // would be invalid, so the server does not ask for them.
                Some(1 | 3) if values.given(Id::SslCaCert).is_some() => {
                    ClientCertificates::Requested
                }
                _ => ClientCertificates::None,
            },
            ciphers: values.text(Id::SslCiphers).map(str::to_owned),
            write_bytes: values.unsigned::<usize>(Id::SslWbufSize).saturating_mul(1024),
            session_cache: values.switch(Id::SslSessionCache),
            only_tls13: values.number(Id::SslMinVersion) == Some(3),
        })
    }

    /// Returns the client certificates that the server asks for at an address; `None` if the
    /// address is not encrypted.
    pub fn client_certificates(&self, security: Security) -> Option<ClientCertificates> {
        match security {
            Security::Default => Some(self.verify),
            Security::Plain => None,
            Security::Tls => Some(ClientCertificates::None),
            Security::MutualTls => Some(ClientCertificates::Required),
        }
    }
}

/// Checks that options that need each other are given together.
pub(crate) fn check(values: &Values, warnings: &mut Vec<String>) -> Result<(), OptionError> {
    let listen = values.listen(Id::Listen);
    let refuse = |message: String| Err(OptionError::new(message));
    if !values.switch(Id::EnableSsl) {
        let prefixed = listen.iter().find(|listen| listen.security() != Security::Default);
        return match prefixed {
            Some(listen) => refuse(format!("option -l: {listen}: only possible with -Z")),
            None => Ok(()),
        };
    }
    let has_no_tcp = !listen.is_empty() && listen.iter().all(Listen::is_unix);
    if values.given(Id::UnixSocket).is_some() || values.number(Id::Port) == Some(0) {
        return refuse("option -Z: TLS needs a TCP port: leave out -s, and -p 0".into());
    }
    if has_no_tcp {
        return refuse("option -Z: TLS needs a TCP port: add an address of TCP to -l".into());
    }
    for (id, what) in [(Id::SslChainCert, "the certificate chain"), (Id::SslKey, "its key")] {
        if values.given(id).is_none() {
            let word = id.row().spelling();
            return refuse(format!("option -Z: it needs {word}, the file of {what}"));
        }
    }
    if let (Some(reason), None) =
        (demands_certificates(values, &listen), values.given(Id::SslCaCert))
    {
        let message = format!(
            "{reason}: it needs -o ssl_ca_cert, the file of the authorities that sign the clients' \
            certificates"
        );
        return refuse(message);
    }
    if let (Some(mode @ (1 | 3)), None) =
        (values.number(Id::SslVerifyMode), values.given(Id::SslCaCert))
    {
        warnings.push(format!(
            "option -o ssl_verify_mode: {mode} without -o ssl_ca_cert: clients are not asked for \
            certificates, since none could be valid"
        ));
    }
    if let Some(version @ (0 | 1)) = values.number(Id::SslMinVersion) {
        warnings.push(format!(
            "option -o ssl_min_version: {version} is TLS 1.{version}, which is broken and not \
            supported: clients need TLS 1.2 or 1.3"
        ));
    }
    Ok(())
}

/// Returns the option that requires client certificates, if one does.
fn demands_certificates(values: &Values, listen: &[Listen]) -> Option<String> {
    if values.number(Id::SslVerifyMode) == Some(2) {
        return Some("option -o ssl_verify_mode: 2".into());
    }
    let mutual = listen.iter().find(|listen| listen.security() == Security::MutualTls);
    let of_cache = mutual.map(|listen| format!("option -l: {listen}"));
    let admin = values.admin_listen(Id::AdminListen);
    let mutual = admin.iter().find(|listen| listen.security == Security::MutualTls);
    of_cache.or(mutual.map(|listen| format!("option --admin-listen: {listen}")))
}
