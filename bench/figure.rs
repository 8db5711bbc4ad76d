//! Response times over a run, a panel a way to meet the crowd, all on the same axes: the figures 5
//! and 6 of the NAP-Web paper.
//!
//! Where accesses lie closer than a mark is wide there is one mark, and marks above each other are
//! one rectangle: what is seen is the same, and 30,000 accesses make no megabytes of SVG.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Seconds of the run when an access came, seconds until it was answered.
pub type Point = (f64, f64);

/// One of the ways.
pub struct Panel {
    pub title: &'static str,
    pub points: Vec<Point>,
}

const WIDTH: u32 = 860;
const HEIGHT: u32 = 250;
/// Width and height of a mark, in pixels.
const MARK: f64 = 2.0;
const INK: RGBColor = RGBColor(0x1f, 0x5a, 0xa6);
const BOUND: RGBColor = RGBColor(0xb3, 0x26, 0x1e);
const GREY: RGBColor = RGBColor(0xd8, 0xd8, 0xd8);
/// The name under which the font is known; a browser takes its own for the SVG's.
const FONT: &str = "sans-serif";
const FONT_FILE: &str = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";

/// Draws `responses.svg` and `responses.png` into the folder: where they are.
pub fn draw(panels: &[Panel], bound_s: f64, folder: &Path) -> [PathBuf; 2] {
    let font = std::fs::read(FONT_FILE)
        .unwrap_or_else(|e| super::board::stop(&format!("{FONT_FILE}: {e} (`make setup-all`)")));
    // Plotters keeps a font for as long as the program runs.
    let known = register_font(FONT, FontStyle::Normal, Box::leak(font.into_boxed_slice()));
    assert!(known.is_ok(), "{FONT_FILE} is a font");
    let size = (WIDTH, HEIGHT * panels.len() as u32);
    let [svg, png] = ["svg", "png"].map(|kind| folder.join("responses").with_extension(kind));
    draw_on(SVGBackend::new(&svg, size), panels, bound_s);
    draw_on(BitMapBackend::new(&png, size), panels, bound_s);
    [svg, png]
}

fn draw_on<B: DrawingBackend>(backend: B, panels: &[Panel], bound_s: f64) {
    let all = backend.into_drawing_area();
    let drawn = all.fill(&WHITE).and_then(|()| {
        let parts = all.split_evenly((panels.len(), 1));
        let ends = ends(panels);
        for (part, panel) in parts.iter().zip(panels) {
            draw_panel(part, panel, bound_s, ends)?;
        }
        all.present()
    });
    drawn.unwrap_or_else(|e| panic!("the figure cannot be drawn: {e}"));
}

fn draw_panel<B: DrawingBackend>(
    part: &DrawingArea<B, Shift>,
    panel: &Panel,
    bound_s: f64,
    (last, slowest): Point,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let mut chart = ChartBuilder::on(part)
        .caption(panel.title, (FONT, 15))
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..last, 0.0..slowest)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY)
        .x_desc("seconds of the run")
        .y_desc("response time (s)")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .y_labels(6)
        .label_style((FONT, 12))
        .draw()?;
    let (width, height) = chart.plotting_area().dim_in_pixel();
    let (x_unit, y_unit) = (
        MARK * last / f64::from(width),
        MARK * slowest / f64::from(height),
    );
    let runs = runs(&panel.points, x_unit, y_unit);
    chart.draw_series(runs.into_iter().map(|(column, rows)| {
        let x = f64::from(column) * x_unit;
        let (low, high) = (f64::from(rows.start) * y_unit, f64::from(rows.end) * y_unit);
        Rectangle::new([(x, low), (x + x_unit, high)], INK.filled())
    }))?;
    let line = [(0.0, bound_s), (last, bound_s)];
    chart.draw_series([PathElement::new(line, BOUND)])?;
    let label = format!("bound {bound_s:.0} s");
    let style = (FONT, 12).into_font().color(&BOUND);
    // Above the line, at its end, where the crowd is over.
    let place = (0.92 * last, bound_s + 16.0 * slowest / f64::from(height));
    chart.draw_series([Text::new(label, place, style)])?;
    Ok(())
}

/// Where the axes end: a little beyond the last to come and the slowest answer.
fn ends(panels: &[Panel]) -> Point {
    let all = panels.iter().flat_map(|panel| &panel.points);
    let (last, slowest) = all.fold((0.0_f64, 0.0_f64), |(last, slowest), &(t, response)| {
        (last.max(t), slowest.max(response))
    });
    (1.02 * last.max(1.0), 1.05 * slowest.max(1.0))
}

/// The cells of a grid in which points lie; those above each other together.
fn runs(points: &[Point], x_unit: f64, y_unit: f64) -> Vec<(u32, Range<u32>)> {
    let cell = |&(t, response): &Point| ((t / x_unit) as u32, (response / y_unit) as u32);
    let cells: BTreeSet<(u32, u32)> = points.iter().map(cell).collect();
    let mut runs: Vec<(u32, Range<u32>)> = Vec::new();
    for (column, row) in cells {
        match runs.last_mut() {
            Some((at, rows)) if *at == column && rows.end == row => rows.end += 1,
            _ => runs.push((column, row..row + 1)),
        }
    }
    runs
}
