//! Reads in the memory of a server on the same machine, and the placement of keys on servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use larder::Client;
use napi::bindgen_prelude::{AsyncTask, BigInt, Buffer, Env, Error, Result, Status, Task};
use napi_derive::napi;

use crate::errors::Failure;
use crate::key::Key;

/// An item in a server's memory.
#[napi(object)]
pub struct NativeHit {
    pub value: Buffer,
    pub flags: u32,
    pub cas: BigInt,
}

/// Reads items in the memory of the larderd or near cache at a unix socket. It never requests an
/// item from the server.
#[napi]
pub struct LocalReader(Arc<Client>);

#[napi]
impl LocalReader {
    /// True if the server shares its memory with this user, and the memory is up to date.
    #[napi]
    pub fn reads_memory(&self) -> bool {
        self.0.reads_memory()
    }

    /// Returns the item of a key; null if it is not in the server's memory. The server may still
    /// have it, for example on disk. Never waits.
    #[napi]
    pub fn get(&self, key: Key) -> Option<NativeHit> {
        let mut value = Vec::new();
        let hit = self.0.look(&key.0, &mut value)?;
        Some(NativeHit { value: value.into(), flags: hit.flags, cas: hit.cas.into() })
    }

    /// Opens a connection if none is open, and with it the memory of a server that was restarted.
    #[napi(ts_return_type = "Promise<void>")]
    pub fn refresh(&self) -> AsyncTask<Refresh> {
        AsyncTask::new(Refresh(Arc::clone(&self.0)))
    }
}

/// Connects to the socket, on a thread of libuv's pool. `timeout` is the longest wait for the
/// server, in milliseconds.
#[napi(ts_return_type = "Promise<LocalReader>")]
pub(crate) fn open_local_reader(path: String, timeout: f64) -> AsyncTask<Connect> {
    let timeout = Duration::try_from_secs_f64(timeout / 1000.0).unwrap_or(Duration::from_secs(5));
    AsyncTask::new(Connect { path: path.into(), timeout })
}

pub(crate) struct Connect {
    path: PathBuf,
    timeout: Duration,
}

impl Task for Connect {
    type Output = Client;
    type JsValue = LocalReader;

    fn compute(&mut self) -> Result<Client> {
        Client::connect_within(&self.path, self.timeout).map_err(|error| rejected(error.into()))
    }

    fn resolve(&mut self, _env: Env, client: Client) -> Result<LocalReader> {
        Ok(LocalReader(Arc::new(client)))
    }
}

pub struct Refresh(Arc<Client>);

impl Task for Refresh {
    type Output = ();
    type JsValue = ();

    fn compute(&mut self) -> Result<()> {
        self.0.refresh().map_err(|error| rejected(error.into()))
    }

    fn resolve(&mut self, _env: Env, _output: ()) -> Result<()> {
        Ok(())
    }
}

fn rejected(failure: Failure) -> Error {
    Error::new(Status::GenericFailure, failure.message)
}

/// Assigns keys to servers by ketama, as libmemcached and php-memcached do, so that clients of
/// several languages agree. `names` are the servers as `host:port`. A server with twice the weight
/// of another one receives twice the keys.
#[napi]
pub struct Ring(larder_ring::Ring);

#[napi]
impl Ring {
    #[napi(constructor)]
    pub fn new(env: Env, names: Vec<String>, weights: Vec<u32>) -> Result<Self> {
        if names.is_empty() || names.len() != weights.len() || weights.contains(&0) {
            let message = format_args!(
                "expected at least one server, and a weight of at least 1 for each, found {} \
                 servers with the weights {weights:?}",
                names.len()
            );
            return Err(Failure::argument(message).thrown(env.raw()));
        }
        Ok(Self(larder_ring::Ring::new(&names, &weights)))
    }

    /// Returns the index of the server that has the key.
    #[napi]
    pub fn owner_of(&self, key: Key) -> u32 {
        self.0.owner_of(&key.0) as u32
    }
}
