//! The options of discovery: where the server finds the servers of its cluster.

use std::path::PathBuf;

use crate::given::values::Values;
use crate::table::Id;
use crate::typed::check::Contradiction;
use crate::value::cluster::ClusterName;

/// The source of the list of servers that clients discover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// `--cluster-file`: a file with a line for each server.
    File(PathBuf),
    /// `--cluster-dns`: a name whose addresses are the servers.
    Name(ClusterName),
}

impl Discovery {
    pub(crate) fn new(values: &Values) -> Option<Self> {
        let file = values.text(Id::ClusterFile).map(|path| Self::File(PathBuf::from(path)));
        let name = || values.text(Id::ClusterDns).and_then(ClusterName::parse).map(Self::Name);
        file.or_else(name)
    }
}

pub(super) fn one_source(values: &Values) -> Contradiction {
    values.given(Id::ClusterFile)?;
    values.given(Id::ClusterDns)?;
    let what = "it cannot be combined with --cluster-file: give one of them".to_owned();
    Some((Id::ClusterDns, what))
}

/// The filter of system calls forbids the sockets to the name server.
pub(super) fn filtered(values: &Values) -> Contradiction {
    values.given(Id::ClusterDns)?;
    values.switch(Id::DropPrivileges).then(|| {
        let what = "it cannot be combined with -o drop_privileges: the name is resolved again \
                    while the server runs; use --cluster-file"
            .to_owned();
        (Id::ClusterDns, what)
    })
}
