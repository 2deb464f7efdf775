//! The lists of servers among which clients divide the keys, before and after a change.

use std::fs;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use larder_loadgen::address::Address;
use larder_options::{Origin, OriginAddress};
use larder_ring::Ring;

/// A list of servers, and the ring on which clients find the owners of keys.
#[derive(Debug)]
pub(super) struct Servers {
    members: Vec<Member>,
    ring: Ring,
}

/// A server of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) address: Address,
    /// The name on the ring.
    name: String,
    weight: u32,
}

impl Servers {
    /// Parses `A,B,C`, or `@FILE` with a server on each line.
    ///
    /// # Errors
    /// The message names the entry that is wrong, and the expected form.
    pub(super) fn parse(option: &str, list: &str) -> Result<Self> {
        let members = match list.strip_prefix('@') {
            Some(path) => {
                let text = read(path).with_context(|| format!("{option}: cannot read {path}"))?;
                let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
                let lines = lines.map(str::trim).filter(|line| !line.is_empty());
                lines.map(Member::parse).collect::<Result<_>>().context(path.to_owned())
            }
            None => list.split(',').map(|text| Member::parse(text.trim())).collect(),
        };
        Self::of(members.with_context(|| option.to_owned())?).with_context(|| option.to_owned())
    }

    /// Returns these servers and one more, unless it is one of them.
    ///
    /// # Errors
    /// Same as [`Self::parse`].
    pub(super) fn with(&self, member: &Member) -> Result<Self> {
        let mut members = self.members.clone();
        if self.find(member).is_none() {
            members.push(member.clone());
        }
        Self::of(members)
    }

    fn of(members: Vec<Member>) -> Result<Self> {
        if members.is_empty() {
            bail!("the list names no server");
        }
        if members.len() > MEMBERS_MAX {
            bail!("the list has {} servers; at most {MEMBERS_MAX} are possible", members.len());
        }
        for (at, member) in members.iter().enumerate() {
            if members[..at].iter().any(|other| other.name == member.name) {
                bail!("{} is in the list twice", member.address);
            }
        }
        let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
        let weights: Vec<_> = members.iter().map(|member| member.weight).collect();
        if let Some(at) = (0..members.len()).find(|at| larder_ring::sums_of(&weights, *at) == 0) {
            bail!("{}: its weight is so low that it owns no keys", members[at].address);
        }
        let ring = Ring::new(&names, &weights);
        Ok(Self { members, ring })
    }

    /// Returns the number of a server in the list.
    pub(super) fn find(&self, member: &Member) -> Option<usize> {
        self.members.iter().position(|other| other.name == member.name)
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the number of the server that owns the keys with a hash.
    pub(super) fn owner_at(&self, hash: u32) -> usize {
        self.ring.owner_at(hash)
    }
}

impl Member {
    /// Parses `host`, `host:port`, `host:port:weight`, `[IPv6]:port` or the path of a unix socket.
    ///
    /// # Errors
    /// The text has another form.
    pub(super) fn parse(text: &str) -> Result<Self> {
        // The form of `larderd --origin` has the weight, and requires the port.
        let origin = Origin::parse_list(text).filter(|origins| origins.len() == 1);
        if let Some(Origin { address, weight }) = origin.and_then(|mut origins| origins.pop())
            && !address.has_tls()
        {
            let name = address.ketama_name();
            let address = match address {
                OriginAddress::Tcp { host, port, .. } => Address::Tcp { host, port },
                OriginAddress::Unix(path) => Address::Unix(path),
            };
            return Ok(Self { address, name, weight });
        }
        let address = Address::from_str(text).map_err(anyhow::Error::msg)?;
        let name = match address.clone() {
            Address::Tcp { host, port } => OriginAddress::Tcp { host, port, has_tls: false },
            Address::Unix(path) => OriginAddress::Unix(path),
        };
        Ok(Self { address, name: name.ketama_name(), weight: 1 })
    }
}

/// Reads a file of a limited length.
fn read(path: &str) -> Result<String> {
    let bytes = fs::metadata(path)?.len();
    if bytes > FILE_BYTES_MAX {
        bail!("it has {bytes} bytes; a list of servers has at most {FILE_BYTES_MAX}");
    }
    Ok(fs::read_to_string(path)?)
}

const MEMBERS_MAX: usize = 1024;
const FILE_BYTES_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(list: &str) -> Result<Servers> {
        Servers::parse("--from", list)
    }

    #[test]
    fn servers_have_the_forms_of_other_options() {
        let list = servers("a,b:11212,c:11213:3,[::1]:7,/run/l.sock,unix:l.sock").unwrap();
        let shown: Vec<_> = list.members().iter().map(|each| each.address.to_string()).collect();
        assert_eq!(shown.len(), 6);
        assert_eq!(shown[..3], ["a:11211", "b:11212", "c:11213"]);
        assert_eq!(list.members()[2].weight, 3);
        assert_eq!(list.find(&Member::parse("a:11211").unwrap()), Some(0));
    }

    #[test]
    fn errors_name_the_option_and_the_entry() {
        for (list, expected) in [
            ("a,,b", "--from"),
            ("a,a:11211", "a:11211 is in the list twice"),
            ("a:0", "--from"),
            ("@/nonexistent", "cannot read /nonexistent"),
            ("a:1:1,b:1:65535", "owns no keys"),
        ] {
            let error = format!("{:#}", servers(list).unwrap_err());
            assert!(error.contains(expected), "{list}: {error}");
        }
    }
}
