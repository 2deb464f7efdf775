//! The TLS files: their state, their bytes, and the certificates and the key in them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use larder_options::{KeyFormat, Tls};
use ring::digest::{Context, SHA256};
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Returns the paths of the files: the chain, the key, and perhaps the authorities for clients.
pub(super) fn paths(options: &Tls) -> impl Iterator<Item = &PathBuf> {
    [&options.chain_cert, &options.key].into_iter().chain(&options.ca_cert)
}

/// The states of all files, without their contents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamps {
    /// `None` for a file that cannot be examined.
    stamps: Vec<Option<Stamp>>,
    /// True if any later change of the files also changes their stamps.
    pub(super) is_settled: bool,
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

impl Stamps {
    /// Takes the stamps, with one system call for each file. Called before the files are read.
    pub(super) fn take(options: &Tls) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let stamps: Vec<_> = paths(options).map(|path| Stamp::of(path)).collect();
        let is_old = |stamp: &Stamp| {
            let changed_secs = stamp.changed.0;
            changed_secs.abs_diff(now.as_secs().cast_signed()) > SETTLED_AFTER.as_secs()
        };
        let is_settled = stamps.iter().flatten().all(is_old);
        Self { stamps, is_settled }
    }

    /// True if the files have the same state in both.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.stamps == other.stamps
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

/// The bytes of the files. Each file is read once.
pub(super) struct Contents<'a> {
    options: &'a Tls,
    chain: Vec<u8>,
    key: Vec<u8>,
    authorities: Option<(&'a Path, Vec<u8>)>,
}

/// The reason why a file cannot be read.
pub(super) struct Unreadable {
    /// Names the option, the file and the reason.
    pub(super) message: String,
    /// True if the user of this process may not read the file.
    pub(super) is_forbidden: bool,
}

impl<'a> Contents<'a> {
    /// Reads the files.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or if it is too large to be a certificate file.
    pub(super) fn read(options: &'a Tls) -> Result<Self, Unreadable> {
        let authorities = match options.ca_cert.as_deref() {
            Some(path) => Some((path, read(CA, path)?)),
            None => None,
        };
        let chain = read(CHAIN, &options.chain_cert)?;
        let key = read(KEY, &options.key)?;
        Ok(Self { options, chain, key, authorities })
    }

    /// Returns a hash of all bytes.
    pub(super) fn digest(&self) -> Vec<u8> {
        let mut context = Context::new(&SHA256);
        let authorities = self.authorities.as_ref().map(|(_, bytes)| bytes);
        for bytes in [&self.chain, &self.key].into_iter().chain(authorities) {
            context.update(&(bytes.len() as u64).to_le_bytes());
            context.update(bytes);
        }
        context.finish().as_ref().to_vec()
    }

    /// Returns the certificates of the chain. The server's own certificate is first.
    pub(super) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        certificates(CHAIN, &self.options.chain_cert, &self.chain)
    }

    /// Returns the authorities that may sign client certificates, as a list and as a store. Both
    /// are empty without `-o ssl_ca_cert`.
    pub(super) fn authorities(
        &self,
    ) -> Result<(Vec<CertificateDer<'static>>, Option<RootCertStore>), String> {
        let Some((path, bytes)) = &self.authorities else { return Ok((Vec::new(), None)) };
        let list = certificates(CA, path, bytes)?;
        let mut roots = RootCertStore::empty();
        for certificate in &list {
            let added = roots.add(certificate.clone());
            added.map_err(|error| unusable(CA, path, &reason(&error)))?;
        }
        Ok((list, Some(roots)))
    }

    /// Returns the private key.
    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        let path = &self.options.key;
        match self.options.key_format {
            KeyFormat::Pem => {
                let labelled = PrivateKeyDer::from_pem_slice(&self.key)
                    .map_err(|error| unusable(KEY, path, &pem_reason(&error)))?;
                // As in OpenSSL, the key itself determines its type, not the PEM label.
                Ok(PrivateKeyDer::try_from(labelled.secret_der().to_vec()).unwrap_or(labelled))
            }
            KeyFormat::Der => {
                let key = PrivateKeyDer::try_from(self.key.clone());
                key.map_err(|error| unusable(KEY, path, &format_args!("{error} (DER is expected)")))
            }
        }
    }
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>, Unreadable> {
    let failure = |error: io::Error| Unreadable {
        is_forbidden: error.kind() == io::ErrorKind::PermissionDenied,
        message: unusable(option, path, &error),
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failure)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failure)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failure(io::Error::other("it has more than 4 MiB")));
    }
    Ok(bytes)
}

fn certificates(
    option: &str,
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(unusable(option, path, &"it contains no certificate (PEM is expected)"))
        }
        found => found.map_err(|error| unusable(option, path, &pem_reason(&error))),
    }
}

/// Returns why rustls refuses a file, without the names of Rust types.
pub(super) fn reason(error: &rustls::Error) -> String {
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

const CHAIN: &str = "-o ssl_chain_cert";
const KEY: &str = "-o ssl_key";
const CA: &str = "-o ssl_ca_cert";

/// Far more than every bundle of authorities has.
const FILE_BYTES_MAX: u64 = 4 << 20;
