//! Connects to the origin. Each attempt runs on a thread of its own, because names, handshakes and
//! logins may take long.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};

use larder_options::{Near as NearOptions, OriginAddress};
use larder_protocol::follow::Terms;
use larder_protocol::{Command, binary};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::near::millis;

/// The purpose of a connection to the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::near) enum Role {
    /// The origin reports changes on it.
    Stream,
    /// Items are fetched on it.
    Fetch,
    /// Commands of the text and meta protocols are passed on it.
    Text,
    /// Commands of the binary protocol are passed on it.
    Binary,
    /// Reads of copies are reported on it. Whatever the origin answers has no effect.
    Report,
}

/// A connection to the origin.
#[derive(Debug)]
pub(in crate::near) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection that is ready for its role.
#[derive(Debug)]
pub(in crate::near) struct Dialed {
    pub(in crate::near) socket: Socket,
    /// The terms of the change stream, for [`Role::Stream`].
    pub(in crate::near) terms: Option<Terms>,
}

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(in crate::near) enum DialError {
    #[error("cannot connect: {0}")]
    Connect(#[source] io::Error),
    #[error("cannot resolve the name")]
    Resolve,
    #[error("{path}: {error}")]
    File { path: String, error: String },
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the connection was lost before it was ready: {0}")]
    Lost(io::Error),
    #[error("it accepts connections, but does not answer")]
    Silent,
    #[error("the login was refused: {0}")]
    Login(String),
    #[error("it requires a login: --origin-login")]
    NeedsLogin,
    #[error("it does not report changes: it answered {0:?}")]
    Follow(String),
    #[error(
        "{0}, as routers and old servers do; an origin is a larderd or a memcached from 1.6 on"
    )]
    NoMeta(String),
    #[error("it is a near cache, or this server itself; name the server that owns the items")]
    NearCache,
}

impl DialError {
    /// True if requests can be passed to the origin nevertheless.
    pub(in crate::near) fn is_reached(&self) -> bool {
        matches!(self, Self::Follow(_))
    }
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::Silent,
            _ => Self::Lost(error),
        }
    }
}

/// True if a server that answers `larder_follow` in this way reports changes, but not at the
/// moment: it is a larderd that is upgraded, or whose memory file another process has open.
pub(in crate::near) fn is_temporary(answer: &str) -> bool {
    answer.starts_with("SERVER_ERROR") && !answer.contains("--followers")
}

/// Connects on a new thread, and passes the result to `done`. Returns false if the system cannot
/// start another thread.
pub(in crate::near) fn start(
    address: &OriginAddress,
    options: &Arc<NearOptions>,
    role: Role,
    done: impl FnOnce(Result<Dialed, DialError>) + Send + 'static,
) -> bool {
    let (address, options) = (address.clone(), Arc::clone(options));
    let name = "near-dial".to_owned();
    let run = move || done(dial(&address, &options, role));
    thread::Builder::new().name(name).spawn(run).is_ok()
}

fn dial(address: &OriginAddress, options: &NearOptions, role: Role) -> Result<Dialed, DialError> {
    let mut socket = connect(address, options)?;
    if let Some(path) = &options.login {
        let (user, password) = read_login(path)?;
        log_in(&mut socket, role, &user, &password)?;
    }
    let terms = match role {
        Role::Stream => Some(follow(&mut socket, options)?),
        Role::Fetch | Role::Text => {
            check_meta(&mut socket)?;
            None
        }
        Role::Binary | Role::Report => None,
    };
    socket.set_blocking(false)?;
    Ok(Dialed { socket, terms })
}

fn connect(address: &OriginAddress, options: &NearOptions) -> Result<Socket, DialError> {
    let (host, port, has_tls) = match address {
        OriginAddress::Unix(path) => {
            let socket = UnixStream::connect(path).map_err(DialError::Connect)?;
            socket.set_read_timeout(Some(STEP_TIMEOUT))?;
            socket.set_write_timeout(Some(STEP_TIMEOUT))?;
            return Ok(Socket::Unix(socket));
        }
        OriginAddress::Tcp { host, port, has_tls } => (host, *port, *has_tls),
    };
    let addresses = (&**host, port).to_socket_addrs().map_err(|_| DialError::Resolve)?;
    let mut last = DialError::Resolve;
    for address in addresses {
        match TcpStream::connect_timeout(&address, STEP_TIMEOUT) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(STEP_TIMEOUT))?;
                socket.set_write_timeout(Some(STEP_TIMEOUT))?;
                return if has_tls {
                    encrypt(options, host, socket)
                } else {
                    Ok(Socket::Tcp(socket))
                };
            }
            Err(error) => last = DialError::Connect(error),
        }
    }
    Err(last)
}

fn encrypt(options: &NearOptions, host: &str, socket: TcpStream) -> Result<Socket, DialError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &options.authorities {
        let failed = |error: String| DialError::File { path: path.display().to_string(), error };
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| failed(error.to_string()))?;
            roots.add(certificate)?;
        }
        if roots.is_empty() {
            return Err(failed("contains no certificate in PEM".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|_| DialError::Resolve)?;
    let connection = ClientConnection::new(Arc::new(config), name)?;
    let mut stream = StreamOwned::new(connection, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).map_err(DialError::Connect)?;
    }
    Ok(Socket::Tls(Box::new(stream)))
}

