//! The text of the metrics page. A family is the metrics with the same name, which differ only in
//! their labels.

use std::fmt::Write;

use larder_stats::Distribution;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
}

/// A page that is being written.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    /// Appends a family with its samples, unless there are none. A sample consists of its labels,
    /// in the order in which they are shown, and its value.
    pub(super) fn family(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        samples: &[(Vec<(&str, String)>, String)],
    ) {
        if samples.is_empty() {
            return;
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.head(name, kind, help);
        for (labels, value) in samples {
            if labels.is_empty() {
                self.line(format_args!("{name} {value}"));
                continue;
            }
            let labels: Vec<_> = labels
                .iter()
                .map(|(label, text)| format!("{label}=\"{}\"", escaped(text)))
                .collect();
            self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
        }
    }

    /// Appends a family with one sample without labels.
    pub(super) fn single(&mut self, name: &str, kind: Kind, help: &str, value: String) {
        self.family(name, kind, help, &[(Vec::new(), value)]);
    }

    /// Appends a family of histograms: for each, a label, if it has one, and the distribution.
    pub(super) fn histograms(
        &mut self,
        name: &str,
        help: &str,
        histograms: &[(Option<(&str, &str)>, Distribution)],
    ) {
        self.head(name, "histogram", help);
        for (label, distribution) in histograms {
            let label = label.map(|(name, text)| format!("{name}=\"{}\"", escaped(text)));
            let (before, alone) = match &label {
                Some(label) => (format!("{label},"), format!("{{{label}}}")),
                None => Default::default(),
            };
            for (bound, count) in distribution.buckets() {
                self.line(format_args!("{name}_bucket{{{before}le=\"{bound}\"}} {count}"));
            }
            let count = distribution.count();
            self.line(format_args!("{name}_bucket{{{before}le=\"+Inf\"}} {count}"));
            self.line(format_args!("{name}_sum{alone} {}", distribution.sum_secs()));
            self.line(format_args!("{name}_count{alone} {count}"));
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn line(&mut self, words: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{words}").expect("writing to a String never fails");
    }

    /// Returns the page.
    pub(super) fn text(self) -> String {
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_cumulative_buckets_a_sum_and_a_count() {
        let histogram = larder_stats::Histogram::default();
        [1_500, 3_000_000_000].into_iter().for_each(|ns| histogram.record(ns));
        let mut distribution = Distribution::default();
        distribution.add(&histogram);
        let mut page = Page::default();
        page.histograms("h", "words", &[(Some(("a", "b")), distribution), (None, distribution)]);
        let text = page.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..3],
            ["# HELP h words", "# TYPE h histogram", "h_bucket{a=\"b\",le=\"0.000001\"} 0"]
        );
        assert_eq!(lines[3], "h_bucket{a=\"b\",le=\"0.000002\"} 1");
        assert_eq!(lines[22], "h_bucket{a=\"b\",le=\"1.048576\"} 1");
        assert_eq!(lines[23], "h_bucket{a=\"b\",le=\"+Inf\"} 2");
        assert_eq!(lines[24], "h_sum{a=\"b\"} 3.0000015");
        assert_eq!(lines[25..27], ["h_count{a=\"b\"} 2", "h_bucket{le=\"0.000001\"} 0"]);
        assert_eq!(lines[lines.len() - 1], "h_count 2");
    }

    #[test]
    fn a_family_is_named_once_and_texts_are_escaped() {
        let mut page = Page::default();
        let samples = [
            (vec![("a", "x\"\\\n".to_owned()), ("b", "y".to_owned())], "1".to_owned()),
            (vec![], "2.5".to_owned()),
        ];
        page.family("f_total", Kind::Counter, "one\\\ntwo", &samples);
        page.family("empty", Kind::Gauge, "none", &[]);
        page.single("g", Kind::Gauge, "words", "3".to_owned());
        let expected = "# HELP f_total one\\\\\\ntwo\n# TYPE f_total counter\n\
            f_total{a=\"x\\\"\\\\\\n\",b=\"y\"} 1\nf_total 2.5\n\
            # HELP g words\n# TYPE g gauge\ng 3\n";
        assert_eq!(page.text(), expected);
    }
}
