//! The options and the configuration of TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::refusal;
use crate::address::Address;
use crate::argument::Quoted;

/// The options of TLS.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TlsArguments {
    /// Speak TLS
    #[arg(long)]
    tls: bool,
    /// Certificates of the authorities that sign the server's certificate, in PEM
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The name that the server's certificate must have [default: the host of the address]
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
    /// The client certificate, with the chain to its authority, in PEM
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
}

/// The TLS configuration of a client, and the name of the server.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The configuration.
    pub config: Arc<ClientConfig>,
    /// The name that the server's certificate must have.
    pub name: ServerName<'static>,
    /// True if the client has a certificate.
    pub has_certificate: bool,
}

impl TlsArguments {
    /// Returns only `--tls`.
    pub(crate) fn only(tls: bool) -> Self {
        Self { tls, ..Self::default() }
    }

    /// True if the options request TLS.
    pub fn is_on(&self) -> bool {
        self.tls
    }

    /// True if the options specify how to check the server's certificate.
    pub(crate) fn checks_server(&self) -> bool {
        self.tls_ca.is_some() || self.tls_name.is_some()
    }

    /// Returns the name of the first option that is given.
    pub fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.tls, "--tls"),
            (self.tls_ca.is_some(), "--tls-ca"),
            (self.tls_name.is_some(), "--tls-name"),
            (self.tls_cert.is_some(), "--tls-cert"),
            (self.tls_key.is_some(), "--tls-key"),
        ];
        given.into_iter().find_map(|(is_given, option)| is_given.then_some(option))
    }

    /// Checks that the options are consistent with each other and with the address.
    ///
    /// # Errors
    /// Names the options that contradict each other, or the one that is missing.
    pub(crate) fn check(&self, address: &Address) -> Result<()> {
        self.check_insecure()?;
        ensure!(
            !self.tls || self.tls_ca.is_some(),
            "--tls needs --tls-ca FILE to check the server's certificate"
        );
        ensure!(
            !self.tls || self.tls_name.is_some() || !matches!(address, Address::Unix(_)),
            "--tls over a Unix socket needs --tls-name: the socket has no host name"
        );
        Ok(())
    }

    /// Checks that the options are consistent if the server's certificate is not checked.
    ///
    /// # Errors
    /// Same as [`Self::check`].
    pub(crate) fn check_insecure(&self) -> Result<()> {
        match self.first_given() {
            Some(option) => ensure!(self.tls, "{option} needs --tls"),
            None => return Ok(()),
        }
        ensure!(
            self.tls_cert.is_some() == self.tls_key.is_some(),
            "--tls-cert and --tls-key belong together: give both"
        );
        Ok(())
    }

    /// Reads the certificates; `None` without `--tls`.
    ///
    /// # Errors
    /// The options contradict each other, or a file or the server name is invalid.
    pub fn open(&self, address: &Address) -> Result<Option<Tls>> {
        self.check(address)?;
        self.tls.then(|| self.read(address)).transpose()
    }

    /// Same as [`Self::open`], but without authorities accepts any certificate.
    ///
    /// # Errors
    /// Same as [`Self::open`].
    pub(crate) fn open_insecure(&self, address: &Address) -> Result<Option<Tls>> {
        self.check_insecure()?;
        self.tls.then(|| self.read(address)).transpose()
    }

    fn read(&self, address: &Address) -> Result<Tls> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?;
        let builder = match &self.tls_ca {
            Some(path) => builder.with_root_certificates(authorities(path)?),
            None => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptsAll(provider)))
            }
        };
        let config = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let config = builder.with_client_auth_cert(
                    certificates(certificate, "--tls-cert")?,
                    private_key(key)?,
                );
                let mut config = config.map_err(|error| {
                    let (certificate, key) = (certificate.display(), key.display());
                    anyhow!("{certificate} and {key}: {}", refusal::reason(&error))
                })?;
                // memcached fails to resume a session that began with a client certificate.
                config.resumption = Resumption::disabled();
                config
            }
            _ => builder.with_no_client_auth(),
        };
        let name = match (&self.tls_name, address) {
            (Some(name), _) => name.clone(),
            (None, Address::Tcp { host, .. }) => host.clone(),
            (None, Address::Unix(_)) => "localhost".to_owned(),
        };
        let name = ServerName::try_from(name.clone()).map_err(|_| {
            let name = Quoted::text(&name);
            anyhow!("--tls-name {name}: expected a host name or an IP address")
        })?;
        let has_certificate = self.tls_cert.is_some();
        Ok(Tls { config: Arc::new(config), name, has_certificate })
    }
}

fn authorities(path: &Path) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path, "--tls-ca")? {
        let added = store.add(certificate);
        added.map_err(|error| anyhow!("{}: {}", path.display(), refusal::reason(&error)))?;
    }
    Ok(store)
}

/// Returns the certificates of a file, at least one.
fn certificates(path: &Path, option: &str) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = read.map_err(|error| unreadable("certificates", option, path, &error))?;
    ensure!(
        !found.is_empty(),
        "{option} {}: there is no certificate in this file, expected at least one in PEM \
         (-----BEGIN CERTIFICATE-----)",
        path.display()
    );
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| unreadable("the private key", "--tls-key", path, &error))
}

