//! The configurations of new connections, built from the contents of the files.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use larder_options::{ClientCertificates, Tls};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use super::files::{Contents, reason};
use super::validity::{State, Validity};

/// The result of the last read that succeeded.
#[derive(Debug)]
pub(super) struct LoadResult {
    /// One configuration for each client certificate policy.
    pub(super) configs: [Option<Arc<ServerConfig>>; 3],
    /// Their ticket keys. Each policy has separate keys, so that a client cannot avoid showing a
    /// certificate by resuming a session from a policy that requires none. The keys survive a
    /// refresh, so that sessions can still be resumed. They are replaced if the authorities for
    /// client certificates have changed, because a resumed session does not show its certificate
    /// again.
    tickets: [Option<Arc<dyn ProducesTickets>>; 3],
    /// The authorities that may sign client certificates.
    authorities: Vec<CertificateDer<'static>>,
    /// The validity of the server's own certificate; `None` if it cannot be determined.
    pub(super) validity: Option<Validity>,
    /// The hash of the files' contents.
    pub(super) digest: Vec<u8>,
    /// When the files were read, or last found unchanged.
    pub(super) at: Instant,
}

impl LoadResult {
    /// Builds the configurations. Reuses the ticket keys of `before` if permitted.
    ///
    /// # Errors
    /// The error names the option, the file and the reason.
    pub(super) fn build(
        contents: &Contents<'_>,
        options: &Tls,
        provider: &Arc<CryptoProvider>,
        before: Option<&Self>,
    ) -> Result<Self, String> {
        let (authorities, roots) = contents.authorities()?;
        let roots = roots.map(Arc::new);
        let chain = contents.chain()?;
        let validity = chain.first().and_then(Validity::of);
        let (mut configs, mut tickets) = ([None, None, None], [None, None, None]);
        for asked in
            [ClientCertificates::None, ClientCertificates::Requested, ClientCertificates::Required]
        {
            if asked == ClientCertificates::None || roots.is_some() {
                let mut config =
                    Config { options, provider, asked, roots: roots.as_ref() }.build(contents)?;
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
        let (digest, at) = (contents.digest(), Instant::now());
        Ok(Self { configs, tickets, authorities, validity, digest, at })
    }

    /// Checks that the server's own certificate is valid now.
    ///
    /// # Errors
    /// The error names the option, the file and the time.
    pub(super) fn check_time(&self, options: &Tls) -> Result<(), String> {
        let Some(validity) = self.validity else { return Ok(()) };
        let path = options.chain_cert.display();
        match validity.at(SystemTime::now()) {
            State::Valid | State::EndsSoon { .. } => Ok(()),
            State::Expired => Err(format!(
                "option -o ssl_chain_cert: the certificate in {path} has expired at {}; renew it",
                validity.ends()
            )),
            State::NotYetValid => Err(format!(
                "option -o ssl_chain_cert: the certificate in {path} is not valid before {}; check \
                 the clock of this machine",
                validity.begins()
            )),
        }
    }
}

/// The parts of a configuration that do not come from the chain and the key.
struct Config<'a> {
    options: &'a Tls,
    provider: &'a Arc<CryptoProvider>,
    asked: ClientCertificates,
    roots: Option<&'a Arc<RootCertStore>>,
}

impl Config<'_> {
    fn build(self, contents: &Contents<'_>) -> Result<ServerConfig, String> {
        let Self { options, provider, asked, roots } = self;
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
            builder.with_single_cert(contents.chain()?, contents.key()?).map_err(|error| {
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
}
