//! The scene of the TLS tests: certificates made for a test, a larderd that uses them, and TLS
//! clients.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use larder_testkit::server::free_address;
use larder_testkit::{Address, ServerUnderTest};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use tempfile::TempDir;

use crate::binary;

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key, in PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: KeyPair,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::new(vec![])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// Creates a certificate for localhost that contains this name.
    pub(crate) fn identity(&self, name: &str) -> Result<Identity> {
        self.identity_between(name, 1975..4096)
    }

    /// Same as [`Self::identity`], but valid from the beginning of one year to that of another.
    pub(crate) fn identity_between(&self, name: &str, years: Range<i32>) -> Result<Identity> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key })
    }
}

/// The files of a server, and the authority of both sides.
pub(crate) struct Files {
    pub(crate) authority: Authority,
    pub(crate) folder: TempDir,
}

impl Files {
    pub(crate) fn new() -> Result<Self> {
        let files = Self { authority: Authority::new("Ours")?, folder: tempfile::tempdir()? };
        fs::write(files.path("ca.pem"), &files.authority.pem)?;
        files.write(&files.authority.identity("first")?)?;
        Ok(files)
    }

    /// Writes a certificate and its key to the paths that the server reads.
    pub(crate) fn write(&self, identity: &Identity) -> Result<()> {
        fs::write(self.path("chain.pem"), &identity.certificate)?;
        Ok(fs::write(self.path("key.pem"), identity.key.serialize_pem())?)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the options for TLS with these files and further values of `-o`.
    pub(crate) fn args(&self, words: &str) -> Vec<String> {
        let folder = self.folder.path().display();
        let files = format!(
            "ssl_chain_cert={folder}/chain.pem,ssl_key={folder}/key.pem,ssl_ca_cert={folder}/ca.pem"
        );
        ["-Z", "-o", &files, "-o", words]
            .map(str::to_owned)
            .into_iter()
            .take(if words.is_empty() { 3 } else { 5 })
            .collect()
    }

    /// Returns the configuration of a client without a certificate that accepts the server's
    /// authority.
    pub(crate) fn config(&self) -> ClientConfig {
        self.config_of(rustls::ALL_VERSIONS, None).expect("the defaults are valid")
    }

    /// Same as [`Self::config`], but with these versions and a certificate.
    pub(crate) fn config_of(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        identity: Option<&Identity>,
    ) -> Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(self.authority.pem.as_bytes()) {
            roots.add(root?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => builder.with_client_auth_cert(
                CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>()?,
                PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?,
            )?,
        };
        config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(8)));
        Ok(config)
    }
}

/// A larderd with TLS.
pub(crate) struct Encrypted {
    pub(crate) files: Files,
    pub(crate) server: ServerUnderTest,
    pub(crate) address: SocketAddr,
}

pub(crate) type Client = StreamOwned<ClientConnection, TcpStream>;

impl Encrypted {
    pub(crate) fn start(words: &str, args: &[&str]) -> Result<Self> {
        Self::start_with(Files::new()?, words, args)
    }

    pub(crate) fn start_with(files: Files, words: &str, args: &[&str]) -> Result<Self> {
        let address = free_address()?;
        let tls = files.args(words);
        let args: Vec<&str> = tls.iter().map(String::as_str).chain(args.iter().copied()).collect();
        let server = ServerUnderTest::start_at(&binary(), Address::Tcp(address), &args)?;
        Ok(Self { files, server, address })
    }

    /// Same as [`Files::config`].
    pub(crate) fn config(&self) -> ClientConfig {
        self.files.config()
    }

    /// Same as [`Files::config_of`].
    pub(crate) fn config_of(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        identity: Option<&Identity>,
    ) -> Result<ClientConfig> {
        self.files.config_of(versions, identity)
    }

    pub(crate) fn connect(&self, config: &Arc<ClientConfig>) -> Result<Client> {
        connect(self.address, config)
    }

    /// Connects a client without a certificate.
    pub(crate) fn client(&self) -> Result<Client> {
        self.connect(&Arc::new(self.config()))
    }
}

pub(crate) fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Result<Client> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    let connection = ClientConnection::new(Arc::clone(config), "localhost".try_into()?)?;
    let mut client = StreamOwned::new(connection, socket);
    ask(&mut client, b"version\r\n", b"VERSION 1.6.45\r\n")?;
    Ok(client)
}

/// Sends a request and reads until the response ends with `end`.
pub(crate) fn ask(stream: &mut impl ReadWrite, request: &[u8], end: &[u8]) -> Result<Vec<u8>> {
    stream.write_all(request)?;
    stream.flush()?;
    let (mut answer, mut piece) = (Vec::new(), [0; 64 * 1024]);
    while !answer.ends_with(end) {
        let bytes = stream.read(&mut piece)?;
        ensure!(bytes > 0, "the connection ended after {:?}", answer.escape_ascii().to_string());
        answer.extend_from_slice(&piece[..bytes]);
    }
    Ok(answer)
}

pub(crate) trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// Returns a statistic; `None` if it is not shown.
pub(crate) fn stat(stream: &mut impl ReadWrite, name: &str) -> Result<Option<u64>> {
    let stats = String::from_utf8(ask(stream, b"stats\r\n", b"END\r\n")?)?;
    let head = format!("STAT {name} ");
    let line = stats.lines().find_map(|line| line.strip_prefix(&head));
    Ok(line.map(str::parse).transpose()?)
}

/// Returns the name in the server's certificate.
pub(crate) fn shown_name(client: &Client, names: &[&'static str]) -> Option<&'static str> {
    let certificate = client.conn.peer_certificates()?.first()?;
    let holds =
        |name: &&&str| certificate.windows(name.len()).any(|window| window == name.as_bytes());
    names.iter().find(holds).copied()
}
