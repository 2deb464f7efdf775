//! A near cache whose origin is gone or silent, or whose copies are of little use.

use larder_loadgen::argument::{counted, were};

use super::facts::Facts;
use super::{Finding, Rule, percent};

pub(super) const RULES: &[Rule] = &[
    cannot_reach_its_origin,
    passes_everything,
    copies_for_a_time,
    is_late,
    has_unusable_weights,
    is_not_answered,
    loses_its_stream,
    is_flushed,
    has_full_lists,
    shares_buckets,
    copies_what_changes,
    fetches_what_changes,
];

fn cannot_reach_its_origin(facts: &Facts) -> Option<Finding> {
    let unreachable = facts.number("near_origins_unreachable");
    (unreachable > 0).then(|| {
        let sentence = format!(
            "{} cannot be reached, so that every request for its keys fails; larder stats origins \
             names it, and the log of this server has the reason. Start the origin, or correct \
             --origin, --origin-ca, --origin-login or the firewall",
            of_origins(unreachable, facts)
        );
        Finding::new("near-unreachable", sentence)
    })
}

fn passes_everything(facts: &Facts) -> Option<Finding> {
    let passing = facts.number("near_origins_passing");
    (passing > 0).then(|| {
        let sentence = format!(
            "{} reports no changes at the moment, so that none of its items is copied and every \
             request for its keys crosses the network; the log of this server has the reason. An \
             origin reports nothing while it is upgraded or another process has its memory file \
             open, and nothing is copied while this near cache is upgraded, until its old process \
             has ended",
            of_origins(passing, facts)
        );
        Finding::new("near-passes", sentence)
    })
}

fn copies_for_a_time(facts: &Facts) -> Option<Finding> {
    let timed = facts.number("near_origins_timed");
    (timed > 0).then(|| {
        let sentence = format!(
            "{} reports no changes, so that each copy of its items is used for --near-ttl and may \
             be out of date for as long. If the origin is a larderd, start it with --followers and \
             at least the number of its near caches; if it is a memcached, ignore this",
            of_origins(timed, facts)
        );
        Finding::new("near-timed", sentence)
    })
}

fn is_late(facts: &Facts) -> Option<Finding> {
    let late = facts.number("near_origins_late");
    (late > 0).then(|| {
        let sentence = format!(
            "{} has not answered for about --near-max-stale, so that copies of its items are not \
             used. Look for an origin that hangs or a network that loses packets; if the finding \
             disappears, the connection had just begun",
            of_origins(late, facts)
        );
        Finding::new("near-late", sentence)
    })
}

/// Returns the subject of a sentence about some of the origins.
fn of_origins(count: u64, facts: &Facts) -> String {
    match facts.number("near_origins") {
        0 | 1 => "the origin".to_owned(),
        all => format!("an origin ({count} of {all})"),
    }
}

fn has_unusable_weights(facts: &Facts) -> Option<Finding> {
    let failures = facts.number("near_weights_reload_failures");
    (failures > 0).then(|| {
        let sentence = format!(
            "the file of --origin-weights could not be used {} since the start, and \
             the weights stayed as they were; the log has the reason. Correct the file, and compare \
             larder stats origins: near caches with other weights look for keys at other origins",
            counted(failures, "time")
        );
        Finding::new("near-weights", sentence)
    })
}

fn is_not_answered(facts: &Facts) -> Option<Finding> {
    let unanswered = facts.number("near_unanswered");
    let asked = facts.number("near_fetches") + facts.number("near_passed");
    let is_proved = unanswered >= UNANSWERED_MIN
        && unanswered.saturating_mul(1000) >= asked.saturating_mul(UNANSWERED_PER_MILLE_MIN);
    is_proved.then(|| {
        let failed = were(unanswered, "request");
        let sentence = format!(
            "{failed} not answered by the origin within --origin-timeout, of {asked} that it was \
             asked; changes among them may have been executed. Look for load on the origin or the \
             network, or raise --origin-timeout"
        );
        Finding::new("near-silent", sentence)
    })
}

/// A restart of the origin ends a stream once.
fn loses_its_stream(facts: &Facts) -> Option<Finding> {
    let (lost, uptime_secs) = (facts.number("near_streams_lost"), facts.number("uptime"));
    let lost = lost / facts.number("near_origins").max(1);
    (lost >= LOST_MIN && is_hourly(lost, uptime_secs)).then(|| {
        let sentence = format!(
            "the change stream of an origin was lost {lost} times in {} min, and each time all \
             copies of its items were dropped; the log has the reasons. Repair the network, raise \
             --near-max-stale, or restart the origin less often",
            uptime_secs / 60
        );
        Finding::new("near-streams-lost", sentence)
    })
}

fn is_flushed(facts: &Facts) -> Option<Finding> {
    // A flush_all is reported by each origin.
    let flushes = facts.number("near_flushes") / facts.number("near_origins").max(1);
    let uptime_secs = facts.number("uptime");
    (flushes >= LOST_MIN && is_hourly(flushes, uptime_secs)).then(|| {
        let sentence = format!(
            "all copies were dropped {flushes} times in {} min, because a client used flush_all, \
             or this server did not read the reports of the origin as fast as items changed \
             (follower_overflows at the origin). Remove items by prefix, or give this machine more \
             processor time",
            uptime_secs / 60
        );
        Finding::new("near-flushed", sentence)
    })
}

fn has_full_lists(facts: &Facts) -> Option<Finding> {
    let (bytes, most) = (facts.number("near_listed_bytes"), facts.number("near_listed_bytes_max"));
    let share = percent(bytes, most);
    (share >= LISTED_PERCENT_MIN).then(|| {
        let sentence = format!(
            "the keys of the copies use {share} % of a quarter of -m, their limit, so that copies \
             make way in no useful order, even if memory for values is free. Raise -m, now {} MiB",
            most.saturating_mul(4) >> 20
        );
        Finding::new("near-keys-full", sentence)
    })
}

