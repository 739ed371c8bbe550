//! A report's form between figures and markup: what Markdown and HTML both can show.

use super::svg::Picture;

/// A document.
#[derive(Debug)]
pub(super) struct Document {
    pub title: String,
    /// One sentence below the title.
    pub lead: String,
    pub blocks: Vec<Block>,
}

/// A part of a document. Texts are plain: the writers escape them.
#[derive(Debug)]
pub(super) enum Block {
    /// A section's heading.
    Section(String),
    /// A heading within a section.
    Heading(String),
    List(Vec<String>),
    /// What must not be overlooked.
    Warnings(Vec<String>),
    Table(Table),
    Picture(Picture),
    /// A table that is long or seldom read; folded where the form can fold.
    Details {
        summary: String,
        table: Table,
    },
}

/// A table with a heading row; the first column heads its rows.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub caption: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Whether all columns but the first hold figures, which stand to the right.
    pub figures: bool,
}

impl Table {
    /// Leaves out columns that have no figure in any row; the first stays.
    pub(super) fn without_empty_columns(mut self) -> Table {
        let empty = |column: usize| {
            column > 0
                && self.rows.iter().all(|row| row.get(column).is_none_or(|cell| cell == super::number::NONE))
        };
        let keep: Vec<bool> = (0..self.columns.len()).map(|column| !empty(column)).collect();
        let retain = |cells: &mut Vec<String>| {
            let mut keep = keep.iter();
            cells.retain(|_| keep.next().copied().unwrap_or(true));
        };
        retain(&mut self.columns);
        self.rows.iter_mut().for_each(retain);
        self
    }
}
