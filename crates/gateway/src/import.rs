//! `tidegate import`: other servers' configurations, translated into files of ours, with a verdict for each directive.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use document::Report;
use import::{Note, Translation, Verdict};
use serde_json::{Value, json};

use crate::output::say;

/// Whose configuration is translated.
#[derive(Debug, Clone, Subcommand)]
pub enum Source {
    /// nginx.conf with its includes: servers, locations, files, proxies, certificates
    Nginx(NginxArgs),
}

/// What translating an nginx configuration takes.
#[derive(Debug, Clone, Args)]
pub struct NginxArgs {
    /// The nginx configuration
    pub file: PathBuf,
    /// Write config.yaml and apisix.yaml into this folder
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write over files that are there
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Fail, and write nothing, where a directive is refused
    #[arg(long)]
    pub strict: bool,
    /// Print the verdicts as JSON
    #[arg(long)]
    pub json: bool,
}

/// The verdicts in the order in which they are counted up.
const VERDICTS: [Verdict; 4] = [Verdict::Taken, Verdict::Equivalent, Verdict::Ignored, Verdict::Refused];

/// Translates, prints the verdicts and writes the files.
///
/// # Errors
/// A file that can't be read or written; with `strict` also where something is refused, after the verdicts are printed.
pub fn execute(from: &Source) -> anyhow::Result<()> {
    let Source::Nginx(args) = from;
    let translation = match import::nginx::translate(&args.file) {
        Ok(translation) => translation,
        Err(mistake) if args.json => {
            say(Report { diagnostics: vec![*mistake] }.to_json())?;
            bail!("{} is refused: 1 error", args.file.display());
        }
        Err(mistake) => bail!("{mistake}"),
    };
    let refused = args.strict && translation.refusals().next().is_some();
    // Before a word is said of success.
    let written = match &args.out {
        Some(folder) if !refused => write(&translation, folder, args)?,
        _ => Vec::new(),
    };
    let report = if args.json { as_json(&translation, &written) } else { as_text(&translation, &written) };
    io::stdout().write_all(report.as_bytes()).context("stdout is closed")?;
    if refused {
        bail!("{} has directives that are refused", args.file.display());
    }
    Ok(())
}

/// Translates an nginx configuration.
///
/// # Errors
/// A mistake of its language, or a file that can't be read.
pub fn translate(file: &Path) -> anyhow::Result<Translation> {
    import::nginx::translate(file).map_err(|mistake| anyhow!("{mistake}"))
}

fn as_text(translation: &Translation, written: &[PathBuf]) -> String {
    let mut text = String::new();
    for note in &translation.notes {
        let _ = writeln!(text, "{note}");
    }
    let counts: Vec<String> = VERDICTS
        .iter()
        .map(|verdict| format!("{} {}", count(&translation.notes, *verdict), verdict.as_str()))
        .collect();
    let _ = writeln!(text, "\n{} directives: {}", translation.notes.len(), counts.join(", "));
    for path in written {
        let _ = writeln!(text, "written: {}", path.display());
    }
    if let Some(config) = written.first() {
        let _ = writeln!(text, "\nStart with: tidegate start -c {}", config.display());
    }
    text
}

fn as_json(translation: &Translation, written: &[PathBuf]) -> String {
    let note = |note: &Note| {
        json!({
            "file": note.file.display().to_string(), "line": note.line, "column": note.column, "directive": note.directive,
            "verdict": note.verdict.as_str(), "reason": note.reason,
        })
    };
    let summary: serde_json::Map<String, Value> = VERDICTS
        .iter()
        .map(|verdict| (verdict.as_str().to_owned(), json!(count(&translation.notes, *verdict))))
        .collect();
    let written: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
    let notes: Vec<Value> = translation.notes.iter().map(note).collect();
    let mut shown =
        Report { diagnostics: translation.notes.iter().filter_map(Note::diagnostic).collect() }.to_json();
    shown["directives"] = notes.into();
    shown["summary"] = summary.into();
    shown["written"] = written.into();
    format!("{shown:#}\n")
}

fn count(notes: &[Note], verdict: Verdict) -> usize {
    notes.iter().filter(|note| note.verdict == verdict).count()
}

