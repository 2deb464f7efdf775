//! Sources of items or facts: a server, the *memory file* of a cache (the file in which several
//! processes share it), or the directory of a disk tier.

use std::fs;
use std::io;
use std::net::ToSocketAddrs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use larder::{Inspection, SharedError, TierInspection};
use larder_loadgen::address::Address;
use larder_loadgen::connect::dialer::{AccessArguments, Dialer};

/// A server, a memory file or a directory.
#[derive(Debug)]
pub(crate) enum Source {
    /// A server that speaks memcached's protocol.
    Server(Dialer),
    /// A cache in a file, mapped for reading only.
    MemoryFile(Box<Inspection>),
    /// The directory of a disk tier that no server uses.
    Directory(Box<TierInspection>),
}

impl Source {
    /// Opens the source that `source` names: a regular file is a memory file, a directory is the
    /// directory of a disk tier, and any other text is the address of a server.
    ///
    /// # Errors
    /// `source` is none of these, the file does not contain a cache that this build can read, or
    /// the options of TLS and the login do not apply.
    pub(crate) fn open(source: &Path, access: &AccessArguments) -> Result<Self> {
        let found = fs::metadata(source).ok().map(|found| found.file_type());
        if found.is_some_and(|found| found.is_file()) {
            access.refuse("a memory file is read without a server")?;
            return Ok(Self::MemoryFile(Box::new(memory_file(source)?)));
        }
        if found.is_some_and(|found| found.is_dir()) {
            access.refuse("a directory is read without a server")?;
            return Ok(Self::Directory(Box::new(TierInspection::open(source)?)));
        }
        if found.is_some_and(|found| found.is_socket()) {
            return Ok(Self::Server(access.dialer(&Address::Unix(source.to_owned()))?));
        }
        let address = match address(source) {
            Ok(address) => address,
            Err(why) => bail!(
                "there is no file or directory {}, and it is not the address of a server: {why}",
                source.display()
            ),
        };
        Ok(Self::Server(access.dialer(&address)?))
    }
}

/// Parses the address of a server. Text without a port may be the name of a missing file, so it
/// must be the name of a host that resolves.
fn address(source: &Path) -> Result<Address, String> {
    let text = source.to_str().ok_or("expected UTF-8")?;
    let address = Address::from_str(text)?;
    if let (Address::Tcp { host, port }, Err(why)) = (&address, Address::with_port(text))
        && (host.as_str(), *port).to_socket_addrs().is_err()
    {
        return Err(why);
    }
    Ok(address)
}

/// Opens the file of a cache.
///
/// # Errors
/// The file does not exist, or does not contain a cache that this build can read.
pub(crate) fn memory_file(path: &Path) -> Result<Inspection> {
    if let Err(error) = fs::metadata(path)
        && error.kind() == io::ErrorKind::NotFound
    {
        bail!(
            "there is no file or directory {}: check the path; expected the file of a cache (larderd \
             -e, or the path that a program gave), or a directory of --tier-path",
            path.display()
        );
    }
    Inspection::open(path).map_err(|error| match error {
        SharedError::Unusable { reason, .. } => anyhow!(
            "cannot use {}: {reason}; name a file that larderd -e or a program of this release of \
             Larder has created",
            path.display()
        ),
        error => error.into(),
    })
}
