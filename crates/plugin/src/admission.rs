//! Whether `_meta.filter` lets a plugin run.

use crate::{Exchange, Meta, Session};

impl Meta {
    /// Whether the plugin is to run for this session.
    #[must_use]
    pub fn admits_session(&self, session: &Session<'_>) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.eval(session))
    }

    /// Whether the plugin is to run for this request. Settled when it is first asked: a plugin that ran in one phase
    /// runs in the next, whatever was rewritten in between.
    #[must_use]
    pub fn admits(&self, exchange: &mut Exchange<'_>) -> bool {
        let Some(filter) = &self.filter else { return true };
        let place = std::ptr::from_ref(self).addr();
        let known = exchange.extras.as_ref().and_then(|extras| extras.admitted(place));
        known.unwrap_or_else(|| {
            let admitted = filter.eval(exchange);
            exchange.extras().admit(place, admitted);
            admitted
        })
    }
}
