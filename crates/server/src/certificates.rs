//! The files of TLS, and what is made of them.

use std::fs;
use std::path::{self, Path};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use larder_options::tls::KeyFormat;
use larder_options::{ClientCertificates, Tls};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use crate::suites;

/// The certificates that are in use, as connections need them.
#[derive(Debug)]
pub(crate) struct Certificates {
    options: Tls,
    loaded: RwLock<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    /// One for each that may be asked of clients; each has ticket keys of its own, so that nobody gets round
    /// showing a certificate with a session from where none is needed.
    configs: [Option<Arc<ServerConfig>>; 3],
    at: Instant,
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with which option and file.
    pub(crate) fn load(options: &Tls) -> Result<Self, String> {
        let mut options = options.clone();
        let paths =
            [&mut options.chain_cert, &mut options.key].into_iter().chain(&mut options.ca_cert);
        for path in paths {
            // A process in the background leaves its directory.
            if let Ok(absolute) = path::absolute(&path) {
                *path = absolute;
            }
        }
        Ok(Self { loaded: RwLock::new(Loaded::from_files(&options)?), options })
    }

    /// Reads the files again. Connections to come get what is in them now; those that are there keep what they
    /// have.
    ///
    /// # Errors
    /// What is wrong; nothing changes then.
    pub(crate) fn refresh(&self) -> Result<(), String> {
        let loaded = Loaded::from_files(&self.options)?;
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }

    /// What a new connection needs of which this is asked.
    pub(crate) fn config(&self, asked: ClientCertificates) -> Option<Arc<ServerConfig>> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        loaded.configs[asked as usize].clone()
    }

    /// Seconds since the files were read.
    pub(crate) fn age_secs(&self) -> u64 {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).at.elapsed().as_secs()
    }

    /// Can clients resume sessions?
    pub(crate) fn has_sessions(&self) -> bool {
        self.options.session_cache
    }
}

impl Loaded {
    fn from_files(options: &Tls) -> Result<Self, String> {
        let list = options.ciphers.as_deref();
        let provider =
            suites::provider(list).map_err(|error| format!("option -o ssl_ciphers: {error}"))?;
        let roots = options.ca_cert.as_deref().map(roots).transpose()?.map(Arc::new);
        let mut configs = [None, None, None];
        for asked in
            [ClientCertificates::None, ClientCertificates::Requested, ClientCertificates::Required]
        {
            if asked == ClientCertificates::None || roots.is_some() {
                let config = config(options, &provider, asked, roots.as_ref())?;
                configs[asked as usize] = Some(Arc::new(config));
            }
        }
        Ok(Self { configs, at: Instant::now() })
    }
}

fn config(
    options: &Tls,
    provider: &Arc<CryptoProvider>,
    asked: ClientCertificates,
    roots: Option<&Arc<RootCertStore>>,
) -> Result<ServerConfig, String> {
    let versions = if options.only_tls13 { &[&TLS13][..] } else { &[&TLS13, &TLS12] };
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)
        .map_err(|error| format!("option -o ssl_ciphers: {error}"))?;
    let builder = match roots {
        Some(roots) if asked != ClientCertificates::None => {
            let (roots, provider) = (Arc::clone(roots), Arc::clone(provider));
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            let verifier = match asked {
                ClientCertificates::Required => verifier,
                _ => verifier.allow_unauthenticated(),
            };
            let verifier = verifier.build();
            builder.with_client_cert_verifier(
                verifier.map_err(|error| format!("option -o ssl_ca_cert: {error}"))?,
            )
        }
        _ => builder.with_no_client_auth(),
    };
    let mut config =
        builder.with_single_cert(chain(&options.chain_cert)?, key(options)?).map_err(|error| {
            let (chain, key) = (options.chain_cert.display(), options.key.display());
            format!(
                "option -o ssl_chain_cert: {chain} cannot be used with the key in {key}: {error}"
            )
        })?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    if options.session_cache {
        config.ticketer = Ticketer::new()
            .map_err(|error| format!("option -o ssl_session_cache: no ticket keys: {error}"))?;
        config.send_tls13_tickets = 1;
    }
    Ok(config)
}

/// The certificates of a file, the server's own first.
fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    certificates("-o ssl_chain_cert", path)
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("-o ssl_ca_cert", path)? {
        roots.add(certificate).map_err(|error| unusable("-o ssl_ca_cert", path, &error))?;
    }
    Ok(roots)
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = fs::read(path).map_err(|error| unusable(option, path, &error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(unusable(option, path, &"there is no certificate in it (PEM is expected)"))
        }
        found => found.map_err(|error| unusable(option, path, &error)),
    }
}

fn key(options: &Tls) -> Result<PrivateKeyDer<'static>, String> {
    let (option, path) = ("-o ssl_key", &options.key);
    let bytes = fs::read(path).map_err(|error| unusable(option, path, &error))?;
    match options.key_format {
        KeyFormat::Pem => {
            let labelled = PrivateKeyDer::from_pem_slice(&bytes)
                .map_err(|error| unusable(option, path, &error))?;
            // As with OpenSSL it matters what a key is, and not what the PEM calls it.
            Ok(PrivateKeyDer::try_from(labelled.secret_der().to_vec()).unwrap_or(labelled))
        }
        KeyFormat::Der => {
            PrivateKeyDer::try_from(bytes).map_err(|error| unusable(option, path, &error))
        }
    }
}

fn unusable(option: &str, path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("option {option}: {} cannot be used: {error}", path.display())
}
