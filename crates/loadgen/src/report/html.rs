//! The report as a self-contained HTML page.

use std::fmt::Write;

use crate::measure::series::Point;
use crate::report::Report;
use crate::report::plot::{Axis, Line, Plot, Unit, escape};

/// Returns the page.
pub(crate) fn page(report: &Report<'_>) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>larder bench: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>larder bench</h1>\n<p>{title}; server {server}; {seconds:.1} s</p>\n",
        title = escape(&report.workload()),
        server = escape(&report.arguments.server.server.to_string()),
        seconds = report.tally.elapsed.as_secs_f64(),
    );
    for note in report.notes() {
        push(&mut page, &format!("<p class=\"note\">{}</p>\n", escape(&note)));
    }
    push(&mut page, "<table>\n");
    for (name, value) in report.rows() {
        let row = format!("<tr><th>{}</th><td>{}</td></tr>\n", escape(&name), escape(&value));
        push(&mut page, &row);
    }
    push(&mut page, "</table>\n");
    for (title, plot) in plots(report) {
        let plot = plot.svg();
        push(&mut page, &format!("<h2>{title}</h2>\n<figure>{plot}</figure>\n"));
    }
    push(&mut page, "</body>\n</html>\n");
    page
}

fn plots(report: &Report<'_>) -> Vec<(&'static str, Plot<'static>)> {
    let over_time = |of: &dyn Fn(&Point) -> f64| -> Vec<(f64, f64)> {
        report.points.iter().map(|point| ((point.second + 1) as f64, of(point))).collect()
    };
    let rate = Line {
        name: "requests/s",
        class: "c1",
        points: over_time(&|point| point.requests_per_second),
    };
    let latencies =
        Point::QUANTILES.iter().zip(CLASSES).enumerate().map(|(at, ((_, _), class))| {
            let mut points = over_time(&|point| point.latency_us[at]);
            // A second without answers has no latency.
            points.retain(|(_, us)| *us > 0.0);
            Line { name: NAMES[at], class, points }
        });
    let distribution = Line { name: "latency", class: "c1", points: report.percentiles() };
    let seconds = Axis::Linear(Unit::Seconds);
    let mut plots = vec![
        (
            "Requests per second",
            Plot {
                title: "requests per second over time",
                lines: vec![rate],
                horizontal: seconds,
                vertical: Axis::Linear(Unit::Count),
            },
        ),
        (
            "Latency, second by second",
            Plot {
                title: "percentiles of the latency over time",
                lines: latencies.collect(),
                horizontal: seconds,
                vertical: Axis::Log,
            },
        ),
        (
            "Latency by percentile",
            Plot {
                title: "latency by percentile",
                lines: vec![distribution],
                horizontal: Axis::Percentile,
                vertical: Axis::Log,
            },
        ),
    ];
    if report.points.iter().any(|point| point.errors > 0) {
        let errors =
            Line { name: "errors", class: "c4", points: over_time(&|point| point.errors as f64) };
        plots.push((
            "Errors per second",
            Plot {
                title: "errors per second",
                lines: vec![errors],
                horizontal: seconds,
                vertical: Axis::Linear(Unit::Count),
            },
        ));
    }
    plots
}

fn push(page: &mut String, text: &str) {
    page.write_str(text).expect("a string takes any text");
}

const NAMES: [&str; 4] = ["p50", "p99", "p99.9", "max"];
const CLASSES: [&str; 4] = ["c1", "c2", "c3", "c4"];

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1c2326; --pale: #d9dee0; --paper: #fff;
  --c1: #1565a8; --c2: #c56a00; --c3: #7a3fa0; --c4: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ea; --pale: #3a4347; --paper: #15191b;
  --c1: #6db3f2; --c2: #f0a04b; --c3: #c595e8; --c4: #f28b82; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 800px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin: 1.6em 0 0.3em; }
table { border-collapse: collapse; } th { text-align: left; font-weight: 500; padding-right: 2em; }
th, td { border-bottom: 1px solid var(--pale); padding: 0.15em 2em 0.15em 0; vertical-align: top; }
td { font-variant-numeric: tabular-nums; }
figure { margin: 0; } svg { width: 100%; height: auto; }
.note { border-left: 4px solid var(--c2); padding-left: 0.8em; }
svg text { font-size: 12px; fill: var(--ink); } .end { text-anchor: end; } .mid { text-anchor: middle; }
.grid { stroke: var(--pale); } .axis, .tick { stroke: var(--ink); }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.line.c1 { stroke: var(--c1); } .line.c2 { stroke: var(--c2); }
.line.c3 { stroke: var(--c3); } .line.c4 { stroke: var(--c4); }
.dot.c1 { fill: var(--c1); } .dot.c2 { fill: var(--c2); }
.dot.c3 { fill: var(--c3); } .dot.c4 { fill: var(--c4); }
";
