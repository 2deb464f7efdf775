//! Requests to the admin listener and their responses.

use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use larder_loadgen::address::Address;
use larder_loadgen::connect::tls::Tls;
use larder_loadgen::connect::{connect, refusal as refusal_of_tls};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::refusal;

/// Sends requests to an admin listener. Each request uses a new connection, because the listener
/// closes idle connections and larderd may have been restarted between two requests.
#[derive(Debug)]
pub(crate) struct Client {
    address: Address,
    tls: Option<Tls>,
    token: Option<HeaderValue>,
    runtime: Runtime,
}

/// A request, and the role that it needs.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) role: &'static str,
    /// The JSON document to send.
    pub(crate) body: Option<Value>,
}

/// The response to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

impl Ask {
    /// Creates a request that only reads.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), role: "read", body: None }
    }

    /// Creates a request that changes the server.
    pub(crate) fn change(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), role: "full", body: None }
    }
}

impl Client {
    /// Creates a client. `token` is the header that authorizes its requests.
    pub(super) fn new(
        address: Address,
        tls: Option<Tls>,
        token: Option<HeaderValue>,
    ) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { address, tls, token, runtime })
    }

    /// Returns the address of the listener.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Sends a request and returns the document of the response.
    ///
    /// # Errors
    /// No response arrives, or the server refuses the request. The message contains the remedy.
    pub(crate) fn json(&self, ask: &Ask) -> Result<Value> {
        let answer = self.ask(ask)?;
        self.document(ask, &answer)
    }

    /// Returns the document of a response.
    ///
    /// # Errors
    /// The response is a refusal, or is not JSON.
    pub(crate) fn document(&self, ask: &Ask, answer: &Answer) -> Result<Value> {
        if !answer.status.is_success() {
            bail!(refusal::words(&self.address, ask, answer));
        }
        serde_json::from_slice(&answer.body).with_context(|| {
            format!(
                "{} is not an admin listener of larderd: its response is not JSON; name the \
                 address of --admin-listen",
                self.address
            )
        })
    }

    /// Sends a request and returns the response, whatever its status is.
    ///
    /// # Errors
    /// No response arrives.
    pub(crate) fn ask(&self, ask: &Ask) -> Result<Answer> {
        let socket = connect(&self.address).map_err(|error| self.unreachable(&error))?;
        socket.set_nonblocking(true)?;
        let request = self.request(ask)?;
        let exchange = async {
            match self.address {
                Address::Unix(_) => {
                    exchange(tokio::net::UnixStream::from_std(UnixStream::from(socket))?, request)
                        .await
                }
                Address::Tcp { .. } => {
                    let stream = tokio::net::TcpStream::from_std(TcpStream::from(socket))?;
                    match &self.tls {
                        None => exchange(stream, request).await,
                        Some(tls) => {
                            let connector = TlsConnector::from(tls.config.clone());
                            let stream = connector.connect(tls.name.clone(), stream).await?;
                            exchange(stream, request).await
                        }
                    }
                }
            }
        };
        let limited = async { timeout(ANSWER_TIME_MAX, exchange).await };
        match self.runtime.block_on(limited) {
            Ok(answer) => answer.map_err(|error| self.unanswered(error)),
            Err(_) => bail!(
                "no answer from {} within {} s: larderd is stopped or overloaded, or this is not \
                 an admin listener",
                self.address,
                ANSWER_TIME_MAX.as_secs()
            ),
        }
    }

    fn request(&self, ask: &Ask) -> Result<Request<Full<Bytes>>> {
        let host = match &self.address {
            Address::Unix(_) => "localhost".to_owned(),
            address @ Address::Tcp { .. } => address.to_string(),
        };
        let body = ask.body.as_ref().map(Value::to_string).unwrap_or_default();
        let mut request = Request::builder()
            .method(&ask.method)
            .uri(&ask.path)
            .header(HOST, host)
            .header(CONNECTION, "close");
        if ask.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        Ok(request.body(Full::from(body))?)
    }

    /// Returns the error of a connection that cannot be opened.
    fn unreachable(&self, error: &anyhow::Error) -> anyhow::Error {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        let remedy = match (kind, &self.address) {
            (Some(io::ErrorKind::NotFound), Address::Unix(path)) => start_with(path),
            (Some(io::ErrorKind::PermissionDenied), Address::Unix(_)) => {
                "the socket's owner and group may connect: join the group, or use sudo".to_owned()
            }
            (_, Address::Unix(path)) => start_with(path),
            (_, address) => format!("is larderd running with --admin-listen {address}?"),
        };
        anyhow!("cannot connect to the admin listener {}: {error:#}; {remedy}", self.address)
    }

    /// Returns the error of a connection that ends without a response.
    fn unanswered(&self, error: anyhow::Error) -> anyhow::Error {
        if let Some(words) = self.reason_of_tls(&error) {
            return anyhow!("no answer from {}: {words}", self.address);
        }
        let of_http = error.downcast_ref::<hyper::Error>();
        if of_http.is_some_and(hyper::Error::is_parse) {
            return anyhow!(
                "{} does not answer in HTTP: expected the address of --admin-listen, not the \
                 address of the cache",
                self.address
            );
        }
        if of_http.is_some_and(|error| error.is_incomplete_message() || error.is_closed()) {
            return anyhow!(
                "{} closed the connection before it answered: is this the address of \
                 --admin-listen?",
                self.address
            );
        }
        error.context(format!("no answer from {}", self.address))
    }

    /// Returns the text of a TLS error.
    fn reason_of_tls(&self, error: &anyhow::Error) -> Option<String> {
        let tls = self.tls.as_ref()?;
        let words = refusal_of_tls::words(io_error(error)?, tls.has_certificate)?;
        Some(format!("TLS: {words}"))
    }
}

/// Returns the I/O error in the chain of causes.
fn io_error(error: &anyhow::Error) -> Option<&io::Error> {
    error.chain().find_map(|cause| cause.downcast_ref::<io::Error>())
}

fn start_with(path: &Path) -> String {
    format!("is larderd running with --admin-listen {}?", path.display())
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answer> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The exchange reports errors of the connection.
    let connection = tokio::spawn(connection);
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    connection.abort();
    let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
        Ok(error) => anyhow::Error::from(*error),
        Err(_) => anyhow!("the response has more than {ANSWER_BYTES_MAX} bytes"),
    })?;
    Ok(Answer { status: head.status, body: body.to_bytes().into() })
}

/// The longest time that a response may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// The largest response. A page of a thousand keys of the maximum length has less than 2 MiB.
const ANSWER_BYTES_MAX: usize = 8 << 20;
