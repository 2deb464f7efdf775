//! The weights of the origins: those of `--origin`, or of the file `--origin-weights`.

use std::fs;
use std::io;
use std::path::Path;

use larder_options::Origin;

/// The weight of each origin, in the order of `--origin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Weights(Box<[u32]>);

/// The reason why weights cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file cannot be read.
    #[error("option --origin-weights: {path}: {error}")]
    File {
        /// The path.
        path: String,
        /// The error.
        error: io::Error,
    },
    /// A line has another form.
    #[error(
        "option --origin-weights: {path}: line {line}: {found:?} is not an address of --origin and a \
         weight from 1 to 65535"
    )]
    Line {
        /// The path.
        path: String,
        /// The number of the line.
        line: usize,
        /// The line.
        found: String,
    },
    /// A line names a server that is no origin, or one that an earlier line names.
    #[error("option --origin-weights: {path}: line {line}: {address} is {fault}")]
    Address {
        /// The path.
        path: String,
        /// The number of the line.
        line: usize,
        /// The address.
        address: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// An origin would own no keys.
    #[error(
        "origin {address}: its weight is so much lower than the others that it owns no keys; use \
         weights that differ less, in --origin or --origin-weights"
    )]
    NoKeys {
        /// The address.
        address: String,
    },
    /// No file descriptors are left.
    #[error(
        "cannot open the file descriptors of the near threads: {0}; raise the limit (ulimit -n)"
    )]
    Descriptors(#[from] rustix::io::Errno),
}

impl Weights {
    /// Returns the weights of `--origin`.
    ///
    /// # Errors
    /// Fails if an origin would own no keys.
    pub(crate) fn given(origins: &[Origin]) -> Result<Self, WeightsError> {
        Self(origins.iter().map(|origin| origin.weight).collect()).checked(origins)
    }

    fn checked(self, origins: &[Origin]) -> Result<Self, WeightsError> {
        match (0..origins.len()).find(|origin| self.sums_of(*origin) == 0) {
            Some(origin) => {
                Err(WeightsError::NoKeys { address: origins[origin].address.to_string() })
            }
            None => Ok(self),
        }
    }

    /// Reads the file of weights. Origins that it does not name keep the weights of `--origin`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, if a line has another form or names another server, or if
    /// an origin would own no keys.
    pub(crate) fn read(path: &Path, origins: &[Origin]) -> Result<Self, WeightsError> {
        let shown = || path.display().to_string();
        let file_error = |error| WeightsError::File { path: shown(), error };
        let text = read(path).map_err(file_error)?;
        let mut weights = Self(origins.iter().map(|origin| origin.weight).collect());
        let mut named = vec![false; origins.len()];
        for (number, line) in text.lines().enumerate() {
            let (line, number) = (line.split('#').next().unwrap_or_default().trim(), number + 1);
            if line.is_empty() {
                continue;
            }
            let mut words = line.split_whitespace();
            let (Some(address), Some(weight), None) = (words.next(), words.next(), words.next())
            else {
                return Err(WeightsError::Line { path: shown(), line: number, found: line.into() });
            };
            let Some(weight) = Origin::weight(weight) else {
                return Err(WeightsError::Line { path: shown(), line: number, found: line.into() });
            };
            let at = origins.iter().position(|origin| origin.address.to_string() == address);
            let fault = match at {
                None => Some("no origin: name the servers as in --origin"),
                Some(at) if named[at] => Some("named twice"),
                Some(_) => None,
            };
            if let Some(fault) = fault {
                let address = address.to_owned();
                return Err(WeightsError::Address { path: shown(), line: number, address, fault });
            }
            if let Some(at) = at {
                (weights.0[at], named[at]) = (weight, true);
            }
        }
        if !named.contains(&true) {
            // A program may be about to write the file.
            return Err(file_error(io::Error::other("it names no origin")));
        }
        weights.checked(origins)
    }

    /// Returns the number of MD5 sums of an origin on the ring.
    fn sums_of(&self, origin: usize) -> u32 {
        larder_ring::sums_of(&self.0, origin)
    }

    /// Returns all weights, in the order of the origins.
    pub(super) fn all(&self) -> &[u32] {
        &self.0
    }

    /// Returns the number of origins.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the address and the weight of each origin, as the log shows them.
    pub(super) fn shown(&self, origins: &[Origin]) -> String {
        let shown = |(origin, weight): (&Origin, &u32)| format!("{} {weight}", origin.address);
        origins.iter().zip(&self.0).map(shown).collect::<Vec<_>>().join(", ")
    }

    /// Returns the weight of an origin.
    pub(crate) fn of(&self, origin: usize) -> u32 {
        self.0[origin]
    }
}

/// Reads a file of a limited length.
fn read(path: &Path) -> io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes"))),
        false => Ok(text),
    }
}

/// More than 64 origins need.
const FILE_BYTES_MAX: u64 = 64 * 1024;
