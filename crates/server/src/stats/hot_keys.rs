//! `stats hotkeys`: the keys with the most commands and the keys with the most bytes.

use larder_protocol::text::dump::push_uri;
use larder_protocol::{Frame, render};
use larder_stats::Counter;

use crate::observe::hot::HotKey;
use crate::server::Server;

/// Appends the hottest keys. They are shown in URI encoding, because a key may contain any byte.
pub(crate) fn hot_keys(server: &Server, frame: &Frame<'_>, out: &mut Vec<u8>) {
    let list = server.statistics.hot_keys.list();
    let mut stat = |name: std::fmt::Arguments<'_>, value: &str| {
        render::stat(out, name, value, frame);
    };
    stat(format_args!("window_secs"), &format!("{:.1}", list.window_secs));
    stat(format_args!("sampled"), &list.sampled.to_string());
    stat(format_args!("lost"), &server.counter(Counter::HotKeysLost).to_string());
    let mut show = |order: &str, error: &str, keys: &[HotKey]| {
        for (hot_key, place) in keys.iter().take(SHOWN_MAX).zip(1..) {
            let mut key = Vec::new();
            push_uri(&mut key, &hot_key.key);
            let mut row = |name: &str, value: &str| {
                stat(format_args!("{order}:{place}:{name}"), value);
            };
            row("key", &String::from_utf8_lossy(&key));
            row("per_sec", &format!("{:.1}", hot_key.per_sec));
            row("bytes_per_sec", &format!("{:.0}", hot_key.bytes_per_sec));
            row(error, &format!("{:.1}", hot_key.error));
        }
    };
    show("rate", "error_per_sec", &list.by_rate);
    show("bytes", "error_bytes_per_sec", &list.by_bytes);
}

/// How many keys are shown in each order.
const SHOWN_MAX: usize = 20;
