//! `tidegate bench report`: reads files, writes files.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::document::{Block, Document};
use super::error::ReportError;
use super::gather::{Prices, gather};
use super::{ReportArgs, compose, html, markdown};
use crate::prices::PriceList;
use bench::result::{FileError, ResultFile};

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
