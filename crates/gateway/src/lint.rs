//! `tidegate lint`: of the running gateway, or of a file.

use crate::admin_client::AdminClient;
use crate::cli::LintArgs;
use crate::output::{checked, complain, say};
use crate::{declarative, launch, plan};
use anyhow::bail;
use config::Reach;
use document::Report;
use document::diagnostic::Style;
use std::io;
use std::path::Path;

/// Prints what is found.
///
/// # Errors
/// When there are errors, or with `--strict` warnings; when nothing can be looked at.
pub fn run(args: &LintArgs) -> anyhow::Result<()> {
    let report = match &args.file {
        Some(file) => of_file(args, file)?,
        None => Report::from_json(&AdminClient::new(&args.admin)?.get("/lint")?),
    };
    if args.admin.json {
        say(report.to_json())?;
    } else if !report.is_empty() {
        say(Style::of(&io::stdout()).text(&report))?;
    }
    if report.errors() > 0 || (args.strict && report.warnings() > 0) {
        bail!("lint: {}", report.summary());
    }
    if !args.admin.json {
        complain(report.summary());
    }
    Ok(())
}

fn of_file(args: &LintArgs, file: &Path) -> anyhow::Result<Report> {
    let config = launch::config_file(&args.admin.common);
    let settings = checked(launch::load(config.as_deref(), Reach::Anyone), true)?;
    let declared = declarative::read_or_refuse(file, args.admin.json)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let registry = plan::registry(&settings, &launch::data_dir(&args.admin.common)?)?;
    let found = admin::lint::lint(&registry, &declared.resources(), now);
    Ok(Report { diagnostics: found.into_iter().map(|diagnostic| declared.placed(diagnostic)).collect() })
}
