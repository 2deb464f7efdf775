//! Plots as SVG.

use std::fmt::Write;

use crate::units::{count, latency};

/// A plot of lines over a common horizontal axis.
pub(crate) struct Plot<'a> {
    /// The accessible name of the plot.
    pub(crate) title: &'a str,
    pub(crate) lines: Vec<Line<'a>>,
    pub(crate) horizontal: Axis,
    pub(crate) vertical: Axis,
}

/// A line through points.
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    /// The CSS class that gives the line its colour.
    pub(crate) class: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The mapping of numbers to positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Axis {
    /// Linear from 0 on.
    Linear(Unit),
    /// Latencies in microseconds, each decade of the same width.
    Log,
    /// Percentiles: 90, 99, 99.9 and so on at equal distances.
    Percentile,
}

/// The unit of a linear axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Unit {
    Seconds,
    Count,
}

/// An axis with its range.
struct Scale {
    axis: Axis,
    from: f64,
    to: f64,
}

impl Plot<'_> {
    /// Returns the `svg` element. The style of the page colours it.
    pub(crate) fn svg(&self) -> String {
        let numbers = |of: fn(&(f64, f64)) -> f64| {
            self.lines.iter().flat_map(move |line| line.points.iter().map(of))
        };
        let across = Scale::new(self.horizontal, numbers(|point| point.0));
        let up = Scale::new(self.vertical, numbers(|point| point.1));
        let x = |number| LEFT + across.place(number) * (WIDTH - LEFT - RIGHT);
        let y = |number| HEIGHT - BOTTOM - up.place(number) * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{}\">\n",
            escape(self.title)
        );
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (number, label) in up.ticks() {
            let y = y(number);
            push(&mut svg, format_args!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>"));
            let (x, y) = (LEFT - 8.0, y + 4.0);
            push(
                &mut svg,
                format_args!("<text class=\"end\" x=\"{x}\" y=\"{y:.1}\">{label}</text>"),
            );
        }
        for (number, label) in across.ticks() {
            let x = x(number);
            push(&mut svg, format_args!("<path class=\"tick\" d=\"M{x:.1} {bottom}v5\"/>"));
            let y = bottom + 19.0;
            push(
                &mut svg,
                format_args!("<text class=\"mid\" x=\"{x:.1}\" y=\"{y}\">{label}</text>"),
            );
        }
        push(&mut svg, format_args!("<path class=\"axis\" d=\"M{LEFT} {bottom}H{right}\"/>"));
        for line in &self.lines {
            let placed: Vec<(f64, f64)> =
                line.points.iter().map(|point| (x(point.0), y(point.1))).collect();
            push_line(&mut svg, line, &placed);
        }
        self.push_legend(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn push_legend(&self, svg: &mut String) {
        let mut x = LEFT;
        for line in self.lines.iter().filter(|_| self.lines.len() > 1) {
            let class = line.class;
            push(svg, format_args!("<path class=\"line {class}\" d=\"M{x} 10h18\"/>"));
            let at = x + 24.0;
            push(svg, format_args!("<text x=\"{at}\" y=\"14\">{}</text>", escape(line.name)));
            x += 44.0 + 8.0 * line.name.len() as f64;
        }
    }
}

fn push_line(svg: &mut String, line: &Line<'_>, placed: &[(f64, f64)]) {
    let mut path = String::new();
    for (number, (x, y)) in placed.iter().enumerate() {
        let step = if number == 0 { 'M' } else { 'L' };
        write!(path, "{step}{x:.1} {y:.1}").expect("a string takes any text");
    }
    let class = line.class;
    push(svg, format_args!("<path class=\"line {class}\" d=\"{path}\"/>"));
    // A single point does not form a line, and a few points are easier to see as dots.
    for (x, y) in placed.iter().filter(|_| placed.len() <= DOTS_MAX) {
        push(
            svg,
            format_args!("<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>"),
        );
    }
}

impl Scale {
    fn new(axis: Axis, numbers: impl Iterator<Item = f64>) -> Self {
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        // The 100th percentile is infinitely far on this axis, so it is drawn at the end.
        for number in numbers.filter(|number| axis != Axis::Percentile || *number < 100.0) {
            (min, max) = (min.min(number), max.max(number));
        }
        if min > max {
            (min, max) = (1.0, 1.0);
        }
        let (from, to) = match axis {
            Axis::Linear(_) => (0.0, if max > 0.0 { max } else { 1.0 }),
            // Whole decades, at least two.
            Axis::Log => {
                let from = 10_f64.powf(min.max(1.0).log10().floor());
                (from, (from * 100.0).max(10_f64.powf(max.max(1.0).log10().ceil())))
            }
            Axis::Percentile => (0.0, max.clamp(99.0, PERCENTILE_MAX)),
        };
        let to = match axis {
            Axis::Linear(Unit::Count) => (to / step(to)).ceil() * step(to),
            _ => to,
        };
        Self { axis, from, to }
    }

    /// Returns the position of a number, from 0 to 1.
    fn place(&self, number: f64) -> f64 {
        let along = |number: f64| match self.axis {
            Axis::Linear(_) => number,
            Axis::Log => number.max(self.from).log10(),
            Axis::Percentile => -(1.0 - number.min(self.to) / 100.0).log10(),
        };
        (along(number) - along(self.from)) / (along(self.to) - along(self.from))
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        match self.axis {
            Axis::Linear(unit) => {
                let step = step(self.to);
                let steps = (self.to / step + 1e-9).floor() as u32;
                let label = |number: f64| match unit {
                    Unit::Seconds => format!("{number} s"),
                    Unit::Count => count(number),
                };
                (0..=steps).map(|tick| f64::from(tick) * step).map(|n| (n, label(n))).collect()
            }
            Axis::Log => {
                let decades = (self.to / self.from).log10().round() as i32;
                let numbers = (0..=decades).map(|decade| self.from * 10_f64.powi(decade));
                numbers.map(|number| (number, latency(number))).collect()
            }
            Axis::Percentile => {
                let ticks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
                let ticks = ticks.into_iter().filter(|tick| *tick <= self.to);
                ticks.map(|tick| (tick, format!("{tick} %"))).collect()
            }
        }
    }
}

/// Returns a round number that divides `to` into 3 to 8 steps.
fn step(to: f64) -> f64 {
    let decade = 10_f64.powf((to / 4.0).log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|digit| digit * decade);
    let step = steps.into_iter().rfind(|step| to / step >= 3.0);
    step.unwrap_or(decade)
}

/// Escapes the characters that are special in HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn push(out: &mut String, element: std::fmt::Arguments<'_>) {
    writeln!(out, "{element}").expect("a string takes any text");
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 36.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 30.0;
const DOTS_MAX: usize = 40;
const PERCENTILE_MAX: f64 = 99.9999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers_at_even_places() {
        let scale = Scale::new(Axis::Linear(Unit::Count), [310_000.0, 401_407.0].into_iter());
        let labels: Vec<_> = scale.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0", "100k", "200k", "300k", "400k", "500k"]);
        let scale = Scale::new(Axis::Log, [60.0, 9_000.0].into_iter());
        let labels: Vec<_> = scale.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["10 us", "100 us", "1 ms", "10 ms"]);
        assert_eq!((scale.place(10.0), scale.place(10_000.0)), (0.0, 1.0));
        let scale = Scale::new(Axis::Percentile, [99.9].into_iter());
        assert!((scale.place(90.0) * 3.0 - 1.0).abs() < 1e-9);
        assert!(scale.place(100.0) <= 1.0);
    }

    #[test]
    fn a_plot_of_nothing_and_of_one_point_is_a_plot() {
        for points in [vec![], vec![(0.0, 0.0)], vec![(3.0, 5.0)]] {
            let lines = [Line { name: "p50", class: "c1", points }];
            for vertical in [Axis::Log, Axis::Linear(Unit::Count)] {
                let lines = lines.iter().map(|line| Line { points: line.points.clone(), ..*line });
                let horizontal = Axis::Linear(Unit::Seconds);
                let svg = Plot { title: "<t>", lines: lines.collect(), horizontal, vertical }.svg();
                assert!(!svg.contains("NaN"), "{svg}");
                assert!(!svg.contains("inf"), "{svg}");
                assert!(svg.contains("&lt;t&gt;"));
            }
        }
    }

    #[test]
    fn a_step_divides_its_range_into_3_to_8_parts() {
        for tenths in 1..5000 {
            let to = f64::from(tenths) * 0.1;
            let parts = to / step(to);
            assert!((2.99..=8.01).contains(&parts), "{to} has {parts} steps of {}", step(to));
        }
    }

    #[test]
    fn a_line_passes_through_its_points_from_the_left_and_the_bottom() {
        let points = vec![(0.0, 0.0), (5.0, 50.0), (10.0, 100.0)];
        let lines = vec![Line { name: "rate", class: "c1", points }];
        let horizontal = Axis::Linear(Unit::Seconds);
        let plot = Plot { title: "t", lines, horizontal, vertical: Axis::Linear(Unit::Count) };
        let svg = plot.svg();
        let (right, top, middle) = (WIDTH - RIGHT, TOP, (WIDTH - RIGHT + LEFT) / 2.0);
        let bottom = HEIGHT - BOTTOM;
        let half = f64::midpoint(top, bottom);
        let path =
            format!("d=\"M{LEFT:.1} {bottom:.1}L{middle:.1} {half:.1}L{right:.1} {top:.1}\"");
        assert!(svg.contains(&path), "no {path} in {svg}");
        assert_eq!(svg.matches("<circle").count(), 3, "few points are dots: {svg}");
    }

    #[test]
    fn many_points_are_a_line_without_dots() {
        let points = (0..=DOTS_MAX).map(|at| (at as f64, 1.0)).collect();
        let lines = vec![Line { name: "rate", class: "c1", points }];
        let (horizontal, vertical) = (Axis::Linear(Unit::Seconds), Axis::Linear(Unit::Count));
        let svg = Plot { title: "t", lines, horizontal, vertical }.svg();
        assert!(!svg.contains("<circle"), "{svg}");
    }
}
