//! The placement of keys on several servers.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Assigns keys to servers by ketama, as libmemcached and php-memcached do, so that clients of
/// several languages agree. `names` are the servers as `host:port`; a name without a port has port
/// 11211. A server with twice the weight of another one receives twice the keys.
#[pyclass(frozen, module = "larder_cache._larder")]
pub(crate) struct Ring(larder_ring::Ring);

#[pymethods]
impl Ring {
    #[new]
    #[pyo3(signature = (names, weights=None))]
    fn new(names: Vec<String>, weights: Option<Vec<u32>>) -> PyResult<Self> {
        let weights = weights.unwrap_or_else(|| vec![1; names.len()]);
        if names.is_empty() || names.len() != weights.len() || weights.contains(&0) {
            return Err(PyValueError::new_err(format!(
                "expected at least one server, and a weight of at least 1 for each, found {} \
                 servers with the weights {weights:?}",
                names.len()
            )));
        }
        Ok(Self(larder_ring::Ring::new(&names, &weights)))
    }

    /// Returns the index of the server that has the key.
    fn owner_of(&self, key: &[u8]) -> usize {
        self.0.owner_of(key)
    }
}
