//! Pictures as SVG: a small writer with escaping in one place, and the colours.
//!
//! A chart library would bring fonts and a rasteriser for two kinds of charts, and fixed colours: these follow the reader's
//! light or dark theme, because every colour is a CSS variable.

use std::fmt::Write as _;

/// A picture with what a screen reader says of it.
#[derive(Debug)]
pub(super) struct Picture {
    /// Unique within the report: part of file names and of ids.
    pub id: String,
    pub title: String,
    /// The figures in words.
    pub description: String,
    pub width: f64,
    pub height: f64,
    body: String,
}

/// Where text stands in relation to its point.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The colours of both themes, for a picture in a file of its own. The page has them in its own style. The six of the
/// rows are Okabe and Ito's, which the colour-blind can tell apart.
pub(super) const STYLE: &str = "\
:root{--ink:#1b1f24;--soft:#5b6570;--line:#d5dae0;--paper:#fff;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#a5548a;\
--c4:#b07d00;--c5:#3d86b8}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#9aa5b1;--line:#39424d;--paper:#14181d;--c0:#56b4e9;\
--c1:#f08c4a;--c2:#2fc79a;--c3:#dd92c2;--c4:#e6c34a;--c5:#8ecbf0}}\
svg{font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;font-size:13px}\
.t{fill:var(--ink)}.s{fill:var(--soft)}.g{stroke:var(--line);stroke-width:1}.a{stroke:var(--soft);stroke-width:1}\
.e{stroke:var(--ink);stroke-width:1.5}.p{fill:none;stroke-width:2;stroke-linejoin:round}\
.h{fill:none;stroke:var(--paper);stroke-width:2}";

/// How many colours there are; further rows begin again.
const COLOURS: usize = 6;

impl Picture {
    pub(super) fn new(id: String, title: String, width: f64, height: f64) -> Picture {
        Picture { id, title, description: String::new(), width, height, body: String::new() }
    }

    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// A bar; a hatched one is a published figure.
    pub(super) fn bar(&mut self, at: (f64, f64), size: (f64, f64), colour: usize, hatched: bool) {
        let ((x, y), (width, height), colour) = (at, size, colour % COLOURS);
        let place = format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\"");
        self.add(format_args!("<rect {place} fill=\"var(--c{colour})\"/>"));
        if hatched {
            let id = self.id.clone();
            self.add(format_args!("<rect {place} fill=\"url(#hatch-{id})\"/>"));
        }
    }

    /// A line through points, with a dash of its own for those who see no colours.
    pub(super) fn path(&mut self, points: &[(f64, f64)], colour: usize) {
        const DASHES: [&str; 6] = ["none", "7 3", "2 3", "9 3 2 3", "4 4", "12 4"];
        let mut data = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let step = if index == 0 { 'M' } else { 'L' };
            // Writing to a string never fails.
            let _ = write!(data, "{step}{x:.1} {y:.1}");
        }
        let (colour, dash) = (colour % COLOURS, DASHES.get(colour % COLOURS).unwrap_or(&"none"));
        self.add(format_args!(
            "<path class=\"p\" d=\"{data}\" stroke=\"var(--c{colour})\" stroke-dasharray=\"{dash}\"/>"
        ));
    }

    /// For a page that has the style.
    pub(super) fn inline(&self) -> String {
        self.markup("")
    }

    /// For a file of its own.
    pub(super) fn standalone(&self) -> String {
        format!("{}\n", self.markup(&format!("<style>{STYLE}</style>")))
    }

    fn markup(&self, style: &str) -> String {
        let Picture { id, width, height, body, .. } = self;
        let (title, description) = (escape(&self.title), escape(&self.description));
        let hatch = format!(
            "<defs><pattern id=\"hatch-{id}\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><path class=\"h\" d=\"M0 0V7\"/></pattern></defs>"
        );
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             aria-labelledby=\"{id}-title {id}-text\"><title id=\"{id}-title\">{title}</title>\
             <desc id=\"{id}-text\">{description}</desc>{style}{hatch}{body}</svg>"
        )
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string never fails.
        let _ = self.body.write_fmt(element);
    }
}

/// Text as it may stand in XML and HTML, in attributes too. What XML cannot hold at all becomes a replacement character.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(' '),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Round steps of an axis from 0 to at least `highest`: 1, 2 or 5 times a power of ten, four to eight of them.
pub(super) fn steps(highest: f64) -> Vec<f64> {
    if !(highest.is_finite() && highest > 0.0) {
        return vec![0.0, 1.0];
    }
    let rough = highest / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    let count = (highest / step).ceil().clamp(1.0, 20.0) as u32;
    (0..=count).map(|index| step * f64::from(index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        assert_eq!(
            escape("<b a=\"1\" c='2'>&\u{7}\n"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\u{fffd} "
        );
    }

    #[test]
    fn axes_are_round() {
        for (highest, expected) in [
            (12_500.0, (5_000.0, 15_000.0)),
            (1.15, (0.5, 1.5)),
            (0.03, (0.01, 0.03)),
            (f64::NAN, (1.0, 1.0)),
            (0.0, (1.0, 1.0)),
        ] {
            let steps = steps(highest);
            assert!(
                ((steps[1] - expected.0).abs() < 1e-9) && (steps[steps.len() - 1] - expected.1).abs() < 1e-9,
                "{steps:?}"
            );
        }
    }
}
