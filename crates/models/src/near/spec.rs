//! The promises, judged from what clients saw.
//!
//! A change gives its key the next *version*. So a copy is current if its version is that of the
//! item, and an older value has a smaller version.

/// How long after a change was acknowledged a read may still begin and return what was before.
pub(crate) const MAX_STALE: u8 = 1;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Spec {
    /// The newest version of each key that each near cache has answered.
    seen: [[u8; 2]; 2],
    /// The versions of each key that were acknowledged, and when.
    acknowledged: [Vec<(u8, u8)>; 2],
}

/// The oldest versions that a read may return.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Floor {
    seen: u8,
    due: u8,
}

impl Spec {
    /// Notes that clients of a near cache have seen a version.
    pub(crate) fn see(&mut self, near: u8, key: u8, version: u8) {
        let seen = &mut self.seen[usize::from(near)][usize::from(key)];
        *seen = version.max(*seen);
    }

    pub(crate) fn acknowledge(&mut self, key: u8, version: u8, now: u8) {
        self.acknowledged[usize::from(key)].push((version, now));
        self.acknowledged[usize::from(key)].sort_unstable();
    }

    /// Returns the versions that a read which begins now must not fall below.
    pub(crate) fn floor(&self, near: u8, key: u8, now: u8) -> Floor {
        let due = self.acknowledged[usize::from(key)].iter().rev();
        let due = due.filter(|(_, at)| at + MAX_STALE < now).map(|(version, _)| *version).max();
        Floor { seen: self.seen[usize::from(near)][usize::from(key)], due: due.unwrap_or_default() }
    }

    /// Judges the answer of a read.
    pub(crate) fn judge(
        &mut self,
        near: u8,
        key: u8,
        floor: Floor,
        version: u8,
    ) -> Option<&'static str> {
        self.see(near, key, version);
        if version < floor.seen {
            return Some("a read returned something older than its near cache had answered");
        }
        (version < floor.due).then_some("a read returned something that is stale for too long")
    }
}
