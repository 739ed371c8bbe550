//! A number that is fixed, or read from the request.

use model::var::{Template, VarSource};
use serde::Deserialize;

/// The largest number: beyond it APISIX's own numbers lose their last digits.
const AMOUNT_MAX: f64 = 9_007_199_254_740_991.0;

/// A number, or text that variables make one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum AmountConfig {
    Integer(u64),
    Float(f64),
    Text(String),
}

/// A number of a limit: `count`, `time_window`, `conn`.
pub(crate) enum Amount {
    Fixed(u64),
    /// Text with variables; worth something only where it comes out as a whole number from `least` to 2^53 - 1.
    FromRequest {
        text: Template,
        least: u64,
    },
}

impl Amount {
    /// A number that comes from the request must be at least `least`; of others the schema says so.
    pub(crate) fn compile(config: &AmountConfig, least: u64) -> Self {
        match config {
            AmountConfig::Integer(number) => Self::Fixed(*number),
            // A whole number written as 1e3; the schema lets no other pass.
            AmountConfig::Float(number) => Self::Fixed(*number as u64),
            AmountConfig::Text(text) => Self::FromRequest { text: Template::parse(text), least },
        }
    }

    /// The number, where it is the same for all requests.
    pub(crate) fn fixed(&self) -> Option<u64> {
        match self {
            Self::Fixed(number) => Some(*number),
            Self::FromRequest { .. } => None,
        }
    }

    /// The number for this request, if there is a usable one.
    #[inline]
    pub(crate) fn of(&self, source: &dyn VarSource) -> Option<u64> {
        match self {
            Self::Fixed(number) => Some(*number),
            Self::FromRequest { text, least } => read(text, *least, source),
        }
    }
}

#[inline(never)]
fn read(template: &Template, least: u64, source: &dyn VarSource) -> Option<u64> {
    let mut text = Vec::new();
    template.render(source, &mut text);
    let number: f64 = std::str::from_utf8(&text).ok()?.trim().parse().ok()?;
    let usable = number >= least as f64 && number <= AMOUNT_MAX && number.fract() == 0.0;
    if !usable {
        tracing::error!(number, "a limit is no whole number from {least} to 2^53 - 1");
    }
    usable.then_some(number as u64)
}
