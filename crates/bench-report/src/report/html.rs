//! A document as one HTML page that needs nothing else: no script, no font, no request.

use std::fmt::Write as _;

use super::document::{Block, Document, Table};
use super::svg::{STYLE, escape};

/// The page's own style, beside the pictures'.
const PAGE: &str = include_str!("page.css");

/// Writes the page.
pub(super) fn write(document: &Document) -> String {
    let mut body = String::new();
    let mut open = false;
    for block in &document.blocks {
        // Writing to a string never fails.
        let _ = match block {
            Block::Section(text) => {
                let close = if open { "</section>\n" } else { "" };
                open = true;
                write!(body, "{close}<section>\n<h2>{}</h2>\n", escape(text))
            }
            Block::Heading(text) => writeln!(body, "<h3>{}</h3>", escape(text)),
            Block::List(lines) => write!(body, "<ul>\n{}</ul>\n", list(lines)),
            Block::Warnings(lines) => write!(
                body,
                "<aside aria-label=\"Warnings\"><strong>Before you believe these figures</strong>\n<ul>\n{}</ul></aside>\n",
                list(lines)
            ),
            Block::Table(table) => write!(body, "{}", markup(table)),
            Block::Picture(picture) => writeln!(body, "<figure>{}</figure>", picture.inline()),
            Block::Details { summary, table } => {
                write!(body, "<details><summary>{}</summary>\n{}</details>\n", escape(summary), markup(table))
            }
        };
    }
    let close = if open { "</section>\n" } else { "" };
    let (title, lead) = (escape(&document.title), escape(&document.lead));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}\n{PAGE}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n<p>{lead}</p>\n</header>\n\
         {body}{close}<footer>Made by tidegate bench report {}.</footer>\n</main>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn list(lines: &[String]) -> String {
    lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect()
}

/// A table that scrolls by itself when the window is narrow, by keyboard too.
fn markup(table: &Table) -> String {
    let class = if table.figures { " class=\"figures\"" } else { "" };
    let heads: String = table
        .columns
        .iter()
        .map(|column| match column.is_empty() {
            true => "<td></td>".to_owned(),
            false => format!("<th scope=\"col\">{}</th>", escape(column)),
        })
        .collect();
    let row = |cells: &Vec<String>| {
        let cells: String = cells
            .iter()
            .enumerate()
            .map(|(column, cell)| match column {
                0 => format!("<th scope=\"row\">{}</th>", escape(cell)),
                _ => format!("<td>{}</td>", escape(cell)),
            })
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = table.rows.iter().map(row).collect();
    let caption = escape(&table.caption);
    format!(
        "<div class=\"wide\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table{class}>\n\
         <caption>{caption}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}
