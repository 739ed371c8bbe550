//! Every row against every other: with three and more, one baseline does not say it all.

use super::document::{Block, Table};
use super::gather::{price_performance_over, throughput_over};
use super::model::{Group, Row};
use super::number::{self, NONE};

/// From three rows on there are pairs without the baseline; above this a table has more columns than a page.
const MOST: usize = 8;

/// The tables of a group, if it has enough rows.
pub(super) fn tables(group: &Group, blocks: &mut Vec<Block>) {
    if !(3..=MOST).contains(&group.rows.len()) {
        return;
    }
    blocks.push(Block::Heading("Every pair".to_owned()));
    blocks.push(Block::Table(table(group, "Throughput: the row's over the column's", throughput_over)));
    if group.rows.iter().filter(|row| row.relative_price_performance.is_some()).count() > 1 {
        let caption = "Price-performance: the row's over the column's";
        blocks.push(Block::Table(table(group, caption, price_performance_over)));
    }
}

fn table(group: &Group, caption: &str, over: fn(&Row, &Row) -> Option<f64>) -> Table {
    let row = |row: &Row| {
        let cells = group.rows.iter().map(|other| match over(row, other) {
            _ if other.name == row.name => NONE.to_owned(),
            Some(ratio) => number::percent(ratio, row.published || other.published),
            None => NONE.to_owned(),
        });
        std::iter::once(number::name(row)).chain(cells).collect()
    };
    let names = group.rows.iter().map(|row| format!("over {}", row.name));
    Table {
        caption: caption.to_owned(),
        columns: std::iter::once(String::new()).chain(names).collect(),
        rows: group.rows.iter().map(row).collect(),
        figures: true,
    }
}
