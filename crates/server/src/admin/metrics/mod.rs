//! The page of `/metrics`, in Prometheus' text format 0.0.4.
//!
//! The page is built from the rows of the `stats` commands, so that both show the same numbers.

mod exporter;
mod family;
mod origins;
mod own;
mod prefixes;
mod process;
mod rows;
mod users;
mod workers;

use std::sync::Arc;

use super::health;
use crate::clock::monotonic_us;
use crate::server::Server;
use crate::stats;
use family::{Kind, Page};
use rows::Rows;
pub(super) use rows::answer;

/// Appends the responses of `/ready` and `/health` as metrics, for alerts.
fn show_health(server: &Server, page: &mut Page) {
    let is_ready = health::reason_not_ready(server).is_none();
    let help = "1 while new clients are welcome; 0 while /ready answers 503.";
    page.single("larder_ready", Kind::Gauge, help, u8::from(is_ready).to_string());
    let silence_us = server.life.heartbeats.silence_us(monotonic_us());
    let help = "Longest time since a worker turned its loop; workers are asked every 5 s.";
    let secs = format!("{:.3}", silence_us as f64 / 1e6);
    page.single("larder_worker_silence_seconds", Kind::Gauge, help, secs);
}

/// The content type of the page.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the page.
pub(super) async fn page(server: &Arc<Server>) -> String {
    // The cache's clock may be up to a second old here: only workers advance it at each request.
    // This call advances it.
    server.clock();
    let rows = Rows::gather(server).await;
    let mut page = Page::default();
    exporter::show(&rows, &mut page);
    own::show(&rows, &mut page);
    show_health(server, &mut page);
    workers::show(&mut page);
    own::show_histograms(&server.statistics.latencies.snapshot(), &mut page);
    if server.options.prefixes.metrics && server.options.dump {
        prefixes::show(&server.statistics.prefix_report(), &mut page);
    }
    if let Some(users) = server.access.users.as_ref().filter(|_| server.options.user_metrics) {
        users::show(users, &mut page);
    }
    origins::show(&stats::origins::rows(server), &mut page);
    process::show(&mut page);
    page.text()
}
