//! What few exchanges need, kept out of the way of all others.

use crate::{BodyFilters, Coding, ExchangeLimits, Extensions, Keeper, KeptResponse, UpstreamChoice};
use std::any::Any;
use std::sync::Arc;

/// What plugins ask for beyond header fields, and what they note for their later phases.
#[derive(Default)]
pub struct Extras {
    /// Where the request goes instead of the route's upstream.
    pub upstream: Option<UpstreamChoice>,
    /// The response to be sent instead of asking an upstream.
    pub kept: Option<KeptResponse>,
    /// Who is told what the upstream answers.
    pub keeper: Option<Box<dyn Keeper>>,
    /// What holds for the exchange in place of the configuration's limits.
    pub limits: ExchangeLimits,
    /// What the response's body passes on its way. Filled in the response phase.
    pub body_filters: BodyFilters,
    /// The content coding that the body is to be sent in: see [`crate::Exchange::offer`].
    pub(crate) coding: Option<Coding>,
    /// What the filters of `_meta` said, by the place of that.
    admitted: Vec<(usize, bool)>,
    /// The plugins that don't run any more, because they ran inside others.
    pub(crate) skipped: Vec<Arc<str>>,
    /// What plugins share.
    pub extensions: Extensions,
    /// Notes by the place of the plugin that made them.
    notes: Vec<(usize, Box<dyn Any>)>,
}

impl Extras {
    /// Notes `note` for the later phases of `plugin`, in place of an earlier one.
    pub fn note<P, N: 'static>(&mut self, plugin: &P, note: N) {
        let place = std::ptr::from_ref(plugin).addr();
        self.notes.retain(|(of, _)| *of != place);
        self.notes.push((place, Box::new(note)));
    }

    /// What `plugin` noted.
    pub fn noted<P, N: 'static>(&self, plugin: &P) -> Option<&N> {
        let place = std::ptr::from_ref(plugin).addr();
        self.notes.iter().find(|(of, _)| *of == place)?.1.downcast_ref()
    }

    pub(crate) fn admitted(&self, place: usize) -> Option<bool> {
        self.admitted.iter().find(|(of, _)| *of == place).map(|(_, admitted)| *admitted)
    }

    pub(crate) fn admit(&mut self, place: usize, admitted: bool) {
        self.admitted.push((place, admitted));
    }
}

impl std::fmt::Debug for Extras {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extras").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}
