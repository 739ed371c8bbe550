//! `config.yaml`: APISIX's file, read into [`Settings`].
//!
//! The text becomes a tree with positions ([`yaml`]), variables are put in ([`mod@env`]), keys are compared with those there
//! are ([`keys`], [`table`]), and then each section reads its part through [`read`]. Mistakes are collected all the way; only a
//! syntax error ends at once.

pub mod centre;
pub mod data_encryption;
pub mod defaults;
pub mod env;
pub mod keys;
pub mod problem;
pub mod read;
mod restart;
mod sections;
pub mod settings;
pub mod table;
pub mod units;
pub mod yaml;

use std::io;
use std::path::Path;

pub use problem::{Problem, Problems, Report, Severity};
pub use settings::Settings;

/// Where the file is looked for when none is named.
pub const DEFAULT_PATH: &str = "conf/config.yaml";

/// No configuration is larger: 4 MiB would be a plugin list of 200,000 lines.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Whom the Admin API of these settings will answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Whoever the settings say.
    Anyone,
    /// This machine alone, whatever the settings say: keys that everybody knows do no harm.
    ThisMachine,
}

/// Settings, and what the operator should know about them all the same.
#[derive(Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// Warnings alone.
    pub warnings: Report,
}

/// Reads `path`, or the defaults where it is `None`. The error holds every mistake of the file, with its warnings.
pub fn load(path: Option<&Path>, lookup: env::Lookup<'_>, reach: Reach) -> Result<Loaded, Report> {
    let Some(path) = path else { return read_for(reach, "the environment", "", lookup) };
    let file = path.display().to_string();
    match stdx::file::read_text(path, MAX_FILE_BYTES) {
        Ok(text) => read_for(reach, &file, &text, lookup),
        Err(error) => {
            let problem = Problem::error(None, "", format!("the configuration can't be read: {error}"));
            let hint = match error.kind() {
                io::ErrorKind::NotFound => {
                    "name another file with -c, or leave -c out to start with the defaults"
                }
                io::ErrorKind::PermissionDenied => {
                    "make the file readable for the user who starts the gateway"
                }
                _ => "it has to be a regular file with UTF-8 text",
            };
            Err(Report { file, problems: vec![problem.hint(hint)] })
        }
    }
}

/// Reads a configuration from its text. `file` is the name to use in messages.
pub fn read_text(file: &str, text: &str, lookup: env::Lookup<'_>) -> Result<Loaded, Report> {
    read_for(Reach::Anyone, file, text, lookup)
}

fn read_for(reach: Reach, file: &str, text: &str, lookup: env::Lookup<'_>) -> Result<Loaded, Report> {
    let mut root = match yaml::parse(text) {
        Ok(root) => root,
        Err(problem) => return Err(Report { file: file.into(), problems: vec![problem] }),
    };
    let problems = Problems::default();
    env::substitute(&mut root, "", lookup, &problems);
    keys::check(&root, &problems);
    let settings = sections::read(&read::Section::root(&root, &problems), lookup, reach, &problems);
    let report = Report { file: file.into(), problems: problems.into_sorted() };
    if report.errors() > 0 { Err(report) } else { Ok(Loaded { settings, warnings: report }) }
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
