//! `tidegate config validate`: everything that the Admin API checks, without one.

use super::load;
use super::read::Form;
use crate::cli::ValidateArgs;
use crate::command::{checked, complain, say};
use crate::{launch, plan};
use anyhow::{Context, bail};
use config::settings::provider::Provider;
use config::{Problem, Reach, Report, Severity};
use document::Format;
use serde_json::{Value, json};
use std::sync::Arc;

/// Checks a file and prints what is wrong with it.
///
/// # Errors
/// When something is.
pub(crate) fn run(args: &ValidateArgs) -> anyhow::Result<()> {
    let config = launch::config_file(&args.common);
    let settings = checked(launch::load(config.as_deref(), Reach::Anyone), true)?;
    let (declared, mut problems) = load(&args.file)?;
    problems.extend(form_problem(&settings.provider, declared.form));
    let resources = declared.resources();
    let registry = Arc::new(plan::registry(&settings, &launch::data_dir(&args.common)?)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the check can't run")?;
    for fault in runtime.block_on(admin::check_whole(registry, &resources)) {
        let Some((resource, origin)) = declared.items.get(fault.index) else { continue };
        let at = Some(origin.locate(&fault.path));
        let path = format!("{}{}", resource.key, fault.path);
        problems.push(match fault.refused || args.strict {
            true => Problem::error(at, path, fault.message),
            false => Problem::warning(at, path, fault.message),
        });
    }
    problems.sort_by_key(|problem| problem.at);
    let report = Report { file: declared.file, problems };
    let errors = report.errors();
    if args.json {
        let list: Vec<Value> = report.problems.iter().map(shown).collect();
        say(json!({ "file": report.file, "resources": resources.len(), "errors": errors, "list": list }))?;
    } else if !report.problems.is_empty() {
        complain(&report);
    }
    match errors {
        0 if args.json => Ok(()),
        0 => say(format_args!("{} is valid: {} resources", report.file, resources.len())),
        1 => bail!("the file is refused: 1 error"),
        _ => bail!("the file is refused: {errors} errors"),
    }
}

/// A gateway that reads its configuration from a file takes the standalone form alone.
fn form_problem(provider: &Provider, form: Option<Form>) -> Option<Problem> {
    let Provider::File(format) = provider else { return None };
    let message = match (form?, format) {
        (Form::Standalone, _) => return None,
        (Form::Adc, Format::Yaml) => "the file doesn't end in a line with #END, so the gateway refuses it",
        (Form::Adc, Format::Json) => "this is ADC's form; the gateway reads APISIX's standalone form alone",
    };
    Some(Problem::error(None, "", message))
}

fn shown(problem: &Problem) -> Value {
    json!({
        "severity": if problem.severity == Severity::Error { "error" } else { "warning" },
        "line": problem.at.map(|at| at.line),
        "column": problem.at.map(|at| at.column),
        "path": problem.path,
        "message": problem.message,
        "hint": problem.hint,
    })
}
