//! Families of metrics, and the text of a page.

use std::fmt::Write;

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
    /// Appends a family with its samples, unless it has none. A sample is its labels, in the order
    /// in which they are shown, and its value.
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
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
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
