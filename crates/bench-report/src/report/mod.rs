//! Comparison reports from result files: Markdown and a self-contained page.
//!
//! Files become a [`Report`] (rows of one scenario side by side, with ratios, intervals and prices), that becomes a document
//! of headings, tables and pictures, and that is written as Markdown, as HTML, or as JSON. Nothing is computed twice, so the
//! three forms cannot disagree.

mod args;
mod bars;
mod compare;
mod compose;
mod curves;
mod document;
mod error;
mod gather;
mod html;
mod inventory;
mod markdown;
mod model;
mod number;
mod pairs;
mod pictures;
mod rows;
mod studies;
mod svg;
#[cfg(test)]
mod tests;
mod write;

pub use args::{CompareArgs, NamedPrice, ReportArgs};
pub use compare::compare;
pub use error::ReportError;
pub use model::{Group, LatencyKind, Ratio, Report, Row, Source};
pub use studies::Study;
pub use write::run;
