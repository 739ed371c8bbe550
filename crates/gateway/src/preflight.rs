//! What `tidegate test` looks at besides the configuration file itself: the files that it names, as a start reads them,
//! and the resources where they are in a file.

use document::{Diagnostic, Report, codes};

use crate::launch::Launch;
use crate::{admin_tls, assemble, centre, declarative, plan};
use config::Settings;
use config::settings::provider::Provider;

/// Returns everything that keeps a start with these settings from succeeding, or from serving all resources, and that
/// can be known without starting.
pub fn check(settings: &Settings, launch: &Launch) -> Vec<Diagnostic> {
    let registry = plan::registry(settings, &launch.data_dir);
    let (registry, refused) = match registry {
        Ok(registry) => (Some(registry), None),
        Err(error) => (None, Some(error)),
    };
    let checks = [
        assemble::upstream_tls(settings, launch).map(drop),
        admin_tls::make(settings, launch).map(drop),
        centre::check_files(settings, launch),
    ];
    let mut messages: Vec<String> = refused
        .into_iter()
        .chain(checks.into_iter().filter_map(Result::err))
        .map(|error| format!("{error:#}"))
        .collect();
    messages.dedup();
    let mut found: Vec<Diagnostic> =
        messages.into_iter().map(|message| Diagnostic::error(codes::START_WOULD_FAIL, message)).collect();
    if let (Provider::File(format), Some(registry)) = (&settings.provider, registry) {
        let path = centre::standalone_path(launch, *format);
        found.extend(resources(&path, settings, registry));
    }
    found
}

/// Checks the standalone file as `tidegate config validate` does.
fn resources(path: &std::path::Path, settings: &Settings, registry: plugin::Registry) -> Vec<Diagnostic> {
    match declarative::check(path, settings, registry) {
        Ok(checked) => checked.report.diagnostics,
        Err(error) => {
            let unreadable = Diagnostic::error(codes::UNREADABLE_FILE, format!("{error:#}"));
            Report::of_file(&path.display().to_string(), vec![unreadable]).diagnostics
        }
    }
}
