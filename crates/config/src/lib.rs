//! `config.yaml`: APISIX's file, read into [`Settings`].
//!
//! [`load`] reads a file and [`read_text`] a text. The text becomes a tree with positions, variables are replaced, keys
//! are compared with those of the [`table`], and then each section reads its part. All mistakes are collected; only a
//! syntax error ends the reading at once.

mod reader;
mod sections;
pub mod settings;
pub mod table;

use std::io;
use std::path::Path;

use document::variables::{self, Lookup};
use document::{Diagnostic, Found, Report, codes};
pub use settings::Settings;

/// Where the file is looked for when none is named.
pub const DEFAULT_PATH: &str = "conf/config.yaml";

/// No configuration is larger: 4 MiB would be a plugin list of 200,000 lines.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Whom the Admin API of these settings will answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// The clients that the settings allow.
    #[default]
    Anyone,
    /// This machine alone, whatever the settings say: keys that everybody knows do no harm.
    ThisMachine,
}

/// What a configuration is read with besides its text.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The environment's variables.
    pub variables: Lookup<'a>,
    /// Whom the Admin API will answer.
    pub reach: Reach,
    /// The plugins that the binary has.
    pub built_in: BuiltIn<'a>,
}

/// The names of built-in plugins. An empty list leaves the names in the configuration unchecked.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn<'a> {
    /// Plugins for HTTP.
    pub plugins: &'a [String],
    /// Plugins for streams.
    pub stream_plugins: &'a [String],
    /// Returns whether, with these settings, a module in Lua has the name; the last argument is true for streams.
    pub in_lua: fn(&settings::Lua, &str, bool) -> bool,
}

impl Default for BuiltIn<'_> {
    fn default() -> Self {
        Self { plugins: &[], stream_plugins: &[], in_lua: |_, _, _| false }
    }
}

impl<'a> Context<'a> {
    /// A context with these variables alone.
    #[must_use]
    pub fn new(variables: Lookup<'a>) -> Self {
        Self { variables, reach: Reach::default(), built_in: BuiltIn::default() }
    }
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// Settings, and the warnings about them.
#[derive(Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// Warnings alone.
    pub warnings: Report,
}

/// Reads the file at `path`, or the defaults if `path` is `None`.
///
/// # Errors
/// Every mistake of the file, with its warnings.
pub fn load(path: Option<&Path>, context: &Context<'_>) -> Result<Loaded, Report> {
    let Some(path) = path else { return read("the environment", "", context) };
    let file = path.display().to_string();
    match stdx::file::read_text(path, MAX_FILE_BYTES) {
        Ok(text) => read(&file, &text, context),
        Err(error) => {
            let message = format!("the configuration can't be read: {error}");
            let hint = match error.kind() {
                io::ErrorKind::NotFound => {
                    "name another file with -c, or leave -c out to start with the defaults"
                }
                io::ErrorKind::PermissionDenied => {
                    "make the file readable for the user who starts the gateway"
                }
                _ => "it has to be a regular file with UTF-8 text",
            };
            let unreadable = Diagnostic::error(codes::UNREADABLE_FILE, message).hint(hint);
            Err(Report::of_file(&file, vec![unreadable]))
        }
    }
}

/// Reads a configuration from its text, with these variables alone. `file` is its name in messages.
///
/// # Errors
/// Every mistake of the text, with its warnings.
pub fn read_text(file: &str, text: &str, variables: Lookup<'_>) -> Result<Loaded, Report> {
    read(file, text, &Context::new(variables))
}

fn read(file: &str, text: &str, context: &Context<'_>) -> Result<Loaded, Report> {
    let mut root = match document::parse_yaml(text) {
        Ok(root) => root,
        Err(mistake) => return Err(Report::of_file(file, vec![*mistake])),
    };
    let found = Found::default();
    variables::in_tree(&mut root, "", context.variables, &mut |at, path, name| {
        found.add(variables::not_set(at, name).path(path));
    });
    reader::keys::check(&root, &found);
    let settings = sections::read(&reader::Section::root(&root, &found), context, &found);
    let report = Report::of_file(file, found.into_sorted());
    if report.errors() > 0 { Err(report) } else { Ok(Loaded { settings, warnings: report }) }
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
