//! The files of TLS, and what is made of them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{self, Path};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use larder_options::KeyFormat;
use larder_options::{ClientCertificates, Tls};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use crate::log;
use crate::tls::cipher_suites;

/// The certificates that are in use, as connections need them.
#[derive(Debug)]
pub(crate) struct Certificates {
    options: Tls,
    provider: Arc<CryptoProvider>,
    loaded: RwLock<Loaded>,
    /// The last reading of the files. It is locked during a reading.
    last: Mutex<Reading>,
}

/// A reading of the files.
#[derive(Debug)]
struct Reading {
    /// The states of the files, from before they were read; `None` where a file cannot be looked at.
    stamps: Vec<Option<Stamp>>,
    /// True if a change of the files after this reading changes their stamps.
    is_settled: bool,
    /// True if the files could be used.
    is_good: bool,
}

/// The state of a file: it changes when the file does, or when another file takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What a refresh did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refreshed {
    /// The files have been read; what is wrong with which option and file, if they cannot be used.
    Read(Result<(), String>),
    /// The files are as they were when they were read last; true if they could be used then.
    Unchanged(bool),
}

#[derive(Debug)]
struct Loaded {
    /// One for each that may be asked of clients.
    configs: [Option<Arc<ServerConfig>>; 3],
    /// Their ticket keys. Each has keys of its own, so that nobody gets round showing a certificate with a session from
    /// where none is needed. They stay when certificates are read again, so that sessions can be resumed on, unless the
    /// authorities for clients have changed: a resumed session shows no certificate again.
    tickets: [Option<Arc<dyn ProducesTickets>>; 3],
    authorities: Vec<CertificateDer<'static>>,
    at: Instant,
}

impl Certificates {
    /// Reads the files. Says on standard error what a list of cipher suites names in vain.
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
        let (provider, unknown) = cipher_suites::provider(options.ciphers.as_deref())
            .map_err(|error| format!("option -o ssl_ciphers: {error}"))?;
        if !unknown.is_empty() {
            log::say(format_args!(
                "larderd: option -o ssl_ciphers: passed over, since there are no such cipher suites: {}",
                unknown.join(", ")
            ));
        }
        let mut last = Reading::begin(&options);
        let loaded = RwLock::new(Loaded::from_files(&options, &provider, None)?);
        last.is_good = true;
        Ok(Self { loaded, last: Mutex::new(last), provider, options })
    }

    /// Reads the files again. Connections to come get what is in them now; those that are there keep what they
    /// have, and so do all where the files cannot be used.
    ///
    /// Where `only_if_changed` it looks at the files' states first, which costs a system call for each, and reads
    /// them only if one of them has changed, or has changed so lately that another change might not show.
    pub(crate) fn refresh(&self, only_if_changed: bool) -> Refreshed {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reading = Reading::begin(&self.options);
        if only_if_changed && last.is_settled && last.stamps == reading.stamps {
            if last.is_good {
                self.loaded.write().unwrap_or_else(PoisonError::into_inner).at = Instant::now();
            }
            return Refreshed::Unchanged(last.is_good);
        }
        let outcome = {
            let before = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
            Loaded::from_files(&self.options, &self.provider, Some(&before))
        };
        reading.is_good = outcome.is_ok();
        *last = reading;
        Refreshed::Read(outcome.map(|loaded| {
            *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        }))
    }

    /// What a new connection needs of which this is asked.
    pub(crate) fn config(&self, asked: ClientCertificates) -> Option<Arc<ServerConfig>> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        loaded.configs[asked as usize].clone()
    }

    /// Seconds since the files were read, or found unchanged.
    pub(crate) fn age_secs(&self) -> u64 {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).at.elapsed().as_secs()
    }

    /// Can clients resume sessions?
    pub(crate) fn has_sessions(&self) -> bool {
        self.options.session_cache
    }
}

impl Reading {
    /// To be called before the files are read.
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

/// Two changes of a file within the grain of its system's clock may show as one; no grain is coarser than this.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

impl Loaded {
    /// Reads the files. Ticket keys are those of `before`, where that may be.
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
        Ok(Self { configs, tickets, authorities, at: Instant::now() })
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
    Ok(config)
}

/// The certificates of a file, the server's own first.
fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    certificates("-o ssl_chain_cert", path)
}

fn roots(path: &Path, authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in authorities {
        roots.add(certificate.clone()).map_err(|error| unusable("-o ssl_ca_cert", path, &error))?;
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

#[cfg(test)]
mod tests;
