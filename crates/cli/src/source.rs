//! Where items or facts come from: a server, the memory file of a cache, or the directory of a disk
//! tier.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use larder::{Inspection, TierInspection};
use larder_load::address::Address;
use larder_load::connect::dialer::{AccessArguments, Dialer};

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
    /// Decides by the file system: a regular file is a memory file, a directory that of a disk
    /// tier, all else is an address.
    ///
    /// # Errors
    /// It is none of them, the file holds no cache that this build can read, or the options of TLS
    /// and the login do not fit.
    pub(crate) fn open(source: &Path, access: &AccessArguments) -> Result<Self> {
        let found = fs::metadata(source).ok().map(|found| found.file_type());
        if found.is_some_and(|found| found.is_file()) {
            access.refuse("a memory file is read without a server")?;
            let inspection = Inspection::open(source).context(
                "a regular file has to be the file of a cache, as -e of larderd makes it",
            )?;
            return Ok(Self::MemoryFile(Box::new(inspection)));
        }
        if found.is_some_and(|found| found.is_dir()) {
            access.refuse("a directory is read without a server")?;
            return Ok(Self::Directory(Box::new(TierInspection::open(source)?)));
        }
        if found.is_some_and(|found| found.is_socket()) {
            return Ok(Self::Server(access.dialer(&Address::Unix(source.to_owned()))?));
        }
        let Some(text) = source.to_str() else { bail!("{source:?} is no address and no file") };
        match Address::from_str(text) {
            Ok(address) => Ok(Self::Server(access.dialer(&address)?)),
            Err(why) => bail!("there is no file {text}, and it is no address: {why}"),
        }
    }
}
