//! Why there is no report.

use std::path::PathBuf;

use crate::prices::PriceError;
use bench::result::FileError;

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