/// Writes both files; their paths.
fn write(translation: &Translation, folder: &Path, args: &NginxArgs) -> anyhow::Result<Vec<PathBuf>> {
    let source = args.file.display();
    let mut config = translation.config.clone();
    // The resources are read from the file beside it, and followed as it changes.
    config["deployment"] = json!({ "role": "data_plane", "role_data_plane": { "config_provider": "yaml" } });
    let config = format!("# Translated from {source}.\n{}", yaml(&config)?);
    let resources = format!(
        "# Translated from {source}. Changes take effect when the file is saved.\n{}#END\n",
        yaml(&translation.resources)?
    );
    fs::create_dir_all(folder).with_context(|| format!("{} can't be made", folder.display()))?;
    let files = [(folder.join("config.yaml"), config), (folder.join("apisix.yaml"), resources)];
    if let Some((there, _)) = files.iter().find(|(path, _)| !args.force && path.exists()) {
        bail!("{} is there already: name another folder, or write over it with --force", there.display());
    }
    for (path, text) in &files {
        write_private(path, text).with_context(|| format!("{} can't be written", path.display()))?;
    }
    Ok(files.map(|(path, _)| path).into())
}

fn yaml(value: &Value) -> anyhow::Result<String> {
    let mut text = serde_saphyr::to_string(value).context("the translation can't be written as YAML")?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// For the owner's eyes alone: certificates' keys stand in it.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::file::{Document, Format};

    const CONF: &str = "events { }\nhttp { server { listen 8080; server_name a.example; root /srv;\n\
                        location /api/ { proxy_pass http://127.0.0.1:9000; }\n perl_set $a b; } }\n";

    fn args(folder: &Path, line: &str) -> NginxArgs {
        use clap::Parser;
        fs::write(folder.join("nginx.conf"), CONF).unwrap();
        let line = format!("tidegate import nginx {0}/nginx.conf {line}", folder.display());
        let line = line.replace("DIR", &folder.display().to_string());
        let cli = crate::cli::Cli::try_parse_from(line.split_whitespace()).unwrap();
        let crate::cli::Command::Import { from: Source::Nginx(args) } = cli.command else { panic!() };
        args
    }

    #[test]
    fn what_is_written_is_what_was_translated() {
        let folder = tempfile::tempdir().unwrap();
        let args = args(folder.path(), "-o DIR/out");
        let translation = translate(&args.file).unwrap();
        let written = write(&translation, &folder.path().join("out"), &args).unwrap();
        let config = fs::read_to_string(&written[0]).unwrap();
        let read: Value = serde_saphyr::from_str(&config).unwrap();
        assert_eq!(read["apisix"], translation.config["apisix"]);
        assert!(config.contains("\ndeployment:\n  role: data_plane\n"), "{config}");
        let resources = fs::read_to_string(&written[1]).unwrap();
        let document = Document::read(&resources, Format::Yaml, &|_| None).unwrap();
        assert_eq!(
            document,
            Document {
                places: document.places.clone(),
                ..Document::of_value(translation.resources.as_object().unwrap().clone(),)
            }
        );
        assert!(resources.contains("\nroutes:\n"), "{resources}");
        let again = write(&translation, &folder.path().join("out"), &args).unwrap_err();
        assert!(again.to_string().contains("--force"));
    }

    #[test]
    fn each_directive_is_told_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let args = args(folder.path(), "");
        let translation = translate(&args.file).unwrap();
        let text = as_text(&translation, &[]);
        assert!(text.contains("nginx.conf:4:2: refused: perl_set $a b: "), "{text}");
        assert!(text.lines().last().unwrap().ends_with(" 1 refused"), "{text}");
        let parsed: Value = serde_json::from_str(&as_json(&translation, &[])).unwrap();
        assert_eq!(parsed["summary"]["refused"], 1);
        assert_eq!(parsed["directives"].as_array().unwrap().len(), translation.notes.len());
    }

    #[test]
    fn strict_writes_nothing_where_something_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let args = args(folder.path(), "-o DIR/out --strict");
        assert!(execute(&Source::Nginx(args)).is_err());
        assert!(!folder.path().join("out").exists());
    }
}
