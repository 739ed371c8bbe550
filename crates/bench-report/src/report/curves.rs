//! Latency by percentile: the axis gives every further nine the same room, so that the tail can be seen.

use super::bars::short;
use super::svg::{Anchor, Picture, steps};

/// One row's curve.
#[derive(Debug)]
pub(super) struct Curve<'a> {
    pub label: String,
    /// `(share of requests, milliseconds)`, growing.
    pub points: &'a [(f64, f64)],
    pub colour: usize,
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 48.0;
const PLOT: f64 = 260.0;
const LEGEND_ROW: f64 = 20.0;

/// From this ratio between the highest and the lowest on, the vertical axis is logarithmic: else the lower curve is flat.
const LOGARITHMIC_FROM: f64 = 30.0;

/// Draws curves.
pub(super) fn chart(id: String, title: &str, curves: &[Curve<'_>]) -> Picture {
    let bottom = TOP + PLOT;
    let height = bottom + 48.0 + LEGEND_ROW * curves.len() as f64;
    let mut picture = Picture::new(id, title.to_owned(), WIDTH, height);
    let ends = curves.iter().filter_map(|curve| Some((&curve.label, curve.points.last()?)));
    let words: Vec<String> =
        ends.map(|(label, (share, ms))| format!("{label} {ms:.2} ms at {:.4} %", share * 100.0)).collect();
    picture.description = format!("Latency in milliseconds by percentile: {}", words.join(", "));
    picture.text(0.0, 16.0, Anchor::Start, "t", title);
    let all = || curves.iter().flat_map(|curve| curve.points);
    let highest = all().map(|(_, ms)| *ms).fold(f64::MIN_POSITIVE, f64::max);
    let lowest = all().map(|(_, ms)| *ms).fold(highest, f64::min).max(highest * 1e-6);
    let decades = all().map(|(share, _)| -(1.0 - share).log10()).fold(1.0, f64::max);
    let x = |share: f64| LEFT + -(1.0 - share).log10() / decades * (WIDTH - LEFT - RIGHT);
    let vertical = Vertical::of(lowest, highest);
    for step in &vertical.steps {
        let y = bottom - vertical.place(*step) * PLOT;
        picture.line("g", (LEFT, y), (WIDTH - RIGHT, y));
        picture.text(LEFT - 8.0, y + 4.0, Anchor::End, "s", &short(*step));
    }
    picture.text(LEFT - 8.0, TOP - 14.0, Anchor::End, "s", "ms");
    for (share, label) in [
        (0.0, "0"),
        (0.5, "50"),
        (0.9, "90"),
        (0.99, "99"),
        (0.999, "99.9"),
        (0.9999, "99.99"),
        (0.99999, "99.999"),
    ] {
        if x(share) <= WIDTH - RIGHT + 1.0 {
            picture.line("g", (x(share), TOP), (x(share), bottom));
            picture.text(x(share), bottom + 18.0, Anchor::Middle, "s", label);
        }
    }
    picture.text(WIDTH - RIGHT, bottom + 36.0, Anchor::End, "s", "percentile");
    for curve in curves {
        let points: Vec<(f64, f64)> =
            curve.points.iter().map(|(share, ms)| (x(*share), bottom - vertical.place(*ms) * PLOT)).collect();
        picture.path(&points, curve.colour);
    }
    picture.line("a", (LEFT, bottom), (WIDTH - RIGHT, bottom));
    for (index, curve) in curves.iter().enumerate() {
        let y = bottom + 48.0 + LEGEND_ROW * index as f64;
        picture.path(&[(LEFT, y), (LEFT + 36.0, y)], curve.colour);
        picture.text(LEFT + 44.0, y + 4.0, Anchor::Start, "t", &curve.label);
    }
    picture
}

/// The vertical axis.
struct Vertical {
    steps: Vec<f64>,
    logarithmic: bool,
}

impl Vertical {
    fn of(lowest: f64, highest: f64) -> Vertical {
        if highest / lowest < LOGARITHMIC_FROM {
            return Vertical { steps: steps(highest), logarithmic: false };
        }
        let (from, to) = (lowest.log10().floor() as i32, highest.log10().ceil() as i32);
        Vertical { steps: (from..=to).map(|power| 10f64.powi(power)).collect(), logarithmic: true }
    }

    /// From 0 at the bottom to 1 at the top.
    fn place(&self, ms: f64) -> f64 {
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else { return 0.0 };
        let place = match self.logarithmic {
            true => (ms.max(*first) / first).log10() / (last / first).log10(),
            false => ms / last,
        };
        place.clamp(0.0, 1.0)
    }
}
