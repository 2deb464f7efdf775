//! `stats delete_prefix`: the last removal by prefix.

use larder_protocol::text::dump::push_uri;
use larder_protocol::{Frame, render};

use crate::server::Server;

/// Appends the last removal; nothing before the first one. A prefix is a part of keys, and `-X`
/// hides keys.
pub(super) fn show(server: &Server, frame: &Frame<'_>, out: &mut Vec<u8>) {
    let Some(job) = server.upkeep.prefix_removals.latest() else { return };
    let progress = job.progress();
    render::stat(out, "id", job.id, frame);
    if server.options.dump {
        let mut prefix = Vec::new();
        push_uri(&mut prefix, &job.prefix);
        render::stat(out, "prefix", String::from_utf8_lossy(&prefix), frame);
    }
    render::stat(out, "state", progress.state.name(), frame);
    render::stat(out, "removed", progress.removed, frame);
    render::stat(out, "progress", format_args!("{:.3}", progress.share), frame);
    render::stat(out, "secs", format_args!("{:.3}", progress.time.as_secs_f64()), frame);
}
