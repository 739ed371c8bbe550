//! `tidegate config`: the whole configuration as a file, in the form of APISIX's standalone mode or of ADC.

mod accept;
mod dump;
mod names;
mod place;
mod read;
mod scope;
mod shape;
mod sync;
mod validate;

use crate::cli::{ConfigCommand, SchemaFormat};
use crate::output::{say, show};
use admin::Resource;
use anyhow::{Context, bail};
use config::table::render;
use document::Format;
use document::limits::BYTES_MAX;
use document::{Diagnostic, Report};
use place::Origin;
use std::collections::HashMap;
use std::path::Path;
pub use validate::check;

/// What a file declares.
#[derive(Debug)]
pub struct Declared {
    file: String,
    /// The form of the file; `None` where it could not be parsed.
    form: Option<read::Form>,
    /// Each resource with its origin.
    items: Vec<(Resource, Origin)>,
    /// The index of each resource by its key.
    index: HashMap<String, usize>,
}

impl Declared {
    /// The resources, in the order of the file.
    pub fn resources(&self) -> Vec<Resource> {
        self.items.iter().map(|(resource, _)| resource.clone()).collect()
    }

    /// Adds file and position to a diagnostic about one of the resources.
    pub fn placed(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        let item = self.index.get(&diagnostic.resource).and_then(|index| self.items.get(*index));
        if let Some((_, origin)) = item {
            diagnostic.at = Some(origin.locate(&diagnostic.path));
            diagnostic.file = Some(self.file.as_str().into());
        }
        diagnostic
    }
}

/// Does what a subcommand of `config` says.
///
/// # Errors
/// When that fails; what is wrong has then been printed.
pub fn run(command: &ConfigCommand) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Dump(args) => dump::run(args),
        ConfigCommand::Diff(args) => sync::run(args, true),
        ConfigCommand::Sync(args) => sync::run(args, args.dry_run),
        ConfigCommand::Validate(args) => validate::run(args),
        ConfigCommand::Accept(args) => accept::run(args),
        ConfigCommand::Schema(args) => say(match args.format {
            SchemaFormat::JsonSchema => format!("{:#}", render::json_schema()),
            SchemaFormat::Markdown => render::markdown().trim_end().to_owned(),
            SchemaFormat::Example => render::example().trim_end().to_owned(),
        }),
    }
}

/// Reads a file with the variables of this process. If something is wrong with it, that is printed, as JSON to stdout with
/// `json`.
///
/// # Errors
/// When it can't be read, or something is wrong with it.
pub fn read_or_refuse(path: &Path, json: bool) -> anyhow::Result<Declared> {
    let (declared, mistakes) = load(path)?;
    if mistakes.is_empty() {
        return Ok(declared);
    }
    let report = Report::of_file(&declared.file, mistakes);
    if json {
        say(report.to_json())?;
    } else {
        show(&report);
    }
    bail!("the file is refused: {}", report.summary())
}

/// The store keys of the resources in a file's text, and what is wrong with it: an entry for fuzz targets.
#[doc(hidden)]
#[must_use]
pub fn keys_of(text: &str) -> (Vec<String>, Vec<Diagnostic>) {
    let read::Document { items, mistakes, .. } = read::read(text, Format::Yaml, &|_| None);
    (items.into_iter().map(|(resource, _)| resource.key).collect(), mistakes)
}

/// Reads a file, and says what is wrong with it.
fn load(path: &Path) -> anyhow::Result<(Declared, Vec<Diagnostic>)> {
    let file = path.display().to_string();
    let text = stdx::file::read_argument(path, BYTES_MAX).with_context(|| format!("{file} can't be read"))?;
    let lookup = |name: &str| std::env::var(name).ok();
    let read::Document { form, items, mistakes } = read::read(&text, Format::of_path(path), &lookup);
    let keys = items.iter().enumerate().map(|(index, (resource, _))| (resource.key.clone(), index));
    let index = keys.collect();
    Ok((Declared { file, form, items, index }, mistakes))
}
