//! Near caches that follow a server, and that it serves badly.

use larder_loadgen::argument::counted;

use super::facts::Facts;
use super::{Finding, Rule, percent};

pub(super) const RULES: &[Rule] = &[has_slow_ones, has_many, must_not_be_copied];

fn has_slow_ones(facts: &Facts) -> Option<Finding> {
    let overflows = facts.number("follower_overflows");
    (overflows > 0).then(|| {
        let times = counted(overflows, "time");
        let sentence = format!(
            "a near cache has dropped all its copies {times}, because it did not read the reports \
             as fast as items changed. Give the machines of the near caches more processor time \
             or a faster network, or let programs that write most use this server directly"
        );
        Finding::new("followers-slow", sentence)
    })
}

fn has_many(facts: &Facts) -> Option<Finding> {
    let followers = facts.number("followers");
    (followers > SLOTS).then(|| {
        let sentence = format!(
            "{followers} near caches follow the server, and from {} on some share what it \
             remembers of their copies: changes are also reported to near caches without a copy. \
             Let several programs or hosts share a near cache",
            SLOTS + 1
        );
        Finding::new("followers-many", sentence)
    })
}

fn must_not_be_copied(facts: &Facts) -> Option<Finding> {
    let (unnoted, all) =
        (facts.number("follower_fetches_unnoted"), facts.number("follower_fetches"));
    let share = percent(unnoted, all);
    (all >= FETCHES_MIN && share >= UNNOTED_PERCENT_MIN).then(|| {
        let sentence = format!(
            "{unnoted} of {all} items that near caches fetched ({share} %) must not be copied, \
             because the server did not report changes at that moment: it was being upgraded, \
             another process had its memory file open, or the change stream of the near cache had \
             just ended. Close the processes that have the file of -e open; the log has the reason"
        );
        Finding::new("followers-unnoted", sentence)
    })
}

/// From more near caches on, some share a bit of interest.
const SLOTS: u64 = 64;

/// The share of fewer fetches is not representative.
const FETCHES_MIN: u64 = 1000;
const UNNOTED_PERCENT_MIN: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::near::tests::found;

    #[test]
    fn many_followers_and_fetches_without_interest_are_found() {
        let many = |number| found(RULES, &[("followers", number)]);
        assert!(many("64").is_empty());
        assert_eq!(many("65")[0].name, "followers-many");
        let unnoted = |part, all| {
            found(RULES, &[("follower_fetches_unnoted", part), ("follower_fetches", all)])
        };
        assert!(unnoted("99", "999").is_empty() && unnoted("99", "1000").is_empty());
        let [finding] = &unnoted("250", "1000")[..] else { panic!("not found") };
        assert_eq!(finding.name, "followers-unnoted");
        assert!(finding.sentence.contains("250 of 1000") && finding.sentence.contains("25 %"));
        let slow = found(RULES, &[("follower_overflows", "1")]);
        assert!(slow[0].sentence.contains("all its copies 1 time,"), "{slow:?}");
    }
}
