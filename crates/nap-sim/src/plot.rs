//! [`Figure`]: dots, lines, and bars with their spread, drawn as SVG and as PNG.
//!
//! Series differ by mark as well as by colour. Dots closer than one dot's width become one mark, and marks
//! above each other become one rectangle. It looks the same, and 30,000 accesses do not make megabytes of
//! SVG. The same figure gives the same file, byte for byte, if the font is the same.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

/// A value over another.
pub type Point = (f64, f64);

/// Panels below each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// File name, without extension.
    pub name: String,
    /// Text for readers who cannot see the figure.
    pub alt: String,
    /// From top to bottom.
    pub panels: Vec<Panel>,
    /// All panels have the same axes, wide enough for all.
    pub alike: bool,
}

/// Axes, and what is drawn on them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    title: String,
    x: String,
    y: String,
    series: Vec<Series>,
    categories: Vec<String>,
    level: Option<(f64, String)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Series {
    name: String,
    marks: Marks,
}

#[derive(Clone, Debug, PartialEq)]
enum Marks {
    Dots(Vec<Point>),
    Line(Vec<Point>),
    Bars(Vec<Bar>),
}

/// A bar and its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// Lower and upper end of its spread, if it has one.
    pub spread: Option<(f64, f64)>,
}

impl Panel {
    /// An empty panel. `x` and `y` name the axes and their units.
    pub fn new(title: &str, x: &str, y: &str) -> Panel {
        Panel {
            title: title.to_owned(),
            x: x.to_owned(),
            y: y.to_owned(),
            ..Panel::default()
        }
    }

    fn with(mut self, name: &str, marks: Marks) -> Panel {
        let name = name.to_owned();
        self.series.push(Series { name, marks });
        self
    }

    /// Adds a dot for each point.
    pub fn dots(self, name: &str, points: Vec<Point>) -> Panel {
        self.with(name, Marks::Dots(points))
    }

    /// Adds a line from point to point.
    pub fn line(self, name: &str, points: Vec<Point>) -> Panel {
        self.with(name, Marks::Line(points))
    }

    /// Adds a bar for each of the [`Panel::categories`].
    pub fn bars(self, name: &str, bars: Vec<Bar>) -> Panel {
        self.with(name, Marks::Bars(bars))
    }

    /// Names that stand along the x axis instead of numbers.
    pub fn categories<S: ToString>(mut self, names: impl IntoIterator<Item = S>) -> Panel {
        self.categories = names.into_iter().map(|name| name.to_string()).collect();
        self
    }

    /// Adds a horizontal line at `y`, with a label at its end.
    pub fn level(mut self, y: f64, name: &str) -> Panel {
        self.level = Some((y, name.to_owned()));
        self
    }

    /// Greatest x and y, and the least of each if it is below zero.
    fn ends(&self) -> [f64; 4] {
        let mut ends = [0.0, self.categories.len() as f64, 0.0, 0.0];
        let mut reach = |at: usize, value: f64| {
            ends[at] = f64::min(ends[at], value);
            ends[at + 1] = f64::max(ends[at + 1], value);
        };
        for series in &self.series {
            match &series.marks {
                Marks::Dots(points) | Marks::Line(points) => points.iter().for_each(|&(x, y)| {
                    reach(0, x);
                    reach(2, y);
                }),
                Marks::Bars(bars) => bars.iter().for_each(|bar| {
                    let (low, high) = bar.spread.unwrap_or_default();
                    for y in [bar.value, low, high] {
                        reach(2, y);
                    }
                }),
            }
        }
        if let Some((y, _)) = self.level {
            reach(2, y);
        }
        ends
    }
}

const WIDTH: u32 = 860;
const HEIGHT: u32 = 270;
/// Width and height of a dot, in pixels.
const DOT: f64 = 3.0;
/// A line with more points than this has no marks on it.
const MARKED: usize = 60;
const INKS: [RGBColor; 5] = [
    RGBColor(0x1f, 0x5a, 0xa6),
    RGBColor(0xc2, 0x5a, 0x00),
    RGBColor(0x2e, 0x7d, 0x32),
    RGBColor(0x7b, 0x3f, 0x98),
    RGBColor(0x55, 0x55, 0x55),
];
const LEVEL: RGBColor = RGBColor(0xb3, 0x26, 0x1e);
const GREY: RGBColor = RGBColor(0xd8, 0xd8, 0xd8);
/// The font's name; a browser uses its own for the SVG.
const FONT: &str = "sans-serif";
const FONT_FILE: &str = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";

