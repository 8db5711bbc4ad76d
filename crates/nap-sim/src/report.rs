//! [`Report`]: a run's results as Markdown: text, tables with the paper's numbers beside ours, and figures.
//! Each has the command that reproduces it.

use std::fmt::Write;

use super::plot::Figure;

/// A chapter.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    title: String,
    blocks: Vec<Block>,
}

#[derive(Clone, Debug, PartialEq)]
enum Block {
    Text(String),
    Table(Table),
    Figure(Figure, String),
}

/// Rows of numbers under one heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    name: String,
    command: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows. `command` reproduces its numbers; `columns` are those after the rows' names.
    pub fn new(name: &str, command: &str, columns: &[&str]) -> Table {
        Table {
            name: name.to_owned(),
            command: command.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row of our numbers.
    pub fn row<S: Into<String>>(&mut self, name: &str, cells: impl IntoIterator<Item = S>) {
        let cells = cells.into_iter().map(Into::into);
        self.rows
            .push([name.to_owned()].into_iter().chain(cells).collect());
    }

    /// Adds a row of the paper's numbers; an empty cell where the paper gives none.
    pub fn paper(&mut self, name: &str, cells: &[&str]) {
        self.row(&format!("paper: {name}"), cells.iter().copied());
    }

    fn write(&self, text: &mut String) {
        let rule = "---:|".repeat(self.columns.len());
        let _ = write!(text, "**{}**", self.name);
        let _ = writeln!(text, " (`{}`)\n", self.command);
        let _ = writeln!(text, "| | {} |\n|---|{rule}", self.columns.join(" | "));
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text.push('\n');
    }
}

impl Report {
    /// An empty chapter.
    pub fn new(title: &str) -> Report {
        Report {
            title: title.to_owned(),
            blocks: Vec::new(),
        }
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) {
        self.blocks.push(Block::Text(text.trim().to_owned()));
    }

    /// A table.
    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// A figure, and the command that draws it again.
    pub fn figure(&mut self, figure: Figure, command: &str) {
        self.blocks.push(Block::Figure(figure, command.to_owned()));
    }

    /// The figures to be drawn.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Figure(figure, _) => Some(figure),
            _ => None,
        })
    }

    /// As Markdown. `images`: path of the figures, relative to the text; None: they are not drawn.
    pub fn markdown(&self, images: Option<&str>) -> String {
        let mut text = format!("## {}\n\n", self.title);
        for block in &self.blocks {
            match (block, images) {
                (Block::Text(words), _) => {
                    let _ = writeln!(text, "{words}\n");
                }
                (Block::Table(table), _) => table.write(&mut text),
                (Block::Figure(Figure { name, alt, .. }, command), Some(folder)) => {
                    let _ = writeln!(text, "![{alt}]({folder}/{name}.svg)\n\n`{command}`\n");
                }
                (Block::Figure(Figure { alt, .. }, _), None) => {
                    let _ = writeln!(text, "(Figure, drawn with --out: {alt})\n");
                }
            }
        }
        text
    }
}

/// A number with this many decimals, and a dash if there is none.
pub fn number(value: f64, decimals: usize) -> String {
    match value.is_finite() {
        // No "-0", which is the sum of no values.
        true => format!("{:.decimals$}", value + 0.0),
        false => "–".to_owned(),
    }
}

/// A share of 1 as per cent with one decimal.
pub fn percent(share: f64) -> String {
    match share.is_finite() {
        true => format!("{:.1} %", 100.0 * share),
        false => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Panel;

    #[test]
    fn a_chapter_has_its_tables_with_commands_and_its_figures() {
        let mut table = Table::new(
            "Table 1: response (s)",
            "nap-sim paper nap",
            &["mean", "max"],
        );
        table.paper("no control", &["9.31", "82.40"]);
        table.row("no control", [number(8.0, 2), number(f64::NAN, 2)]);
        let mut report = Report::new("NAP-Web");
        report.text("  Words.\n");
        report.table(table);
        let figure = Figure {
            name: "f5".to_owned(),
            alt: "Figure 5".to_owned(),
            panels: vec![Panel::new("", "", "")],
            alike: true,
        };
        report.figure(figure, "nap-sim paper nap --out DIR");
        assert_eq!(
            report.markdown(Some("img")),
            "## NAP-Web\n\nWords.\n\n**Table 1: response (s)** (`nap-sim paper nap`)\n\n\
             | | mean | max |\n|---|---:|---:|\n| paper: no control | 9.31 | 82.40 |\n\
             | no control | 8.00 | – |\n\n![Figure 5](img/f5.svg)\n\n\
             `nap-sim paper nap --out DIR`\n\n"
        );
        assert_eq!(report.figures().count(), 1);
        assert!(!report.markdown(None).contains("svg"));
        assert_eq!([percent(0.125), percent(f64::NAN)], ["12.5 %", "–"]);
    }
}