/// Reads a file with a line `user:password`.
fn read_login(path: &Path) -> Result<(String, String), DialError> {
    let failed = |error: String| DialError::File { path: path.display().to_string(), error };
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let line = text.lines().next().unwrap_or_default();
    line.split_once(':')
        .map(|(user, password)| (user.to_owned(), password.to_owned()))
        .ok_or_else(|| failed("the first line is not user:password".to_owned()))
}

fn log_in(socket: &mut Socket, role: Role, user: &str, password: &str) -> Result<(), DialError> {
    if role == Role::Binary {
        return log_in_binary(socket, user, password);
    }
    let words = format!("{user} {password}");
    let request = format!("set login 0 0 {}\r\n{words}\r\n", words.len());
    socket.write_all(request.as_bytes())?;
    match &*read_line(socket)? {
        "STORED" => Ok(()),
        answer => Err(DialError::Login(answer.to_owned())),
    }
}

fn log_in_binary(socket: &mut Socket, user: &str, password: &str) -> Result<(), DialError> {
    let credentials = format!("\0{user}\0{password}");
    let login = Command::Authenticate {
        mechanism: b"PLAIN",
        credentials: credentials.as_bytes(),
        is_step: false,
    };
    let mut request = Vec::new();
    let manner = binary::client::request::Manner { quiet: false, names_key: false, opaque: 0 };
    if binary::client::request::command(&mut request, &login, manner).is_err() {
        return Err(DialError::Login("the user or the password is too long".to_owned()));
    }
    socket.write_all(&request)?;
    let mut header = [0; binary::HEADER_BYTES];
    socket.read_exact(&mut header)?;
    let header = binary::Header::read(&header);
    let mut body = vec![0; header.body_bytes.min(BODY_BYTES_MAX) as usize];
    socket.read_exact(&mut body)?;
    match header.status {
        0 => Ok(()),
        _ => Err(DialError::Login(String::from_utf8_lossy(&body).into_owned())),
    }
}

/// Requires the command `mn`, which follows quiet commands. Old servers and routers answer it with
/// an error, or close the connection.
fn check_meta(socket: &mut Socket) -> Result<(), DialError> {
    match &*ask(socket, "mn")? {
        "MN" => Ok(()),
        answer => Err(DialError::NoMeta(format!("it answered {answer:?} to mn"))),
    }
}

fn follow(socket: &mut Socket, options: &NearOptions) -> Result<Terms, DialError> {
    let answer = ask(socket, &format!("larder_follow {}", millis(options.stale_max)))?;
    match Terms::read(answer.as_bytes()) {
        Some(terms) => Ok(terms),
        None if answer == NEAR_CACHE => Err(DialError::NearCache),
        None => Err(DialError::Follow(answer)),
    }
}

/// Sends a command that old servers and routers do not know, and returns the answer.
fn ask(socket: &mut Socket, command: &str) -> Result<String, DialError> {
    let mut asked = || {
        socket.write_all(format!("{command}\r\n").as_bytes())?;
        read_line(socket)
    };
    let answer = asked().map_err(|error| match error {
        DialError::Lost(lost) if CLOSED.contains(&lost.kind()) => {
            DialError::NoMeta(format!("it closed the connection after {command}"))
        }
        error => error,
    })?;
    if answer == UNAUTHENTICATED {
        return Err(DialError::NeedsLogin);
    }
    Ok(answer)
}

/// Reads a line, without its end. The origin sends nothing after it before the next request, except
/// on a change stream, so this reads byte by byte.
fn read_line(socket: &mut Socket) -> Result<String, DialError> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        match byte {
            [b'\n'] => break,
            _ if line.len() == LINE_BYTES_MAX => break,
            [byte] => line.push(byte),
        }
    }
    Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
}

impl Socket {
    /// True if encrypted bytes wait until the socket accepts them.
    pub(in crate::near) fn has_unsent(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.conn.wants_write())
    }

    /// True if decrypted bytes wait to be read. They cause no event.
    pub(in crate::near) fn has_decrypted(&mut self) -> bool {
        let Self::Tls(stream) = self else { return false };
        let state = stream.conn.process_new_packets();
        state.is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_nonblocking(!blocking),
            Self::Unix(socket) => socket.set_nonblocking(!blocking),
            Self::Tls(stream) => stream.sock.set_nonblocking(!blocking),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
            Self::Tls(stream) => stream.sock.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(buffer),
            Self::Unix(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Unix(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.flush(),
            Self::Unix(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// How memcached and larderd answer commands before the login.
const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated";

/// The errors of a connection that the peer has closed.
const CLOSED: [ErrorKind; 3] =
    [ErrorKind::UnexpectedEof, ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];

/// How a near cache answers `larder_follow`.
const NEAR_CACHE: &str = "CLIENT_ERROR this server is a near cache; follow its origin";

/// How long each step of an attempt may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest answer of the origin during an attempt that is shown.
const LINE_BYTES_MAX: usize = 512;

/// The longest body of the answer to a login.
const BODY_BYTES_MAX: u32 = 4096;
