//! Connections that the server closed because the buffers were full.

use larder_loadgen::argument::were;

use super::facts::Facts;
use super::{Finding, Rule};

pub(super) const RULES: &[Rule] = &[is_over_budget];

fn is_over_budget(facts: &Facts) -> Option<Finding> {
    let (unsent, unread) = (facts.number("response_obj_oom"), facts.number("read_buf_oom"));
    (unsent + unread > 0).then(|| {
        let closed = were(unsent + unread, "connection");
        let sentence = format!(
            "{closed} closed because all connections together held more than the limit of the \
             buffers ({unsent} with unread answers, {unread} with unfinished requests). Find the \
             clients that do not read their answers, make clients request fewer keys at a time, or \
             raise -o read_buf_mem_limit"
        );
        Finding::new("buffers-limit", sentence)
    })
}