/// A report names a bucket of keys, and all copies of the bucket are dropped. If a report drops
/// more than one copy on average, there are more copies than buckets.
fn shares_buckets(facts: &Facts) -> Option<Finding> {
    let (changes, dropped) = (facts.number("near_changes"), facts.number("near_dropped"));
    let is_proved = changes >= CHANGES_MIN
        && dropped.saturating_mul(10) >= changes.saturating_mul(DROPPED_PER_TEN_MIN);
    is_proved.then(|| {
        let sentence = format!(
            "{changes} reports of the origin have dropped {dropped} copies: a report names a \
             bucket of keys, and there is more than one copy a bucket, so that copies are dropped \
             because of other keys. Keep fewer copies: lower -m, or let near caches serve \
             different keys"
        );
        Finding::new("near-buckets", sentence)
    })
}

fn copies_what_changes(facts: &Facts) -> Option<Finding> {
    let (kept, dropped) = (facts.number("near_kept"), facts.number("near_dropped"));
    let hits = facts.number("get_hits").saturating_sub(facts.number("near_ahead"));
    let hit_share = percent(hits, facts.number("cmd_get"));
    let is_proved = kept >= CHANGES_MIN
        && percent(dropped, kept) >= DROPPED_PERCENT_MIN
        && hit_share < HITS_PERCENT_MAX;
    is_proved.then(|| {
        let sentence = format!(
            "{dropped} of {kept} copies were dropped because their items changed, and only \
             {hit_share} % of the reads found a copy: the items change about as often as they are \
             read here. Let the programs that use them connect to the origin"
        );
        Finding::new("near-changes", sentence)
    })
}

fn fetches_what_changes(facts: &Facts) -> Option<Finding> {
    let (refused, fetched) = (facts.number("near_refused_detached"), facts.number("near_fetches"));
    let share = percent(refused, fetched);
    (fetched >= CHANGES_MIN && share >= REFUSED_PERCENT_MIN).then(|| {
        let sentence = format!(
            "{refused} of {fetched} fetched items ({share} %) were not kept, because they changed \
             while they were fetched. Let the programs that change the same keys all the time \
             connect to the origin"
        );
        Finding::new("near-detached", sentence)
    })
}

/// True if something happens at least once an hour.
fn is_hourly(times: u64, uptime_secs: u64) -> bool {
    times.saturating_mul(3600) >= uptime_secs
}

const UNANSWERED_MIN: u64 = 10;
const UNANSWERED_PER_MILLE_MIN: u64 = 1;

/// Fewer losses may be restarts of the origin.
const LOST_MIN: u64 = 5;

/// The lists have parts, of which the fullest is full earlier than all together.
const LISTED_PERCENT_MIN: u64 = 80;

/// Fewer changes or fetches are not representative.
const CHANGES_MIN: u64 = 1000;
const DROPPED_PER_TEN_MIN: u64 = 15;
const DROPPED_PERCENT_MIN: u64 = 50;
const HITS_PERCENT_MAX: u64 = 50;
const REFUSED_PERCENT_MIN: u64 = 10;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the findings of rules on these statistics.
    pub(in crate::doctor) fn found(rules: &[Rule], rows: &[(&str, &str)]) -> Vec<Finding> {
        let facts = Facts::of_rows(rows);
        rules.iter().filter_map(|rule| rule(&facts)).collect()
    }

    /// The statistics of a near cache without problems.
    const HEALTHY: &[(&str, &str)] = &[
        ("near_state", "copies"),
        ("near_origins", "1"),
        ("near_fresh", "1"),
        ("uptime", "36000"),
        ("cmd_get", "100000"),
        ("get_hits", "80000"),
        ("near_fetches", "20000"),
        ("near_kept", "19000"),
        ("near_passed", "3000"),
        ("near_changes", "5000"),
        ("near_dropped", "5000"),
        ("near_listed_bytes", "500"),
        ("near_listed_bytes_max", "1000"),
        ("near_streams_lost", "9"),
        ("near_flushes", "4"),
        ("near_unanswered", "9"),
    ];

    #[test]
    fn each_statistic_has_its_finding() {
        assert_eq!(found(RULES, HEALTHY), []);
        for (name, rows) in [
            ("near-unreachable", &[("near_origins_unreachable", "1"), ("near_origins", "2")][..]),
            ("near-passes", &[("near_origins_passing", "1")]),
            ("near-timed", &[("near_origins_timed", "1")]),
            ("near-late", &[("near_origins_late", "1")]),
            ("near-weights", &[("near_weights_reload_failures", "1")]),
            ("near-silent", &[("near_unanswered", "23")]),
            ("near-streams-lost", &[("near_streams_lost", "10")]),
            ("near-flushed", &[("near_flushes", "10")]),
            ("near-keys-full", &[("near_listed_bytes", "900")]),
            ("near-buckets", &[("near_dropped", "7500")]),
            ("near-changes", &[("near_kept", "10000"), ("get_hits", "49999")]),
            ("near-detached", &[("near_refused_detached", "2000")]),
        ] {
            // A later row replaces an earlier one.
            let findings = found(RULES, &[HEALTHY, rows].concat());
            let names: Vec<_> = findings.iter().map(|finding| finding.name).collect();
            assert_eq!(names, [name], "{findings:?}");
        }
        assert_eq!(found(RULES, &[]), [], "a server that is no near cache");
    }
}
