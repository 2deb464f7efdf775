//! Connections that were refused or had to wait.

use larder_loadgen::argument::{counted, were};

use super::facts::Facts;
use super::{Finding, Rule};

pub(super) const RULES: &[Rule] = &[is_at_the_limit];

fn is_at_the_limit(facts: &Facts) -> Option<Finding> {
    let refused = facts.number("rejected_connections");
    let stopped = facts.number("listen_disabled_num");
    let (open, most) = (facts.number("curr_connections"), facts.number("max_connections"));
    let happened = match (refused, stopped) {
        (0, 0) => return None,
        (0, stopped) => {
            let waited = facts.number("time_in_listen_disabled_us") / 1000;
            let times = counted(stopped, "time");
            format!("new connections had to wait {times}, {waited} ms together")
        }
        (refused, _) => format!("{} refused", were(refused, "connection")),
    };
    let sentence = format!(
        "{happened}, because the limit -c was reached; now {open} of {most} are open. Raise -c, or \
         make clients share connections"
    );
    Some(Finding::new("connections-limit", sentence))
}
