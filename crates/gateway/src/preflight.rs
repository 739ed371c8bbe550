//! What `tidegate test` looks at besides the configuration file itself: the files that it names, as a start reads them.

use crate::launch::Launch;
use crate::{admin_tls, assemble, centre, plan};
use config::Settings;

/// Everything that would keep a start with these settings from succeeding, and can be known without starting.
pub fn mistakes(settings: &Settings, launch: &Launch) -> Vec<String> {
    let checks = [
        plan::registry(settings, &launch.data_dir).map(drop),
        assemble::upstream_tls(settings, launch).map(drop),
        admin_tls::make(settings, launch).map(drop),
        centre::check_files(settings, launch),
    ];
    let mut found: Vec<String> =
        checks.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    found.dedup();
    found
}