impl Figure {
    /// Draws `NAME.svg` and `NAME.png` into the folder and returns their paths.
    pub fn draw(&self, folder: &Path) -> Result<[PathBuf; 2], String> {
        let [svg, png] = ["svg", "png"].map(|kind| folder.join(format!("{}.{kind}", self.name)));
        std::fs::write(&svg, self.svg()?).map_err(|e| format!("{}: {e}", svg.display()))?;
        self.draw_on(BitMapBackend::new(&png, self.size()))
            .map_err(|e| format!("{}: {e}", png.display()))?;
        Ok([svg, png])
    }

    /// The SVG's text.
    pub fn svg(&self) -> Result<String, String> {
        let mut text = String::new();
        self.draw_on(SVGBackend::with_string(&mut text, self.size()))?;
        // Default attributes that would stand on each of some thousand marks.
        let [opaque, bare] = [" opacity=\"1\"", " stroke=\"none\""];
        Ok(text.replace(opaque, "").replace(bare, ""))
    }

    fn size(&self) -> (u32, u32) {
        (WIDTH, HEIGHT * self.panels.len() as u32)
    }

    fn draw_on<B: DrawingBackend>(&self, backend: B) -> Result<(), String> {
        know_the_font()?;
        let all = backend.into_drawing_area();
        let drawn = all.fill(&WHITE).and_then(|()| {
            let parts = all.split_evenly((self.panels.len(), 1));
            let ends: Vec<[f64; 4]> = self.panels.iter().map(Panel::ends).collect();
            let widest = ends
                .iter()
                .copied()
                .reduce(|[a, b, c, d], [e, f, g, h]| [a.min(e), b.max(f), c.min(g), d.max(h)]);
            for (part, (panel, own)) in parts.iter().zip(self.panels.iter().zip(ends)) {
                let ends = widest.filter(|_| self.alike).unwrap_or(own);
                panel.draw(part, ends)?;
            }
            all.present()
        });
        drawn.map_err(|e| format!("figure {}: {e}", self.name))
    }
}

/// Registers the font: plotters keeps it for as long as the program runs.
fn know_the_font() -> Result<(), String> {
    static KNOWN: OnceLock<Result<(), String>> = OnceLock::new();
    let read = || {
        let font = std::fs::read(FONT_FILE)
            .map_err(|e| format!("{FONT_FILE}: {e} (the package fonts-dejavu-core has it)"))?;
        register_font(FONT, FontStyle::Normal, Box::leak(font.into_boxed_slice()))
            .map_err(|_| format!("{FONT_FILE} is no font"))
    };
    KNOWN.get_or_init(read).clone()
}

type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;
type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<Across, RangedCoordf64>>;

impl Panel {
    fn draw<B: DrawingBackend>(
        &self,
        part: &DrawingArea<B, Shift>,
        [left, right, low, high]: [f64; 4],
    ) -> Drawn<B> {
        // A little beyond the last and the highest value; empty axes have length one.
        let beyond = |from: f64, to: f64, margin: f64| match to > from {
            true => to + margin * (to - from),
            false => from + 1.0,
        };
        let right = match self.categories.is_empty() {
            true => beyond(left, right, 0.02),
            false => right,
        };
        let across = Across {
            numbers: (left..right).into(),
            categories: self.categories.len(),
        };
        let up = low..beyond(low, high, 0.05);
        let mut chart = ChartBuilder::on(part)
            .caption(&self.title, (FONT, 15))
            .margin(8)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(across, up.clone())?;
        let number = |x: &f64| match self.categories.is_empty() {
            true => tick(*x, right - left),
            false => self
                .categories
                .get(*x as usize)
                .cloned()
                .unwrap_or_default(),
        };
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GREY)
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&number)
            .y_label_formatter(&|y| tick(*y, up.end - up.start))
            .y_labels(6)
            .label_style((FONT, 12))
            .draw()?;
        let groups = (self.series.iter())
            .filter(|series| matches!(series.marks, Marks::Bars(_)))
            .count();
        let mut group = 0;
        for (n, series) in self.series.iter().enumerate() {
            let ink = INKS[n % INKS.len()];
            match &series.marks {
                Marks::Dots(points) => {
                    dots(
                        &mut chart,
                        series,
                        points,
                        ink,
                        [right - left, up.end - up.start],
                    )?;
                }
                Marks::Line(points) => line(&mut chart, series, points, n)?,
                Marks::Bars(bars) => {
                    stand(&mut chart, series, bars, ink, [group, groups])?;
                    group += 1;
                }
            }
        }
        if let Some((y, name)) = &self.level {
            chart.draw_series([PathElement::new([(left, *y), (right, *y)], LEVEL)])?;
            let style = (FONT, 12).into_font().color(&LEVEL);
            let (_, height) = chart.plotting_area().dim_in_pixel();
            // Above the line, at its end.
            let above = y + 16.0 * (up.end - up.start) / f64::from(height);
            let place = (left + 0.92 * (right - left), above);
            chart.draw_series([Text::new(name.clone(), place, style)])?;
        }
        if self.series.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.85))
                .border_style(GREY)
                .label_font((FONT, 12))
                .draw()?;
        }
        Ok(())
    }
}

