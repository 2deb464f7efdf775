//! The TLS files, and the configurations built from them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use larder_options::KeyFormat;
use larder_options::{ClientCertificates, Tls};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use x509_parser::parse_x509_certificate;

use crate::log;
use crate::tls::cipher_suites;

/// The certificates in use, in the form that connections need.
#[derive(Debug)]
pub(crate) struct Certificates {
    options: Tls,
    provider: Arc<CryptoProvider>,
    /// The configurations of new connections, from the last read that succeeded.
    loaded: RwLock<LoadResult>,
    /// The result of the last read of the files. Locked during a read.
    last: Mutex<ReadResult>,
}

/// The result of a read of the files.
#[derive(Debug)]
struct ReadResult {
    /// The stamps of the files, taken before they were read; `None` for a file that cannot be
    /// examined.
    stamps: Vec<Option<Stamp>>,
    /// True if any later change of the files also changes their stamps.
    is_settled: bool,
    /// True if the files were usable.
    is_good: bool,
}

/// The state of a file. It changes when the file is changed or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The result of a refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RefreshResult {
    /// The files were read. If they cannot be used, the error names the option, the file and the
    /// reason.
    Read(Result<(), String>),
    /// The files have not changed since the last read. True if they were usable then.
    Unchanged(bool),
}

#[derive(Debug)]
struct LoadResult {
    /// One configuration for each client certificate policy.
    configs: [Option<Arc<ServerConfig>>; 3],
    /// Their ticket keys. Each policy has separate keys, so that a client cannot avoid showing a
    /// certificate by resuming a session from a policy that requires none. The keys survive a
    /// refresh, so that sessions can still be resumed. They are replaced if the authorities for
    /// client certificates have changed, because a resumed session does not show its certificate
    /// again.
    tickets: [Option<Arc<dyn ProducesTickets>>; 3],
    /// The authorities that may sign client certificates.
    authorities: Vec<CertificateDer<'static>>,
    /// The Unix time at which the server's own certificate expires; `None` if that cannot be
    /// determined.
    expiry_secs: Option<u64>,
    /// When the files were read, or last found unchanged.
    at: Instant,
}

impl Certificates {
    /// Reads the files. Logs unknown entries of a cipher suite list on standard error.
    ///
    /// # Errors
    /// The error names the option, the file and the reason.
    pub(crate) fn load(options: &Tls) -> Result<Self, String> {
        let options = options.clone();
        let (provider, unknown) = cipher_suites::provider(options.ciphers.as_deref())
            .map_err(|error| format!("option -o ssl_ciphers: {error}"))?;
        if !unknown.is_empty() {
            log::warn(format_args!(
                "larderd: option -o ssl_ciphers: ignoring unknown cipher suites: {}",
                unknown.join(", ")
            ));
        }
        let mut last = ReadResult::begin(&options);
        let loaded = RwLock::new(LoadResult::from_files(&options, &provider, None)?);
        last.is_good = true;
        Ok(Self { loaded, last: Mutex::new(last), provider, options })
    }

    /// Reads the files again. New connections use their current contents. Existing connections keep
    /// their certificates. If the files cannot be used, new connections continue to use the
    /// previous certificates.
    ///
    /// With `only_if_changed`, first checks the stamps of the files, which takes one system call
    /// each. Reads the files only if one has changed, or has changed so recently that another
    /// change might not be visible in its stamp.
    pub(crate) fn refresh(&self, only_if_changed: bool) -> RefreshResult {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reading = ReadResult::begin(&self.options);
        if only_if_changed && last.is_settled && last.stamps == reading.stamps {
            if last.is_good {
                self.loaded.write().unwrap_or_else(PoisonError::into_inner).at = Instant::now();
            }
            return RefreshResult::Unchanged(last.is_good);
        }
        let outcome = {
            let before = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
            LoadResult::from_files(&self.options, &self.provider, Some(&before))
        };
        reading.is_good = outcome.is_ok();
        *last = reading;
        RefreshResult::Read(outcome.map(|loaded| {
            *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        }))
    }

    /// Returns the configuration of a new connection with this policy.
    pub(crate) fn config(&self, asked: ClientCertificates) -> Option<Arc<ServerConfig>> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        loaded.configs[asked as usize].clone()
    }

    /// Returns the path of the server's certificate.
    pub(crate) fn path(&self) -> &Path {
        &self.options.chain_cert
    }

    /// Returns the seconds since the files were last read, or last found unchanged.
    pub(crate) fn age_secs(&self) -> u64 {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).at.elapsed().as_secs()
    }

    /// Returns the Unix time in seconds at which the server's own certificate expires.
    pub(crate) fn expiry_secs(&self) -> Option<u64> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).expiry_secs
    }

    /// True if clients can resume sessions.
    pub(crate) fn has_sessions(&self) -> bool {
        self.options.session_cache
    }
}

