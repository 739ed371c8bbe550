//! A config source whose contents are refused: what is said of it, and how an operator accepts them.

use std::sync::Arc;

use tokio::time::{Instant, sleep};

use super::centre::{Centre, Health};
use super::continuity::{Continuity, Fault, resources};
use super::facts::{Acceptance, Accepted, Facts, Rejection};
use super::keeper::Anchor;
use crate::limits::{ACCEPT_WAIT, RECHECK_PAUSE, REJECTED_LOG_PAUSE, RELIST_PAUSE};
use crate::{Clock, Listing, Store, StoreError, SystemClock};

/// A prefix under which nothing is, to ask for cluster and revision at no cost.
pub(crate) const NOTHING: &str = "/-/";

impl Centre {
    /// Why `found` is refused; `None` where it may be followed.
    pub(crate) async fn verdict(&self, found: &Listing) -> Option<Fault> {
        let judged = self.keeper.judge(found);
        if judged == Ok(Continuity::Same) || self.decision.covers(found) {
            return None;
        }
        let anchor = self.keeper.anchor();
        // Contents that might have come about by changes did not, where the history says otherwise, and the other way round.
        let fault = match (judged, remembers(&*self.inner, &anchor).await) {
            (Ok(_), Ok(false)) => Fault::OtherHistory { key: anchor.newest?.key },
            (Ok(_), _) | (Err(Fault::Loss { .. }), Ok(true)) => return None,
            (Err(fault), _) => fault,
        };
        (!self.is_accepted_elsewhere(found).await).then_some(fault)
    }

    /// Whether another node's operator has accepted `found` after this node last followed the store: an acceptance from
    /// before is about an earlier incident, and may have come back with a backup.
    async fn is_accepted_elsewhere(&self, found: &Listing) -> bool {
        match self.inner.acceptance().await {
            Ok(Some(accepted)) => accepted.unix_ms > self.keeper.unix_ms() && accepted.covers(found),
            _ => false,
        }
    }

    /// Serves on what there is instead of `found`.
    pub(crate) fn reject(&self, fault: &Fault, found: &Listing) {
        if !self.decision.covers(found) {
            self.decision.clear();
        }
        let (serving, reason) = (self.keeper.facts(), fault.to_string());
        let (cluster, revision) = (found.cluster, found.revision);
        let found = Facts { cluster, revision, resources: resources(&found.entries) };
        let since_unix_ms = match &*self.health.borrow() {
            Health::Rejected(before) => before.since_unix_ms,
            _ => SystemClock.unix_ms(),
        };
        let rejection = Rejection { since_unix_ms, reason, serving, found, reachable: true };
        log(&rejection);
        self.set(Health::Rejected(rejection));
    }

    /// Returns once the source holds what may be followed: again, or because an operator accepts it.
    pub(crate) async fn wait_until_acceptable(self: Arc<Self>) {
        let (mut logged, mut listed) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                () = sleep(RECHECK_PAUSE) => {}
                () = self.decision.made.notified() => {}
            }
            if self.is_acceptable(&mut listed).await {
                return;
            }
            if logged.elapsed() >= REJECTED_LOG_PAUSE
                && let Health::Rejected(rejection) = &*self.health.borrow()
            {
                log(rejection);
                logged = Instant::now();
            }
        }
    }

    async fn is_acceptable(&self, listed: &mut Instant) -> bool {
        let now = self.inner.list(NOTHING).await;
        let Health::Rejected(rejection) = self.health.borrow().clone() else { return true };
        let Ok(now) = now else {
            self.set(Health::Rejected(Rejection { reachable: false, ..rejection }));
            return false;
        };
        if self.decision.covers(&now) || self.is_accepted_elsewhere(&now).await {
            return true;
        }
        let found = &rejection.found;
        // Other contents may have the same revision: what is served is looked for in the history.
        let moved = (now.cluster, now.revision) != (found.cluster, found.revision)
            || remembers(&*self.inner, &self.keeper.anchor()).await == Ok(true);
        if !moved || (now.revision >= found.revision && listed.elapsed() < RELIST_PAUSE) {
            self.set(Health::Rejected(Rejection { reachable: true, ..rejection }));
            return false;
        }
        *listed = Instant::now();
        let Ok(listing) = self.inner.list("").await else { return false };
        match self.verdict(&listing).await {
            None => true,
            Some(fault) => {
                self.reject(&fault, &listing);
                false
            }
        }
    }

    /// Takes what the source held when it was refused, and what has been written to it since.
    pub(crate) async fn accept(
        &self,
        actor: Option<String>,
        seen_revision: Option<u64>,
    ) -> Result<Accepted, StoreError> {
        let mut health = self.health.subscribe();
        let Health::Rejected(Rejection { serving, found, .. }) = health.borrow_and_update().clone() else {
            return Err(StoreError::Invalid(
                "the config source is not rejected: nothing to accept".to_owned(),
            ));
        };
        let (cluster, revision) = (found.cluster, found.revision);
        if seen_revision.is_some_and(|seen| seen != revision) {
            let message = format!("the config source has changed again: it is at revision {revision} now");
            return Err(StoreError::Invalid(message));
        }
        let acceptance = Acceptance { cluster, revision, unix_ms: SystemClock.unix_ms(), actor };
        tracing::warn!(
            cluster,
            revision,
            resources = found.resources,
            actor = acceptance.actor,
            "the config source's contents are accepted by an operator"
        );
        self.inner.expect_at_least(cluster, revision);
        let shared = self.inner.record_acceptance(acceptance.clone()).await;
        self.decision.make(acceptance);
        let follows = health.wait_for(|health| !matches!(health, Health::Rejected(_)));
        if tokio::time::timeout(ACCEPT_WAIT, follows).await.is_err() {
            let message = "accepted, but it has not been loaded yet: ask again for its state".to_owned();
            return Err(StoreError::Unavailable(message));
        }
        let not_shared = shared.err().map(|error| error.to_string());
        Ok(Accepted { before: serving, now: found, not_shared })
    }
}

/// Returns whether the history of `store` leads to `anchor`: a watch from there then shows every change.
///
/// # Errors
/// [`StoreError::Compacted`] where that isn't known any more, and those of reading.
pub(crate) async fn remembers(store: &dyn Store, anchor: &Anchor) -> Result<bool, StoreError> {
    let Some(newest) = &anchor.newest else { return Ok(true) };
    match store.value_at(&newest.key, anchor.revision).await {
        Err(StoreError::Future { .. }) => Ok(false),
        found => Ok(found?
            .is_some_and(|found| found.mod_revision == newest.mod_revision && found.value == newest.value)),
    }
}

fn log(rejection: &Rejection) {
    tracing::error!(
        serving_revision = rejection.serving.revision,
        serving_resources = rejection.serving.resources,
        found_revision = rejection.found.revision,
        found_resources = rejection.found.resources,
        "config source rejected: {}; serving the last good configuration. Restore the source, or accept its contents \
         with `tidegate config accept`",
        rejection.reason
    );
}
