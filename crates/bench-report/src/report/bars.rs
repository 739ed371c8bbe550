//! A bar chart: one bar a row from the left, its figure at its end, the 95 % interval as an error bar.

use super::svg::{Anchor, Picture, steps};
use bench::stats::Interval;

/// One bar.
#[derive(Debug)]
pub(super) struct Bar {
    pub label: String,
    pub value: f64,
    /// As it is written at the bar's end.
    pub text: String,
    pub interval: Option<Interval>,
    /// The row's place in its group, which chooses the colour.
    pub colour: usize,
    /// Whether it is a publication's figure.
    pub published: bool,
}

const WIDTH: f64 = 760.0;
const TOP: f64 = 36.0;
const ROW: f64 = 34.0;
const BAR: f64 = 20.0;
/// Room for the figure behind the longest bar.
const RIGHT: f64 = 130.0;
/// A character's width in the font's size, about.
const CHARACTER: f64 = 7.2;

/// Draws bars. `mark` is a line at a value that means something, such as the baseline's.
pub(super) fn chart(id: String, title: &str, unit: &str, bars: &[Bar], mark: Option<f64>) -> Picture {
    let height = TOP + ROW * bars.len() as f64 + 34.0;
    let mut picture = Picture::new(id, title.to_owned(), WIDTH, height);
    let words: Vec<String> = bars.iter().map(|bar| format!("{} {}", bar.label, bar.text)).collect();
    picture.description = format!("{unit}: {}", words.join(", "));
    let longest = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * CHARACTER + 16.0).clamp(60.0, 240.0);
    let reach = |bar: &Bar| bar.interval.map_or(bar.value, |interval| interval.high.max(bar.value));
    let axis = steps(bars.iter().map(reach).fold(mark.unwrap_or(0.0), f64::max));
    let end = axis.last().copied().unwrap_or(1.0);
    let x = |value: f64| left + value / end * (WIDTH - left - RIGHT);
    let bottom = TOP + ROW * bars.len() as f64;
    picture.text(0.0, 16.0, Anchor::Start, "t", title);
    for step in &axis {
        picture.line("g", (x(*step), TOP - 6.0), (x(*step), bottom));
        picture.text(x(*step), bottom + 18.0, Anchor::Middle, "s", &short(*step));
    }
    picture.text(WIDTH, bottom + 18.0, Anchor::End, "s", unit);
    for (index, bar) in bars.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        picture.text(left - 8.0, y + 15.0, Anchor::End, "t", &clipped(&bar.label));
        picture.bar((left, y), ((x(bar.value) - left).max(1.0), BAR), bar.colour, bar.published);
        let mut text_at = x(bar.value);
        if let Some(interval) = bar.interval {
            let middle = y + BAR / 2.0;
            picture.line("e", (x(interval.low), middle), (x(interval.high), middle));
            for edge in [interval.low, interval.high] {
                picture.line("e", (x(edge), middle - 5.0), (x(edge), middle + 5.0));
            }
            text_at = text_at.max(x(interval.high));
        }
        picture.text(text_at + 8.0, y + 15.0, Anchor::Start, "t", &bar.text);
    }
    picture.line("a", (left, TOP - 6.0), (left, bottom));
    if let Some(mark) = mark {
        picture.line("e", (x(mark), TOP - 6.0), (x(mark), bottom));
    }
    picture
}

/// A figure at an axis, without zeros at its end.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A label that fits its column; the table has it in full.
fn clipped(label: &str) -> String {
    const MOST: usize = 30;
    if label.chars().count() <= MOST {
        label.to_owned()
    } else {
        label.chars().take(MOST - 1).chain(['…']).collect()
    }
}
