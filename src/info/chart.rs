//! [`Chart`]: a small chart as inline SVG, drawn on the server.
//!
//! Lengths along x are per cent of the field and lengths along y are pixels, so a chart is as wide
//! as there is space and its text stays as large as text. Lines lie in a viewBox of their own that
//! is stretched; their strokes are not. Things that differ have different dashes, shapes or hatches and
//! their names beside them; colours only add to that. It has no `style`, as the policy wants.

use askama::Template;

/// Pixels from the top of a field to its highest value,
const TOP: f64 = 10.0;
/// and between that and zero.
const HEIGHT: f64 = 150.0;
/// Steps a scale has, at most.
const STEPS: f64 = 4.0;

/// A chart with its title, what it shows in words, and what its signs mean.
#[derive(Clone, Default, Debug, Template)]
#[template(path = "info/chart.html")]
pub(super) struct Chart {
    /// Unique on its page.
    pub id: String,
    pub title: &'static str,
    /// What the chart shows in words, for those who cannot see it and for those who can.
    pub said: String,
    pub keys: Vec<ChartKey>,
    pub ys: Vec<Tick>,
    pub xs: Vec<Tick>,
    /// What is along x, where the ticks do not say it.
    pub along: &'static str,
    pub lines: Vec<ChartLine>,
    pub bars: Vec<Bar>,
    pub marks: Vec<Mark>,
    /// In the field's middle, where there is nothing to draw.
    pub empty: Option<&'static str>,
}

/// A sign and its meaning.
#[derive(Clone, Debug)]
pub(super) struct ChartKey {
    pub sign: Sign,
    pub name: String,
}

/// What something is drawn as; `name` is its class, and the id of its symbol or hatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sign {
    Line(&'static str),
    Bar(&'static str),
    Mark(&'static str),
}

/// A number on a scale.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tick {
    /// Per cent from the left, or pixels from the top.
    pub at: String,
    pub label: String,
    pub anchor: &'static str,
}

/// A line in a field that is 100 by 100.
#[derive(Clone, Debug)]
pub(super) struct ChartLine {
    pub name: &'static str,
    pub points: String,
    /// The line and the ground under it.
    pub area: Option<String>,
}

/// A part of a column.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub name: &'static str,
    pub x: String,
    pub width: String,
    pub y: String,
    pub height: String,
}

/// A dot.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub name: &'static str,
    pub x: String,
    pub y: String,
}

/// Two decimals at most: a tenth of a pixel is not seen.
pub(super) fn short(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// From zero to a round number that no value exceeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Scale {
    pub top: f64,
    step: f64,
}

impl Scale {
    /// For values up to `most`; the steps are not smaller than `finest`.
    pub fn to(most: f64, finest: f64) -> Scale {
        let most = if most.is_finite() {
            most.min(1e15)
        } else {
            0.0
        };
        let rough = (most / STEPS).max(finest);
        let ten = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|times| times * ten)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(10.0 * ten);
        Scale {
            top: ((most / step).ceil() * step).max(step),
            step,
        }
    }

    /// Where a value lies, 0..=1.
    pub fn part(self, value: f64) -> f64 {
        (value / self.top).clamp(0.0, 1.0)
    }

    /// Pixels from the top.
    pub fn y(self, value: f64) -> String {
        short(TOP + HEIGHT * (1.0 - self.part(value)))
    }

    fn values(self) -> impl Iterator<Item = f64> {
        let steps = (self.top / self.step).round() as u32;
        (0..=steps.min(10)).map(move |i| f64::from(i) * self.step)
    }

    /// Numbers beside the field.
    pub fn ys(self, unit: &str) -> Vec<Tick> {
        let tick = |value: f64| Tick {
            at: self.y(value),
            label: format!("{}{unit}", short(value)),
            anchor: "end",
        };
        self.values().map(tick).collect()
    }

    /// Numbers below it.
    pub fn xs(self) -> Vec<Tick> {
        let tick = |value: f64| x_tick(100.0 * self.part(value), short(value));
        self.values().map(tick).collect()
    }

    /// A line through values that lie side by side.
    pub fn line(self, name: &'static str, values: &[u32], filled: bool) -> ChartLine {
        let values: Vec<f64> = values.iter().copied().map(f64::from).collect();
        self.curve(name, &values, filled)
    }

    /// The same, of values that are not whole.
    pub fn curve(self, name: &'static str, values: &[f64], filled: bool) -> ChartLine {
        let last = values.len().saturating_sub(1).max(1) as f64;
        let points: Vec<String> = (0_u32..)
            .zip(values)
            .map(|(i, &value)| {
                let x = 100.0 * f64::from(i) / last;
                let y = 100.0 * (1.0 - self.part(value));
                format!("{},{}", short(x), short(y))
            })
            .collect();
        let points = points.join(" ");
        ChartLine {
            name,
            area: (filled && !points.is_empty()).then(|| format!("0,100 {points} 100,100")),
            points,
        }
    }

    /// A part of a column from `from` to `to`.
    pub fn bar(self, name: &'static str, x: f64, width: f64, from: f64, to: f64) -> Bar {
        let height = HEIGHT * (self.part(to) - self.part(from));
        Bar {
            name,
            x: short(x),
            width: short(width),
            y: self.y(to),
            height: short(height.max(0.0)),
        }
    }

    /// A thin line across a column.
    pub fn cap(self, name: &'static str, x: f64, width: f64, value: f64) -> Bar {
        Bar {
            height: "2".to_owned(),
            ..self.bar(name, x, width, value, value)
        }
    }
}