fn dots<B: DrawingBackend>(
    chart: &mut Chart<'_, B>,
    series: &Series,
    points: &[Point],
    ink: RGBColor,
    spans: [f64; 2],
) -> Drawn<B> {
    let (width, height) = chart.plotting_area().dim_in_pixel();
    let units = [
        DOT * spans[0] / f64::from(width),
        DOT * spans[1] / f64::from(height),
    ];
    chart
        .draw_series(runs(points, units).into_iter().map(|(column, rows)| {
            let x = column as f64 * units[0];
            let [low, high] = [rows.start, rows.end].map(|row| row as f64 * units[1]);
            Rectangle::new([(x, low), (x + units[0], high)], ink.filled())
        }))?
        .label(&series.name)
        .legend(move |(x, y)| Rectangle::new([(x + 8, y - 2), (x + 12, y + 2)], ink.filled()));
    Ok(())
}

/// The cells of a grid that contain points; cells above each other form one run.
fn runs(points: &[Point], [x_unit, y_unit]: [f64; 2]) -> Vec<(i64, Range<i64>)> {
    let cell = |&(x, y): &Point| ((x / x_unit).floor() as i64, (y / y_unit).floor() as i64);
    let cells: BTreeSet<(i64, i64)> = points.iter().map(cell).collect();
    let mut runs: Vec<(i64, Range<i64>)> = Vec::new();
    for (column, row) in cells {
        match runs.last_mut() {
            Some((at, rows)) if *at == column && rows.end == row => rows.end += 1,
            _ => runs.push((column, row..row + 1)),
        }
    }
    runs
}

fn line<'a, B: DrawingBackend + 'a>(
    chart: &mut Chart<'a, B>,
    series: &Series,
    points: &[Point],
    n: usize,
) -> Drawn<B> {
    let ink = INKS[n % INKS.len()];
    let stroke = ink.stroke_width(2);
    chart
        .draw_series(LineSeries::new(points.iter().copied(), stroke))?
        .label(&series.name)
        .legend(move |(x, y)| {
            EmptyElement::at((x, y))
                + PathElement::new([(0, 0), (20, 0)], stroke)
                + mark((10, 0), n)
        });
    if points.len() <= MARKED {
        chart.draw_series(
            points
                .iter()
                .map(|&at| EmptyElement::at(at) + mark((0, 0), n)),
        )?;
    }
    Ok(())
}

/// The mark of the n-th series, offset by `at` pixels.
fn mark<B: DrawingBackend>(at: (i32, i32), n: usize) -> DynElement<'static, B, (i32, i32)> {
    let ink = INKS[n % INKS.len()];
    match n % 5 {
        0 => Circle::new(at, 3, ink.filled()).into_dyn(),
        1 => TriangleMarker::new(at, 5, ink.filled()).into_dyn(),
        2 => Cross::new(at, 3, ink.stroke_width(2)).into_dyn(),
        3 => Circle::new(at, 4, ink.stroke_width(1)).into_dyn(),
        _ => {
            let corners = [(at.0 - 3, at.1 - 3), (at.0 + 3, at.1 + 3)];
            Rectangle::new(corners, ink.filled()).into_dyn()
        }
    }
}

