//! The TLS configuration of the client.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::address::Address;
use crate::options::LoadArguments;
use crate::wire::channel::Tls;

impl Tls {
    /// Returns the TLS configuration of the options; `None` without `--tls`.
    ///
    /// # Errors
    /// A file is invalid, or the server name is.
    pub(crate) fn new(arguments: &LoadArguments) -> Result<Option<Self>> {
        if !arguments.tls {
            return Ok(None);
        }
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?;
        let builder = match &arguments.tls_ca {
            Some(path) => builder.with_root_certificates(authorities(path)?),
            None => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptsAll(provider)))
            }
        };
        let config = match (&arguments.tls_cert, &arguments.tls_key) {
            (Some(certificate), Some(key)) => {
                let naming = || format!("{} and {}", certificate.display(), key.display());
                let mut config = builder
                    .with_client_auth_cert(chain(certificate)?, private_key(key)?)
                    .with_context(naming)?;
                // memcached fails to resume a session that began with a client certificate.
                config.resumption = Resumption::disabled();
                config
            }
            _ => builder.with_no_client_auth(),
        };
        let name = match (&arguments.tls_name, &arguments.server.server) {
            (Some(name), _) => name.clone(),
            (None, Address::Tcp { host, .. }) => host.clone(),
            (None, Address::Unix(_)) => "localhost".to_owned(),
        };
        let name = ServerName::try_from(name.clone())
            .map_err(|_| anyhow!("{name:?} is not a valid name of a certificate (--tls-name)"))?;
        Ok(Some(Self { config: Arc::new(config), name }))
    }
}

fn authorities(path: &Path) -> Result<RootCertStore> {
    let reading = || format!("cannot read the authorities of {}", path.display());
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).with_context(reading)? {
        store.add(certificate.with_context(reading)?).with_context(reading)?;
    }
    ensure!(!store.is_empty(), "{} has no certificate in PEM", path.display());
    Ok(store)
}

/// Returns the client's certificate and its chain to an authority.
fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let reading = || format!("cannot read the certificate in {}", path.display());
    let certificates = CertificateDer::pem_file_iter(path).with_context(reading)?;
    let chain: Vec<_> = certificates.collect::<Result<_, _>>().with_context(reading)?;
    ensure!(!chain.is_empty(), "{} has no certificate in PEM", path.display());
    Ok(chain)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path)
        .with_context(|| format!("cannot read the private key in {}", path.display()))
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
