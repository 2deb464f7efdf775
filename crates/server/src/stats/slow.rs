//! `stats slow`: the latest slow requests.

use larder_protocol::text::dump::push_uri;
use larder_protocol::{Frame, render};
use larder_stats::Counter;
use serde_json::Value;

use crate::observe::slow::SlowRequests;
use crate::server::Server;

/// Appends the latest slow requests, the newest first. Keys are shown in URI encoding, because a
/// key may contain any byte. With `-X` they are not shown.
pub(crate) fn slow(server: &Server, frame: &Frame<'_>, out: &mut Vec<u8>) {
    let mut stat = |name: std::fmt::Arguments<'_>, value: &str| {
        render::stat(out, name, value, frame);
    };
    let slow = server.statistics.slow.as_ref();
    let slower_than = slow.map_or("off".to_owned(), |of| of.slower_than().as_micros().to_string());
    stat(format_args!("slower_than_us"), &slower_than);
    stat(format_args!("slow_requests"), &server.counter(Counter::SlowRequests).to_string());
    let list = slow.map(SlowRequests::list).unwrap_or_default();
    for (slow, place) in list.iter().zip(1..) {
        stat(format_args!("{place}:at"), &slow.at().to_string());
        for (name, value) in slow.members(false) {
            let value = match value {
                Value::String(text) => text,
                number => number.to_string(),
            };
            stat(format_args!("{place}:{name}"), &value);
        }
        let mut key = Vec::new();
        push_uri(&mut key, slow.key());
        if server.options.dump && !key.is_empty() {
            stat(format_args!("{place}:key"), &String::from_utf8_lossy(&key));
        }
    }
}
