//! Servers with each poller (epoll or io_uring) and on each kind of socket, and peers, their
//! clients, which disconnect in all ways.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use larder_testkit::scene::Scene;
use larder_testkit::server::free_address;
use larder_testkit::{Address, ServerUnderTest, Stream, Transport};
use rustls::{ClientConfig, ClientConnection};
use socket2::SockRef;

use crate::binary;
use crate::tls_scene::{Client, Encrypted, Files, connect};

/// How a peer is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Tcp,
    Unix,
    Tls,
}

/// How a peer disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// With a reset. Bytes in transit are lost.
    Reset,
    /// Like a program that exits.
    Close,
    /// It sends nothing more, but still reads.
    HalfClose,
}

impl Route {
    /// Returns the possible ways. A unix socket has no resets.
    pub(crate) fn deaths(self) -> &'static [Death] {
        match self {
            Self::Unix => &[Death::Close, Death::HalfClose],
            Self::Tcp | Self::Tls => &[Death::Reset, Death::Close, Death::HalfClose],
        }
    }
}

/// A site: a server whose peers all connect by the same route.
pub(crate) struct Site {
    pub(crate) scene: Scene,
    tls: Option<Tls>,
}

struct Tls {
    address: SocketAddr,
    config: Arc<ClientConfig>,
    /// Kept because the server may read them again.
    _files: Files,
}

impl Site {
    /// Starts larderd with this poller. Returns `None`, and prints a note, if the machine does not
    /// allow a ring.
    pub(crate) fn start(route: Route, io: &str, args: &[&str]) -> Result<Option<Self>> {
        if io == "uring" && !is_ring_allowed()? {
            larder_testkit::skip(format!(
                "{route:?} with io_uring, which this machine does not allow"
            ));
            return Ok(None);
        }
        let io = format!("--io={io}");
        let args = [&[&io[..]], args].concat();
        let transport = match route {
            Route::Tcp => Transport::Tcp,
            Route::Unix => Transport::Unix,
            Route::Tls => return Self::encrypted(&args).map(Some),
        };
        Ok(Some(Self { scene: Scene::start_on(&binary(), transport, &args)?, tls: None }))
    }

    /// The bystander and the statistics connection do not use TLS.
    fn encrypted(args: &[&str]) -> Result<Self> {
        let plain = free_address()?;
        let listen = format!("notls:{plain}");
        let encrypted = Encrypted::start("", &[&["-l", &listen], args].concat())?;
        let config = Arc::new(encrypted.config());
        let Encrypted { files, server, address } = encrypted;
        let deadline = Instant::now() + Duration::from_secs(10);
        // This port opens a moment after the one that the test has waited for.
        while Stream::connect(&Address::Tcp(plain)).is_err() && Instant::now() < deadline {
            sleep(Duration::from_millis(1));
        }
        let scene = Scene::around(server, Address::Tcp(plain))?;
        Ok(Self { scene, tls: Some(Tls { address, config, _files: files }) })
    }

    /// Returns the address for peers.
    pub(crate) fn address(&self) -> Address {
        match &self.tls {
            None => self.scene.server.address().clone(),
            Some(Tls { address, .. }) => Address::Tcp(*address),
        }
    }

    /// Connects a peer; with TLS, returns after the handshake.
    pub(crate) fn connect(&self) -> Result<Peer> {
        Ok(match &self.tls {
            None => Peer::Plain(self.scene.connect()?),
            Some(Tls { address, config, .. }) => Peer::Tls(Box::new(connect(*address, config)?)),
        })
    }

    /// Connects an observing client after the bystander has been served.
    pub(crate) fn control(&self) -> Result<Stream> {
        let mut control = self.scene.connect()?;
        while control.ask(b"get bystander\r\n", b"END\r\n")? == b"END\r\n" {
            sleep(Duration::from_millis(1));
        }
        Ok(control)
    }

    /// Returns the first bytes of a handshake.
    pub(crate) fn hello(&self) -> Result<Vec<u8>> {
        let config = Arc::clone(&self.tls.as_ref().context("there is no TLS")?.config);
        let mut client = ClientConnection::new(config, "localhost".try_into()?)?;
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes)?;
        Ok(bytes)
    }
}

fn is_ring_allowed() -> Result<bool> {
    let server =
        ServerUnderTest::start(&binary(), Transport::Unix, &["-v", "-t", "1", "--io=auto"])?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        let log = server.log();
        if log.contains("workers wait by io_uring") || log.contains("io_uring cannot be used") {
            return Ok(!log.contains("cannot"));
        }
        sleep(Duration::from_millis(1));
    }
    bail!("the log does not name the poller: {}", server.log())
}

/// A client.
pub(crate) enum Peer {
    Plain(Stream),
    Tls(Box<Client>),
}

impl Peer {
    /// Sends, unless the server has closed the connection.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes)?,
            Self::Tls(client) => {
                client.write_all(bytes)?;
                client.flush()?;
            }
        }
        Ok(())
    }

    /// Disconnects. Returns the peer if it can still read.
    pub(crate) fn die(mut self, death: Death) -> Result<Option<Self>> {
        match death {
            Death::Reset => {
                self.socket().set_linger(Some(Duration::ZERO))?;
                Ok(None)
            }
            Death::Close => Ok(None),
            Death::HalfClose => {
                // Fails if the server has closed the connection first.
                let _ = self.half_close();
                Ok(Some(self))
            }
        }
    }

    fn half_close(&mut self) -> io::Result<()> {
        if let Self::Tls(client) = self {
            client.conn.send_close_notify();
            client.flush()?;
        }
        self.socket().shutdown(Shutdown::Write)
    }

    fn socket(&self) -> SockRef<'_> {
        match self {
            Self::Plain(Stream::Tcp(stream)) => stream.into(),
            Self::Plain(Stream::Unix(stream)) => stream.into(),
            Self::Tls(client) => (&client.sock).into(),
        }
    }
}

impl Read for Peer {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(bytes),
            Self::Tls(client) => client.read(bytes),
        }
    }
}