/// The bars of one series, the `group`-th of `groups` that stand side by side.
fn stand<B: DrawingBackend>(
    chart: &mut Chart<'_, B>,
    series: &Series,
    bars: &[Bar],
    ink: RGBColor,
    [group, groups]: [usize; 2],
) -> Drawn<B> {
    let width = 0.8 / groups.max(1) as f64;
    let from = |at: usize| at as f64 + 0.1 + width * group as f64;
    chart
        .draw_series(bars.iter().enumerate().map(|(at, bar)| {
            let corners = [(from(at), 0.0), (from(at) + 0.92 * width, bar.value)];
            Rectangle::new(corners, ink.mix(0.75).filled())
        }))?
        .label(&series.name)
        .legend(move |(x, y)| {
            Rectangle::new([(x + 4, y - 4), (x + 14, y + 4)], ink.mix(0.75).filled())
        });
    let spreads = bars.iter().enumerate().filter_map(|(at, bar)| {
        let (low, high) = bar.spread?;
        let middle = from(at) + 0.46 * width;
        let style = BLACK.stroke_width(1);
        Some(ErrorBar::new_vertical(
            middle, low, bar.value, high, style, 6,
        ))
    });
    chart.draw_series(spreads)?;
    Ok(())
}

/// A label on an axis with this span.
fn tick(value: f64, span: f64) -> String {
    let decimals = match span {
        span if span > 5.0 => 0,
        span if span > 0.5 => 1,
        span if span > 0.05 => 2,
        _ => 4,
    };
    // No "-0".
    format!("{:.decimals$}", value + 0.0)
}

/// The x axis: numbers, or categories, each in the middle of its unit.
#[derive(Clone)]
struct Across {
    numbers: RangedCoordf64,
    categories: usize,
}

impl Ranged for Across {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.numbers.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self.categories {
            0 => self.numbers.key_points(hint),
            n => (0..n).map(|at| at as f64 + 0.5).collect(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.numbers.range()
    }
}

impl ValueFormatter<f64> for Across {
    fn format(value: &f64) -> String {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let bar = |value, spread| Bar { value, spread };
        let bars = vec![bar(2.0, Some((1.0, 3.5))), bar(4.0, None)];
        Figure {
            name: "all".to_owned(),
            alt: "all kinds of marks".to_owned(),
            panels: vec![
                Panel::new("dots & lines", "s", "n")
                    .dots("dots", (0..2000).map(|n| (f64::from(n), 1.0)).collect())
                    .line("line", vec![(0.0, 0.0), (2000.0, 6.0)])
                    .level(4.0, "bound"),
                Panel::new("bars", "", "n")
                    .categories(["one <b>", "two"])
                    .bars("ours", bars.clone())
                    .bars("theirs", bars),
            ],
            alike: false,
        }
    }

    #[test]
    fn the_same_figure_is_the_same_text_with_all_that_is_on_it() {
        let svg = figure().svg().expect("it is drawn");
        assert_eq!(figure().svg().as_ref(), Ok(&svg));
        for text in [
            "dots &amp; lines",
            "bound",
            "one &lt;b&gt;",
            "two",
            "theirs",
        ] {
            assert!(svg.contains(text), "{text}:\n{svg}");
        }
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn dots_that_touch_are_one_mark_and_a_figure_of_nothing_is_drawn() {
        let many = (0..100_000).map(|n| (f64::from(n % 100), f64::from(n / 100)));
        assert_eq!(runs(&many.collect::<Vec<_>>(), [1.0, 1.0]).len(), 100);
        assert_eq!(runs(&[(0.5, 1.0), (0.5, 3.0)], [1.0, 1.0]).len(), 2);
        let nothing = Figure {
            panels: vec![Panel::new("", "", "").line("", Vec::new())],
            ..figure()
        };
        assert!(nothing.svg().is_ok_and(|svg| !svg.contains("NaN")));
    }

    #[test]
    fn it_is_drawn_into_a_folder_as_svg_and_as_png() {
        let folder = std::env::temp_dir().join(format!("nap-plot-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let drawn = figure().draw(&folder);
        let [svg, png] = drawn.clone().expect("it is drawn");
        let starts = [svg, png].map(|path| std::fs::read(path).expect("it is there")[..4].to_vec());
        assert_eq!(starts, [b"<svg".to_vec(), b"\x89PNG".to_vec()]);
        std::fs::remove_dir_all(&folder).expect("it was ours");
        assert!(figure().draw(&folder).is_err_and(|e| e.contains("all.svg")));
    }
}
