//! The page of `/metrics`, in Prometheus' text format 0.0.4.
//!
//! Its numbers are those of the `stats` commands: the page is made of their rows, so that both show
//! the same.

mod exporter;
mod family;
mod own;
mod process;
mod rows;
mod workers;

use std::sync::Arc;

use crate::clock::Clock;
use crate::server::Server;
use family::Page;
use rows::Rows;
pub(super) use rows::answer;

/// The content type of the page.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the page.
pub(super) async fn page(server: &Arc<Server>) -> String {
    // Workers advance the clock when they are asked; the main thread, once a second.
    Clock::new(server.cache.clone(), server.warp.clone());
    let rows = Rows::gather(server).await;
    let mut page = Page::default();
    exporter::show(&rows, &mut page);
    own::show(&rows, &mut page);
    workers::show(&mut page);
    process::show(&mut page);
    page.text()
}
