//! Which keys move to the target.

use anyhow::{Result, bail};

use super::servers::{Member, Servers};

/// The owners of the keys before and after a change of the list of servers.
#[derive(Debug)]
pub(super) struct Plan {
    from: Servers,
    to: Servers,
    target: Member,
    target_before: Option<usize>,
    target_after: usize,
    /// True if all keys are copied.
    is_standby: bool,
}

impl Plan {
    /// Creates the plan for a target. Without `to`, the target joins the servers of `from`.
    ///
    /// # Errors
    /// The target is not in the list after the change, or no key moves to it.
    pub(super) fn new(from: &str, to: Option<&str>, target: &str) -> Result<Self> {
        let from = Servers::parse("--from", from)?;
        let target = Member::parse(target)?;
        let to = match to {
            Some(to) => Servers::parse("--to", to)?,
            None if from.find(&target).is_some() => bail!(
                "--self {} is one of --from: give the list after the change with --to",
                target.address
            ),
            None => from.with(&target)?,
        };
        let Some(target_after) = to.find(&target) else {
            let members: Vec<_> =
                to.members().iter().map(|each| each.address.to_string()).collect();
            bail!(
                "--self {} is not in the list after the change ({}), so no key belongs to it: name \
                 it as clients do",
                target.address,
                members.join(", ")
            );
        };
        let target_before = from.find(&target);
        let target = to.members()[target_after].clone();
        let is_standby = false;
        Ok(Self { from, to, target, target_before, target_after, is_standby })
    }

    /// Creates the plan for a standby, which has all keys of one server.
    ///
    /// # Errors
    /// There are several servers, or the target is the server.
    pub(super) fn standby(from: &str, target: &str) -> Result<Self> {
        let from = Servers::parse("--from", from)?;
        if from.members().len() != 1 {
            bail!("--standby has the items of one server: give one with --from");
        }
        let target = Member::parse(target)?;
        if from.find(&target).is_some() {
            bail!("--self {} is the server of --from", target.address);
        }
        let to = from.with(&target)?;
        Ok(Self { from, to, target, target_before: None, target_after: 1, is_standby: true })
    }

    pub(super) fn target(&self) -> &Member {
        &self.target
    }

    /// Returns the servers from which keys may move, with their numbers.
    pub(super) fn sources(&self) -> impl Iterator<Item = (usize, &Member)> {
        let others = self.from.members().iter().enumerate();
        others.filter(|(number, _)| Some(*number) != self.target_before)
    }

    /// True if a key belongs to a source before the change, and to the target after it. Other keys
    /// of the source may be left from an earlier list.
    pub(super) fn moves(&self, source: usize, key: &[u8]) -> bool {
        if self.is_standby {
            return true;
        }
        let hash = larder_ring::hash_of(key);
        self.to.owner_at(hash) == self.target_after && self.from.owner_at(hash) == source
    }

    /// True if an item of the target is left from an earlier list: its key belongs to the target
    /// only after the change.
    pub(super) fn is_leftover(&self, key: &[u8]) -> bool {
        let hash = larder_ring::hash_of(key);
        self.to.owner_at(hash) == self.target_after
            && Some(self.from.owner_at(hash)) != self.target_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> impl Iterator<Item = Vec<u8>> {
        (0..4000).map(|number| format!("key:{number}").into_bytes())
    }

    #[test]
    fn each_key_that_moves_has_one_source() {
        let plan = Plan::new("a,b,c", None, "d").unwrap();
        let moved: Vec<_> = keys()
            .map(|key| plan.sources().filter(|(source, _)| plan.moves(*source, &key)).count())
            .collect();
        assert!(moved.iter().all(|sources| *sources <= 1));
        let moved: usize = moved.iter().sum();
        assert!((700..1300).contains(&moved), "{moved} of 4000");
    }

    #[test]
    fn what_moves_back_is_what_moved() {
        let grow = Plan::new("a,b,c", None, "d").unwrap();
        let shrink = Plan::new("a,b,c,d", Some("a,b,c"), "a").unwrap();
        for key in keys() {
            // Its owner before is a, and d after; then d is its source for a.
            assert_eq!(grow.moves(0, &key), shrink.moves(3, &key));
            assert_eq!(shrink.is_leftover(&key), shrink.moves(3, &key));
        }
    }

    #[test]
    fn a_target_that_owns_nothing_is_an_error() {
        for (from, to, target, expected) in [
            ("a,b", Some("a,b,c"), "d", "is not in the list after the change (a:11211, b:11211"),
            ("a,b,c", None, "b", "give the list after the change with --to"),
        ] {
            let error = format!("{:#}", Plan::new(from, to, target).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
