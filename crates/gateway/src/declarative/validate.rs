//! `tidegate config validate`: everything that the Admin API checks, without one.

use super::load;
use super::read::Form;
use crate::cli::ValidateArgs;
use crate::output::{checked, say, show};
use crate::{launch, plan};
use anyhow::{Context, bail};
use config::settings::provider::Provider;
use config::{Reach, Settings};
use document::{Diagnostic, Format, Report, Severity, codes};
use plugin::Registry;
use std::path::Path;
use std::sync::Arc;

/// A file that was checked.
#[derive(Debug)]
pub struct Checked {
    /// How many resources it declares.
    pub resources: usize,
    /// What is wrong with it, in the order of the file.
    pub report: Report,
}

/// Checks a file and prints what is wrong with it.
///
/// # Errors
/// When something is.
pub(crate) fn run(args: &ValidateArgs) -> anyhow::Result<()> {
    let config = launch::config_file(&args.common);
    let settings = checked(launch::load(config.as_deref(), Reach::Anyone), true)?;
    let registry = plan::registry(&settings, &launch::data_dir(&args.common)?)?;
    let Checked { resources, mut report } = check(&args.file, &settings, registry)?;
    if args.strict {
        let unknown = report.diagnostics.iter_mut().filter(|found| found.code == codes::UNKNOWN_FIELD);
        unknown.for_each(|found| found.severity = Severity::Error);
    }
    let file = args.file.display();
    if args.json {
        let mut shown = report.to_json();
        shown["file"] = file.to_string().into();
        shown["resources"] = resources.into();
        say(shown)?;
    } else {
        show(&report);
    }
    match report.errors() {
        0 if args.json => Ok(()),
        0 => say(format_args!("{file} is valid: {resources} resources")),
        _ => bail!("the file is refused: {}", report.summary()),
    }
}

/// Checks a file of resources: all that the gateway checks when it reads the file, and all that the Admin API checks.
///
/// # Errors
/// When the file can't be read. What is wrong with its text is in the report.
pub fn check(path: &Path, settings: &Settings, registry: Registry) -> anyhow::Result<Checked> {
    let (declared, mut found) = load(path)?;
    found.extend(wrong_form(&settings.provider, declared.form));
    let resources = declared.resources();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the check can't run")?;
    let about_resources = runtime.block_on(admin::check_whole(Arc::new(registry), &resources));
    found.extend(about_resources.into_iter().map(|diagnostic| declared.placed(diagnostic)));
    found.sort_by_key(|diagnostic| diagnostic.at);
    Ok(Checked { resources: resources.len(), report: Report::of_file(&declared.file, found) })
}

/// A gateway that reads its configuration from a file takes the standalone form alone.
fn wrong_form(provider: &Provider, form: Option<Form>) -> Option<Diagnostic> {
    let Provider::File(format) = provider else { return None };
    match (form?, format) {
        (Form::Standalone, _) => None,
        (Form::Adc, Format::Yaml) => Some(store::file::no_end_mark()),
        (Form::Adc, Format::Json) => {
            let message = "this is ADC's form, and the gateway reads APISIX's standalone form alone";
            Some(Diagnostic::error(codes::WRONG_FORM, message).hint("write it with `tidegate config sync`"))
        }
    }
}
