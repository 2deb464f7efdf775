//! The TLS files, and the configurations built from them.

mod files;
mod loaded;
#[cfg(test)]
mod tests;
pub(crate) mod validity;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant, SystemTime};

use larder_options::{ClientCertificates, Tls};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;

use crate::log;
use crate::tls::cipher_suites;
use files::{Contents, Stamps};
use loaded::LoadResult;
use validity::{State, Validity};

/// The certificates in use, in the form that connections need.
#[derive(Debug)]
pub(crate) struct Certificates {
    options: Tls,
    provider: Arc<CryptoProvider>,
    /// The configurations of new connections, from the last read that succeeded.
    loaded: RwLock<LoadResult>,
    /// The result of the last read of the files. Locked during a read.
    last: Mutex<ReadResult>,
    /// When the log last warned of the end of the certificate.
    warned: Mutex<Option<Instant>>,
}

/// The result of a read of the files.
#[derive(Debug)]
struct ReadResult {
    /// The stamps of the files, taken before they were read.
    stamps: Stamps,
    /// True if the files were usable.
    is_good: bool,
}

/// When a refresh reads the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// Always.
    Always,
    /// Only if the stamp of a file has changed, or has changed so recently that another change
    /// might not be visible in it. Taking the stamps costs one system call for each file.
    IfStampsChanged,
    /// Always, but contents that are already in effect count as unchanged. This finds changes that
    /// the stamps do not show, as on some network file systems.
    IfContentsChanged,
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

impl Certificates {
    /// Reads the files. Logs unknown entries of a cipher suite list on standard error. Accepts a
    /// certificate that is not valid now, as memcached does; see [`Self::warning`].
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
        let stamps = Stamps::take(&options);
        let contents = Contents::read(&options).map_err(|error| error.message)?;
        let loaded = LoadResult::build(&contents, &options, &provider, None)?;
        drop(contents);
        let last = Mutex::new(ReadResult { stamps, is_good: true });
        Ok(Self { loaded: RwLock::new(loaded), last, warned: Mutex::default(), provider, options })
    }

    /// Reads the files again. New connections use their current contents. Existing connections keep
    /// their certificates. If the files cannot be used, or if the server's own certificate is not
    /// valid now, new connections continue to use the previous certificates.
    pub(crate) fn refresh(&self, manner: Refresh) -> RefreshResult {
        let mut last = self.last();
        let stamps = Stamps::take(&self.options);
        let is_same = last.stamps.same(&stamps);
        if manner == Refresh::IfStampsChanged && last.stamps.is_settled && is_same {
            return self.unchanged(last.is_good);
        }
        let read = Contents::read(&self.options);
        let result = match read {
            // The files were read before the process changed its user, and are still the same.
            Err(error)
                if manner == Refresh::IfContentsChanged
                    && error.is_forbidden
                    && is_same
                    && last.is_good =>
            {
                return self.unchanged(true);
            }
            Err(error) => Err(error.message),
            Ok(contents)
                if manner == Refresh::IfContentsChanged
                    && contents.digest() == self.loaded().digest =>
            {
                *last = ReadResult { stamps, is_good: true };
                return self.unchanged(true);
            }
            Ok(contents) => self.take_up(&contents),
        };
        *last = ReadResult { stamps, is_good: result.is_ok() };
        RefreshResult::Read(result)
    }

    /// Puts contents into effect, if they can be used now.
    fn take_up(&self, contents: &Contents<'_>) -> Result<(), String> {
        let built =
            LoadResult::build(contents, &self.options, &self.provider, Some(&*self.loaded()))?;
        built.check_time(&self.options)?;
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = built;
        Ok(())
    }

    fn unchanged(&self, is_good: bool) -> RefreshResult {
        if is_good {
            self.loaded.write().unwrap_or_else(PoisonError::into_inner).at = Instant::now();
        }
        RefreshResult::Unchanged(is_good)
    }

    /// Checks whether the files can be read again by the current user of the process. Files that
    /// cannot count as unchanged until their stamps change.
    ///
    /// # Errors
    /// The error names the option, the file and the reason.
    pub(crate) fn check_access(&self) -> Result<(), String> {
        let Err(error) = Contents::read(&self.options) else { return Ok(()) };
        if error.is_forbidden {
            // In a folder that is forbidden as well, the files have no stamps now.
            self.last().stamps = Stamps::take(&self.options);
        }
        Err(error.message)
    }

    /// Returns the configuration of a new connection with this policy.
    pub(crate) fn config(&self, asked: ClientCertificates) -> Option<Arc<ServerConfig>> {
        self.loaded().configs[asked as usize].clone()
    }

    /// Returns the path of the server's certificate.
    pub(crate) fn path(&self) -> &Path {
        &self.options.chain_cert
    }

    /// Returns the paths of all files.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        files::paths(&self.options).cloned().collect()
    }

    /// Returns the seconds since the files were last read, or last found unchanged.
    pub(crate) fn age_secs(&self) -> u64 {
        self.loaded().at.elapsed().as_secs()
    }

    /// Returns the Unix time in seconds at which the server's own certificate expires.
    pub(crate) fn expiry_secs(&self) -> Option<u64> {
        self.validity()?.expiry_secs()
    }

    /// Returns the validity of the server's own certificate; `None` if it cannot be determined.
    pub(crate) fn validity(&self) -> Option<Validity> {
        self.loaded().validity
    }

    /// Returns a warning if the server's own certificate is not valid now, or will not be valid for
    /// long.
    pub(crate) fn warning(&self) -> Option<String> {
        let validity = self.validity()?;
        let path = self.options.chain_cert.display();
        let message = match validity.at(SystemTime::now()) {
            State::Valid => return None,
            State::EndsSoon { days_left } => {
                let left = match days_left {
                    0 => "in less than a day".to_owned(),
                    1 => "in a day".to_owned(),
                    days => format!("in {days} days"),
                };
                format!("expires {left}, at {}; renew it", validity.ends())
            }
            State::Expired => {
                format!(
                    "has expired at {}, and clients that check it cannot connect; renew it",
                    validity.ends()
                )
            }
            State::NotYetValid => format!(
                "is not valid before {}, and clients that check it cannot connect; check the \
                 clock of this machine",
                validity.begins()
            ),
        };
        Some(format!("option -o ssl_chain_cert: the certificate in {path} {message}"))
    }

    /// Logs the [warning](Self::warning), if there is one and the log does not contain it since a
    /// day. With `is_new`, the certificate was just loaded.
    pub(crate) fn warn(&self, is_new: bool) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_new && warned.is_some_and(|at| at.elapsed() < WARNED_EVERY) {
            return;
        }
        if let Some(warning) = self.warning() {
            *warned = Some(Instant::now());
            log::warn(format_args!("larderd: {warning}"));
        }
    }

    /// True if clients can resume sessions.
    pub(crate) fn has_sessions(&self) -> bool {
        self.options.session_cache
    }

    fn loaded(&self) -> RwLockReadGuard<'_, LoadResult> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> MutexGuard<'_, ReadResult> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often the log warns of the same certificate.
const WARNED_EVERY: Duration = Duration::from_secs(86_400);
