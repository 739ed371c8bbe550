//! A number that is fixed, or read from the request.

use super::config::AmountConfig;
use model::var::{Template, VarSource};

/// The largest number: beyond it APISIX's own numbers lose their last digits.
const AMOUNT_MAX: f64 = 9_007_199_254_740_991.0;

/// `count` or `time_window`.
pub(super) enum Amount {
    Fixed(u64),
    /// Text with variables; worth something only where it comes out as a whole number from 1 to 2^53 - 1.
    FromRequest(Template),
}

impl Amount {
    pub(super) fn compile(config: &AmountConfig) -> Self {
        match config {
            AmountConfig::Integer(number) => Self::Fixed(*number),
            // A whole number written as 1e3; the schema lets no other pass.
            AmountConfig::Float(number) => Self::Fixed(*number as u64),
            AmountConfig::Text(text) => Self::FromRequest(Template::parse(text)),
        }
    }

    /// The number, where it is the same for all requests.
    pub(super) fn fixed(&self) -> Option<u64> {
        match self {
            Self::Fixed(number) => Some(*number),
            Self::FromRequest(_) => None,
        }
    }

    /// The number for this request, if there is a usable one.
    #[inline]
    pub(super) fn of(&self, source: &dyn VarSource) -> Option<u64> {
        match self {
            Self::Fixed(number) => Some(*number),
            Self::FromRequest(template) => read(template, source),
        }
    }
}

#[inline(never)]
fn read(template: &Template, source: &dyn VarSource) -> Option<u64> {
    let mut text = Vec::new();
    template.render(source, &mut text);
    let number: f64 = std::str::from_utf8(&text).ok()?.trim().parse().ok()?;
    let usable = number > 0.0 && number <= AMOUNT_MAX && number.fract() == 0.0;
    if !usable {
        tracing::error!(number, "limit-count: not a whole number from 1 to 2^53 - 1");
    }
    usable.then_some(number as u64)
}
