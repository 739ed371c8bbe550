//! A document as Markdown (GitHub's tables). Pictures are files beside it.

use std::fmt::Write as _;

use super::document::{Block, Document, Table};

/// Writes the document. Pictures are linked as `<id>.svg` if `with_pictures`.
pub(super) fn write(document: &Document, with_pictures: bool) -> String {
    let mut out = format!("# {}\n\n{}\n", escape(&document.title), escape(&document.lead));
    for block in &document.blocks {
        // Writing to a string never fails.
        let _ = match block {
            Block::Section(text) => write!(out, "\n## {}\n", escape(text)),
            Block::Heading(text) => write!(out, "\n### {}\n", escape(text)),
            Block::List(lines) => write!(out, "\n{}", list(lines, "- ")),
            Block::Warnings(lines) => {
                write!(out, "\n> **Before you believe these figures**\n>\n{}", list(lines, "> - "))
            }
            Block::Table(table) | Block::Details { table, .. } => write!(out, "\n{}", markup(table)),
            Block::Picture(picture) if with_pictures => {
                write!(out, "\n![{}]({}.svg)\n", escape(&picture.title), picture.id)
            }
            Block::Picture(_) => Ok(()),
        };
    }
    out
}

fn list(lines: &[String], mark: &str) -> String {
    lines.iter().map(|line| format!("{mark}{}\n", escape(line))).collect()
}

fn markup(table: &Table) -> String {
    let line = |cells: &[String]| {
        format!("| {} |\n", cells.iter().map(|cell| escape(cell)).collect::<Vec<_>>().join(" | "))
    };
    let rule = |column: usize| if table.figures && column > 0 { "---:" } else { "---" };
    let rules: Vec<&str> = (0..table.columns.len()).map(rule).collect();
    let rows: String = table.rows.iter().map(|row| line(row)).collect();
    format!("**{}**\n\n{}| {} |\n{rows}", escape(&table.caption), line(&table.columns), rules.join(" | "))
}

/// Text as it may stand anywhere in Markdown, in a table's cell too.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' => escaped.extend(['\\', character]),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        assert_eq!(escape("a|b `c` <d>\n# *e*"), "a\\|b \\`c\\` \\<d\\> \\# \\*e\\*");
    }
}
