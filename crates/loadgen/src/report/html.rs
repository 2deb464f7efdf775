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
            // A second without responses has no latency.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fixtures::load;
    use crate::measure::LoadResult;
    use crate::measure::series::Series;
    use crate::tally::{Second, Tally};

    fn measured(errors: u64) -> LoadResult {
        let (mut tally, mut series) = (Tally::default(), Series::new(1));
        for number in 0..3 {
            let mut second = Second::new(number);
            second.span = Duration::from_secs(1);
            second.errors = errors;
            second.latency_ns.record_n(70_000, 100).unwrap();
            tally.latency_ns.record_n(70_000, 100).unwrap();
            series.add(second);
        }
        LoadResult { tally, series, key_count: 5 }
    }

    fn of(args: &[&str], measured: &LoadResult, was_stopped: bool) -> String {
        page(&Report::new(&load(args), measured, was_stopped))
    }

    #[test]
    fn the_page_has_a_plot_of_each_kind_and_needs_no_other_file() {
        let page = of(&[], &measured(0), false);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        assert_eq!(page.matches("<svg").count(), 3, "{page}");
        let without_namespace = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for outside in ["http:", "https:", "src=", "href=", "url(", "<script", "@import"] {
            assert!(!without_namespace.contains(outside), "{outside} in {page}");
        }
        for word in ["NaN", "inf"] {
            assert!(!page.contains(word), "{word} in {page}");
        }
    }

    #[test]
    fn errors_have_a_plot_where_there_are_some() {
        assert!(!of(&[], &measured(0), false).contains("Errors per second"));
        let page = of(&[], &measured(2), false);
        assert!(page.contains("<h2>Errors per second</h2>"), "{page}");
        assert_eq!(page.matches("<svg").count(), 4, "{page}");
    }

    #[test]
    fn notes_stand_before_the_table() {
        let page = of(&[], &measured(0), true);
        let note = page.find("<p class=\"note\">stopped early</p>").unwrap();
        assert!(note < page.find("<table>").unwrap(), "{page}");
    }

    #[test]
    fn words_of_the_user_and_the_server_are_text() {
        let mut measured = measured(1);
        measured.tally.count_errors(b"<script>alert(1)</script>", 1);
        let page = of(&["--trace=<b>&", "--server=./<i>"], &measured, false);
        for tag in ["<script>", "<b>", "<i>"] {
            assert!(!page.contains(tag), "{tag} in {page}");
        }
        assert!(page.contains("keys of &lt;b&gt;&amp;"), "{page}");
        assert!(page.contains("server unix:./&lt;i&gt;"), "{page}");
        assert!(page.contains("1 x &lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    }

    #[test]
    fn a_run_without_an_answer_is_a_page() {
        let measured = LoadResult { tally: Tally::default(), series: Series::new(1), key_count: 1 };
        let page = of(&[], &measured, true);
        assert_eq!(page.matches("<svg").count(), 3);
        assert!(!page.contains("NaN"), "{page}");
    }
}