fn unreadable(what: &str, option: &str, path: &Path, error: &pem::Error) -> anyhow::Error {
    let path = path.display();
    match error {
        pem::Error::Io(error) => anyhow!("cannot read {what} in {path} ({option}): {error}"),
        pem::Error::NoItemsFound => anyhow!(
            "{option} {path}: there is no private key in this file, expected one in PEM \
             (-----BEGIN PRIVATE KEY-----)"
        ),
        _ => anyhow!(
            "cannot read {what} in {path} ({option}): the file is damaged; expected PEM, with \
             lines -----BEGIN …----- and -----END …-----"
        ),
    }
}

/// Accepts any server certificate, but checks that the server has its private key.
#[derive(Debug)]
struct AcceptsAll(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptsAll {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::*;

    /// A folder with a certificate, its key, and files that are neither.
    struct Files(TempDir);

    impl Files {
        fn new() -> Self {
            let files = Self(tempfile::tempdir().unwrap());
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
            let certificate = params.self_signed(&key).unwrap().pem();
            let cut_off = &certificate[..certificate.len() / 2];
            let other = KeyPair::generate().unwrap().serialize_pem();
            for (name, text) in [
                ("certificate", &*certificate),
                ("key", &key.serialize_pem()),
                ("other-key", &other),
                ("text", "no certificate"),
                ("cut-off", cut_off),
            ] {
                std::fs::write(files.path(name), text).unwrap();
            }
            files
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn ca(&self) -> TlsArguments {
            TlsArguments { tls_ca: Some(self.path("certificate")), ..TlsArguments::only(true) }
        }

        fn with_identity(&self, certificate: &str, key: &str) -> TlsArguments {
            TlsArguments {
                tls_cert: Some(self.path(certificate)),
                tls_key: Some(self.path(key)),
                ..self.ca()
            }
        }
    }

    fn tcp(host: &str) -> Address {
        Address::Tcp { host: host.to_owned(), port: 11211 }
    }

    fn refusal(arguments: &TlsArguments, address: &Address) -> String {
        format!("{:#}", arguments.open(address).unwrap_err())
    }

    #[test]
    fn without_the_option_there_is_no_tls() {
        assert!(TlsArguments::default().open(&tcp("localhost")).unwrap().is_none());
        assert!(TlsArguments::default().open_insecure(&tcp("localhost")).unwrap().is_none());
    }

    #[test]
    fn the_name_is_the_host_of_the_address_unless_another_is_given() {
        let files = Files::new();
        for (given, address, name) in [
            (None, tcp("cache.example"), "cache.example"),
            (None, tcp("::1"), "::1"),
            (Some("other.example"), tcp("127.0.0.1"), "other.example"),
            (Some("cache"), Address::Unix("./s".into()), "cache"),
        ] {
            let arguments = TlsArguments { tls_name: given.map(str::to_owned), ..files.ca() };
            let tls = arguments.open(&address).unwrap().unwrap();
            assert_eq!((&*tls.name.to_str(), tls.has_certificate), (name, false), "{address}");
        }
        let unnamed = refusal(&files.ca(), &Address::Unix("./s".into()));
        assert!(unnamed.contains("needs --tls-name"), "{unnamed}");
        let bad = TlsArguments { tls_name: Some("a b".to_owned()), ..files.ca() };
        let words = refusal(&bad, &tcp("localhost"));
        assert_eq!(words, "--tls-name \"a b\": expected a host name or an IP address");
    }

    #[test]
    fn a_certificate_of_the_client_is_used_with_its_key() {
        let files = Files::new();
        let tls = files.with_identity("certificate", "key").open(&tcp("localhost")).unwrap();
        assert!(tls.unwrap().has_certificate);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_its_option_and_the_reason() {
        let files = Files::new();
        let ca = |name: &str| TlsArguments { tls_ca: Some(files.path(name)), ..files.ca() };
        for (arguments, parts) in [
            (ca("missing"), ["cannot read certificates in ", "missing (--tls-ca): No such file"]),
            (ca("text"), ["--tls-ca ", "text: there is no certificate in this file"]),
            (ca("key"), ["--tls-ca ", "key: there is no certificate in this file"]),
            (ca("cut-off"), ["cannot read certificates in ", "the file is damaged"]),
            (files.with_identity("missing", "key"), ["missing (--tls-cert)", "No such file"]),
            (files.with_identity("text", "key"), ["--tls-cert ", "there is no certificate"]),
            (files.with_identity("certificate", "missing"), ["missing (--tls-key)", "No such"]),
            (files.with_identity("certificate", "text"), ["--tls-key ", "there is no private key"]),
            (files.with_identity("certificate", "other-key"), ["other-key: ", "does not belong"]),
        ] {
            let words = refusal(&arguments, &tcp("localhost"));
            for part in parts {
                assert!(words.contains(part), "{words:?} lacks {part:?}");
            }
        }
    }

    #[test]
    fn the_first_given_option_is_named() {
        let files = Files::new();
        let with = |arguments: TlsArguments| TlsArguments { tls: false, ..arguments };
        assert_eq!(TlsArguments::default().first_given(), None);
        assert_eq!(files.ca().first_given(), Some("--tls"));
        assert_eq!(with(files.ca()).first_given(), Some("--tls-ca"));
        let words = refusal(&with(files.ca()), &tcp("localhost"));
        assert_eq!(words, "--tls-ca needs --tls");
        let identity = TlsArguments { tls_ca: None, ..with(files.with_identity("c", "k")) };
        assert_eq!(identity.first_given(), Some("--tls-cert"));
    }
}
