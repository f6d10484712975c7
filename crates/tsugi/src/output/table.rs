//! Tables for people: a heading, rows, no lines.

use comfy_table::{Cell, ContentArrangement, presets};

use super::printable;
use super::style::TextPaint;

/// Tables are not wrapped on terminals narrower than this.
const NARROWEST: u16 = 40;

pub(crate) struct TextTable {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(crate) fn new<const N: usize>(heading: [&str; N]) -> Self {
        TextTable { heading: heading.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    /// Adds a row. Cells may hold a server's text, so control characters are replaced.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.iter().map(|cell| printable(cell)).collect());
    }

    /// One line per row, for a table among messages.
    pub(crate) fn text(&self, paint: TextPaint) -> String {
        self.render(paint, false)
    }

    /// Wrapped on a terminal, otherwise one line per row.
    pub(super) fn render(&self, paint: TextPaint, watched: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        // Some terminals report a width of zero.
        let has_room = watched && table.width().is_some_and(|width| width >= NARROWEST);
        let arrangement = if has_room { ContentArrangement::Dynamic } else { ContentArrangement::Disabled };
        table.set_content_arrangement(arrangement);
        table.set_header(self.heading.iter().map(|cell| Cell::new(cell.to_uppercase())));
        for row in &self.rows {
            table.add_row(row.iter().map(Cell::new));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let text = table.to_string();
        let lines = text.lines().enumerate().map(|(index, line)| {
            let line = line.trim_end();
            if index == 0 { paint.strong(line) } else { line.to_owned() }
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_has_no_lines() {
        let mut table = TextTable::new(["name", "state"]);
        table.row(["files".to_owned(), "connected".to_owned()]);
        table.row(["pm".to_owned(), "\u{1b}[31mfailed".to_owned()]);
        let expected = "NAME   STATE\nfiles  connected\npm     \u{fffd}[31mfailed";
        assert_eq!(table.render(TextPaint::new(false), false), expected);
    }
}
