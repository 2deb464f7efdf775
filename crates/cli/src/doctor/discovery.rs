//! A server that cannot renew the list of servers that clients discover.

use larder_loadgen::argument::counted;

use super::facts::Facts;
use super::{Finding, Rule};

pub(super) const RULES: &[Rule] = &[is_stale];

fn is_stale(facts: &Facts) -> Option<Finding> {
    let is_stale = facts.number("cluster_stale") > 0;
    is_stale.then(|| {
        let consequence = match facts.number("cluster_nodes") {
            0 => "clients that discover servers receive an error".to_owned(),
            nodes => format!("clients receive an older list, of {}", counted(nodes, "server")),
        };
        let sentence = format!(
            "the file of --cluster-file cannot be read, or the name of --cluster-dns cannot be \
             resolved, so {consequence}; the log has the reason. Correct the file, or look for a \
             name server that fails"
        );
        Finding::new("servers-stale", sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::super::near::tests::found;
    use super::*;

    #[test]
    fn a_list_that_may_be_out_of_date_is_found() {
        assert_eq!(found(RULES, &[("cluster_stale", "0"), ("cluster_nodes", "3")]), []);
        for (nodes, expected) in [("3", "an older list, of 3 servers"), ("0", "receive an error")] {
            let findings = found(RULES, &[("cluster_stale", "1"), ("cluster_nodes", nodes)]);
            let sentence = findings.first().map(|finding| finding.sentence.as_str());
            assert!(sentence.is_some_and(|of| of.contains(expected)), "{findings:?}");
        }
        assert_eq!(found(RULES, &[]), [], "a server without discovery");
    }
}
