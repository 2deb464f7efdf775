//! Reads in the memory of a server on the same machine.

use std::path::PathBuf;
use std::time::Duration;

use larder::{Client, Hit};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;

/// The bytes of a value, its flags, and its cas token.
type Found<'py> = (Bound<'py, PyBytes>, u32, u64);

/// Reads items in the memory of the larderd or near cache at a unix socket. It never requests an
/// item from the server.
#[pyclass(frozen, module = "larder_cache._larder")]
pub(crate) struct LocalReader(Client);

#[pymethods]
impl LocalReader {
    /// Connects to the socket. `timeout` is the longest wait for the server, in seconds.
    #[new]
    #[pyo3(signature = (path, timeout=5.0))]
    fn new(py: Python<'_>, path: PathBuf, timeout: f64) -> PyResult<Self> {
        let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::from_secs(5));
        let connected = py.detach(|| Client::connect_within(path, timeout));
        connected.map(Self).map_err(|error| errors::client(py, &error))
    }

    /// True if the server shares its memory with this user, and the memory is up to date.
    fn reads_memory(&self) -> bool {
        self.0.reads_memory()
    }

    /// Returns the value of a key, its flags and its cas token; None if the item is not in the
    /// server's memory. The server may still have it, for example on disk. Never waits.
    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> Option<Found<'py>> {
        let mut value = Vec::new();
        let hit = self.0.look(key, &mut value)?;
        Some(found(py, &value, &hit))
    }

    /// Same as `get`, for several keys: a list with a tuple or None for each.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Bound<'py, PyBytes>>,
    ) -> Vec<Option<Found<'py>>> {
        let mut value = Vec::new();
        keys.iter()
            .map(|key| {
                value.clear();
                let hit = self.0.look(key.as_bytes(), &mut value)?;
                Some(found(py, &value, &hit))
            })
            .collect()
    }

    /// Opens a connection if none is open, and with it the memory of a server that was restarted.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.refresh()).map_err(|error| errors::client(py, &error))
    }
}

fn found<'py>(py: Python<'py>, value: &[u8], hit: &Hit) -> Found<'py> {
    (PyBytes::new(py, value), hit.flags, hit.cas)
}