impl ReadResult {
    /// Takes the stamps. Called before the files are read.
    fn begin(options: &Tls) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let paths = [&options.chain_cert, &options.key].into_iter().chain(&options.ca_cert);
        let stamps: Vec<_> = paths.map(|path| Stamp::of(path)).collect();
        let is_old = |stamp: &Stamp| {
            let changed_secs = stamp.changed.0;
            changed_secs.abs_diff(now.as_secs().cast_signed()) > SETTLED_AFTER.as_secs()
        };
        let is_settled = stamps.iter().flatten().all(is_old);
        Self { stamps, is_settled, is_good: false }
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let state = fs::metadata(path).ok()?;
        Some(Self {
            device: state.dev(),
            inode: state.ino(),
            bytes: state.size(),
            modified: (state.mtime(), state.mtime_nsec()),
            changed: (state.ctime(), state.ctime_nsec()),
        })
    }
}

/// Two changes of a file within the resolution of its file system's clock may leave the same stamp.
/// No file system has a coarser resolution than this.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

impl LoadResult {
    /// Reads the files. Reuses the ticket keys of `before` if permitted.
    fn from_files(
        options: &Tls,
        provider: &Arc<CryptoProvider>,
        before: Option<&Self>,
    ) -> Result<Self, String> {
        let (authorities, roots) = match options.ca_cert.as_deref() {
            None => (Vec::new(), None),
            Some(path) => {
                let authorities = certificates("-o ssl_ca_cert", path)?;
                let roots = Arc::new(roots(path, &authorities)?);
                (authorities, Some(roots))
            }
        };
        let expiry_secs = chain(&options.chain_cert)?.first().and_then(expiry_secs);
        let (mut configs, mut tickets) = ([None, None, None], [None, None, None]);
        for asked in
            [ClientCertificates::None, ClientCertificates::Requested, ClientCertificates::Required]
        {
            if asked == ClientCertificates::None || roots.is_some() {
                let mut config = config(options, provider, asked, roots.as_ref())?;
                if options.session_cache {
                    let keeps = |before: &&Self| {
                        asked == ClientCertificates::None || before.authorities == authorities
                    };
                    let kept = before.filter(keeps);
                    let ticketer = match kept.and_then(|of| of.tickets[asked as usize].clone()) {
                        Some(ticketer) => ticketer,
                        None => Ticketer::new().map_err(|error| {
                            format!("option -o ssl_session_cache: no ticket keys: {error}")
                        })?,
                    };
                    tickets[asked as usize] = Some(Arc::clone(&ticketer));
                    config.ticketer = ticketer;
                    config.send_tls13_tickets = 1;
                }
                configs[asked as usize] = Some(Arc::new(config));
            }
        }
        Ok(Self { configs, tickets, authorities, expiry_secs, at: Instant::now() })
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
                "option -o ssl_chain_cert: {chain} cannot be used with the key in {key}: {}",
                reason(&error)
            )
        })?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Reads the certificates in a file. The server's own certificate must be first.
fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    certificates("-o ssl_chain_cert", path)
}

/// Returns the Unix time at which a certificate expires.
fn expiry_secs(certificate: &CertificateDer<'_>) -> Option<u64> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    u64::try_from(certificate.validity().not_after.timestamp()).ok()
}

fn roots(path: &Path, authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in authorities {
        let added = roots.add(certificate.clone());
        added.map_err(|error| unusable("-o ssl_ca_cert", path, &reason(&error)))?;
    }
    Ok(roots)
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = fs::read(path).map_err(|error| unusable(option, path, &error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(unusable(option, path, &"it contains no certificate (PEM is expected)"))
        }
        found => found.map_err(|error| unusable(option, path, &pem_reason(&error))),
    }
}

fn key(options: &Tls) -> Result<PrivateKeyDer<'static>, String> {
    let (option, path) = ("-o ssl_key", &options.key);
    let bytes = fs::read(path).map_err(|error| unusable(option, path, &error))?;
    match options.key_format {
        KeyFormat::Pem => {
            let labelled = PrivateKeyDer::from_pem_slice(&bytes)
                .map_err(|error| unusable(option, path, &pem_reason(&error)))?;
            // As in OpenSSL, the key itself determines its type, not the PEM label.
            Ok(PrivateKeyDer::try_from(labelled.secret_der().to_vec()).unwrap_or(labelled))
        }
        KeyFormat::Der => {
            let key = PrivateKeyDer::try_from(bytes);
            key.map_err(|error| unusable(option, path, &format_args!("{error} (DER is expected)")))
        }
    }
}

/// Returns why rustls refuses a file, without the names of Rust types.
fn reason(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            "the key belongs to another certificate; name the key that the certificate was made \
             with, and the server's own certificate first in its file"
                .to_owned()
        }
        rustls::Error::InvalidCertificate(_) => "the certificate is damaged".to_owned(),
        rustls::Error::General(what) => what.clone(),
        error => error.to_string(),
    }
}

/// Returns why a file is not valid PEM.
fn pem_reason(error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => "it contains none (PEM is expected)".to_owned(),
        error => format!("it is not valid PEM: {error}"),
    }
}

fn unusable(option: &str, path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("option {option}: {} cannot be used: {error}", path.display())
}

#[cfg(test)]
mod tests;
