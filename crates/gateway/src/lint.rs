//! `tidegate lint`: of the running gateway, or of a file.

use crate::admin_client::AdminClient;
use crate::cli::LintArgs;
use crate::command::{checked, complain, say};
use crate::{declarative, launch, plan};
use anyhow::bail;
use config::Reach;
use serde_json::{Value, json};
use std::path::Path;

/// Prints what is found.
///
/// # Errors
/// When there are errors, or with `--strict` warnings; when nothing can be looked at.
pub fn run(args: &LintArgs) -> anyhow::Result<()> {
    let found = match &args.file {
        Some(file) => of_file(args, file)?,
        None => AdminClient::new(&args.admin)?.get("/lint")?,
    };
    if args.admin.json {
        say(&found)?;
    } else {
        for finding in found["list"].as_array().into_iter().flatten() {
            say(line(finding))?;
        }
    }
    let count = |name: &str| found[name].as_u64().unwrap_or_default();
    let (errors, warnings) = (count("errors"), count("warnings"));
    if errors > 0 || (args.strict && warnings > 0) {
        bail!("lint: {errors} errors, {warnings} warnings");
    }
    if !args.admin.json {
        complain(format_args!("{errors} errors, {warnings} warnings"));
    }
    Ok(())
}

fn of_file(args: &LintArgs, file: &Path) -> anyhow::Result<Value> {
    let config = launch::config_file(&args.admin.common);
    let settings = checked(launch::load(config.as_deref(), Reach::Anyone), true)?;
    let declared = declarative::read_or_refuse(file)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let registry = plan::registry(&settings, &launch::data_dir(&args.admin.common)?)?;
    let found = admin::lint::lint(&registry, &declared.resources(), now);
    let list: Vec<Value> = found
        .iter()
        .map(|finding| {
            let mut line = finding.to_json("");
            line["place"] = declared.place_of(&finding.key, &finding.path).into();
            line
        })
        .collect();
    let count = |severity: &str| list.iter().filter(|finding| finding["severity"] == severity).count();
    Ok(json!({ "errors": count("error"), "warnings": count("warning"), "list": list }))
}

fn line(finding: &Value) -> String {
    let text = |name: &str| finding[name].as_str().unwrap_or_default();
    let place = if text("place").is_empty() { String::new() } else { format!("{}: ", text("place")) };
    format!(
        "{place}{}: {}{}: {} [{}]\n  {}",
        text("severity"),
        text("key"),
        text("path"),
        text("message"),
        text("rule"),
        text("advice")
    )
}
