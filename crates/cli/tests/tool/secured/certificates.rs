//! Creates files with certificates and passwords for a test.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// The files of a test. Dropping it removes them.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

/// Creates a certificate for localhost and 127.0.0.1, and its key.
pub(crate) fn identity(files: &Files, name: &str, issuer: &Issuer<'_, KeyPair>) -> [String; 2] {
    let mut params = CertificateParams::new([LOCALHOST, IP].map(str::to_owned)).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap().pem();
    [
        files.write(&format!("{name}.pem"), &certificate),
        files.write(&format!("{name}.key"), &key.serialize_pem()),
    ]
}

/// Creates an authority, and returns the path of its certificate too.
pub(crate) fn authority(files: &Files, name: &str) -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), files.write(name, &pem))
}

const LOCALHOST: &str = "localhost";
const IP: &str = "127.0.0.1";