/// A label below the field, kept inside it at both ends.
pub(super) fn x_tick(percent: f64, label: String) -> Tick {
    Tick {
        at: short(percent),
        label,
        anchor: match percent {
            p if p < 5.0 => "start",
            p if p > 95.0 => "end",
            _ => "middle",
        },
    }
}

impl Sign {
    pub fn means(self, name: impl Into<String>) -> ChartKey {
        let name = name.into();
        ChartKey { sign: self, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers_that_hold_every_value() {
        let cases = [
            (0.0, 1.0, 1.0, "0 1"),
            (1.0, 1.0, 1.0, "0 1"),
            (173.0, 1.0, 200.0, "0 50 100 150 200"),
            (4.2, 0.1, 6.0, "0 2 4 6"),
            (0.3, 0.1, 0.3, "0 0.1 0.2 0.3"),
            (f64::NAN, 1.0, 1.0, "0 1"),
        ];
        for (most, finest, top, labels) in cases {
            let scale = Scale::to(most, finest);
            assert!((scale.top - top).abs() < 1e-9, "{most}: {scale:?}");
            let seen: Vec<String> = scale.ys("").into_iter().map(|t| t.label).collect();
            assert_eq!(seen.join(" "), labels, "{most}");
        }
        assert!(Scale::to(f64::MAX, 1.0).ys("").len() <= 11);
    }

    #[test]
    fn lines_of_no_value_and_of_one_are_drawn_without_a_division_by_zero() {
        let scale = Scale::to(4.0, 1.0);
        let none = scale.line("queue", &[], true);
        assert_eq!((none.points.as_str(), none.area), ("", None));
        let one = scale.line("queue", &[2], true);
        assert_eq!(one.points, "0,50");
        let two = scale.line("queue", &[0, 9], false);
        assert_eq!(two.points, "0,100 100,0", "clamped");
    }

    #[test]
    fn what_is_said_is_escaped_and_nothing_is_styled_inline() {
        let chart = Chart {
            id: "c".into(),
            title: "Title",
            said: "<script>\"&'".into(),
            keys: vec![Sign::Mark("waited").means("<b>")],
            xs: vec![x_tick(50.0, "<i>".into())],
            empty: Some("nothing yet"),
            ..Chart::default()
        };
        let html = chart.render().expect("it renders");
        assert!(!html.contains("<script>") && !html.contains("<b>") && !html.contains("<i>"));
        assert!(html.contains("&#60;script&#62;"), "{html}");
        assert!(html.contains("nothing yet"));
        assert!(!html.contains("style"));
        assert!(html.contains("role=\"img\" aria-label="));
    }
}
