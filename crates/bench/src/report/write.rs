//! `tidegate bench report`: reads files, writes files.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::document::{Block, Document};
use super::gather::{Prices, gather};
use super::{ReportArgs, compose, html, markdown};
use crate::prices::{PriceError, PriceList};
use crate::result::{FileError, ResultFile};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A result file could not be read.
    #[error(transparent)]
    Result(#[from] FileError),
    /// The price list could not be read.
    #[error(transparent)]
    Prices(#[from] PriceError),
    /// Nobody is called what `--baseline` asks for.
    #[error("--baseline {wanted}: nothing of that name; there is {}", names.join(", "))]
    NoBaseline {
        /// What was asked for.
        wanted: String,
        /// What there is.
        names: Vec<String>,
    },
    /// Nobody is called what `--price-per-hour` names.
    #[error("--price-per-hour {wanted}=..: nothing of that name; there is {}", names.join(", "))]
    NoPriced {
        /// What was asked for.
        wanted: String,
        /// What there is.
        names: Vec<String>,
    },
    /// Two files have nothing to compare.
    #[error("{}", message)]
    NothingToCompare {
        /// Why.
        message: String,
    },
    /// A file could not be written.
    #[error("{}: {error}", file.display())]
    Write {
        /// The file or folder.
        file: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The terminal or pipe could not be written to.
    #[error("standard output: {0}")]
    Output(std::io::Error),
}

impl ReportError {
    /// Whether the command line is wrong, and not a file or the system.
    pub fn is_usage(&self) -> bool {
        matches!(self, ReportError::NoBaseline { .. } | ReportError::NoPriced { .. })
    }
}

/// Makes the report. Its tables go to `out` as Markdown (or all of it as JSON), the names of written files to `notes`.
pub fn run(args: &ReportArgs, out: &mut dyn Write, notes: &mut dyn Write) -> Result<(), ReportError> {
    let mut files: Vec<(String, ResultFile)> = args
        .files
        .iter()
        .map(|file| Ok((file.display().to_string(), ResultFile::read(file)?)))
        .collect::<Result<_, FileError>>()?;
    for study in &args.published {
        files.extend(study.files()?);
    }
    let prices = match (&args.prices, args.price_per_hour.is_empty()) {
        (Some(file), _) => Prices::List(PriceList::read(file)?),
        (None, false) => Prices::Named(args.price_per_hour.clone()),
        (None, true) => Prices::List(PriceList::shipped()?),
    };
    let report = gather(&files, args.baseline.as_deref(), &prices, jiff::Zoned::now().date())?;
    if args.json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|error| ReportError::Output(error.into()))?;
        return writeln!(out, "{text}").map_err(ReportError::Output);
    }
    let document = compose::document(&report);
    write_folder(&args.out, &document)?;
    out.write_all(markdown::write(&document, false).as_bytes()).map_err(ReportError::Output)?;
    let folder = args.out.display();
    writeln!(notes, "\nWritten: {folder}/report.html, {folder}/report.md and its pictures")
        .map_err(ReportError::Output)
}

fn write_folder(folder: &Path, document: &Document) -> Result<(), ReportError> {
    let failed = |file: &Path| {
        let file = file.to_owned();
        move |error| ReportError::Write { file, error }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let pictures = document.blocks.iter().filter_map(|block| match block {
        Block::Picture(picture) => Some((format!("{}.svg", picture.id), picture.standalone())),
        _ => None,
    });
    let pages = [
        ("report.md".to_owned(), markdown::write(document, true)),
        ("report.html".to_owned(), html::write(document)),
    ];
    for (name, text) in pages.into_iter().chain(pictures) {
        let file = folder.join(name);
        fs::write(&file, text).map_err(failed(&file))?;
    }
    Ok(())
}
