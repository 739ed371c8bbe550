//! The list as it is written: `prices.toml`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::AgedDate;

/// The list that ships with the tool.
const SHIPPED: &str = include_str!("../../data/prices.toml");

/// The form that this version reads.
const SCHEMA: u32 = 1;

/// A list of prices and ratios.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// The form of the list: 1.
    schema: u32,
    /// Prices, in the order of preference.
    #[serde(default, rename = "price")]
    pub prices: Vec<MachinePrice>,
    /// Ratios between families.
    #[serde(default, rename = "ratio")]
    pub ratios: Vec<PriceRatio>,
}

/// What a machine costs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachinePrice {
    /// `Google Cloud`.
    pub provider: String,
    /// `T2A`.
    pub family: String,
    /// `standard-32`.
    pub size: String,
    /// Virtual CPUs, at least 1.
    pub vcpus: u32,
    /// The region that it holds for, where the source names one.
    pub region: Option<String>,
    /// USD an hour, above 0.
    pub usd_per_hour: f64,
    /// When it held.
    pub date: AgedDate,
    /// Who says so.
    pub source: String,
}

/// A family's price over another's at equal size.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceRatio {
    /// `Google Cloud`.
    pub provider: String,
    /// The family whose price this is.
    pub family: String,
    /// The family that is 1.
    pub to: String,
    /// Price over price, above 0.
    pub ratio: f64,
    /// When it held.
    pub date: AgedDate,
    /// Who says so.
    pub source: String,
}

/// Why a list was not read.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// The file system refused.
    #[error("{}: {error}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Not a list, or a broken one.
    #[error("{}: {message}", file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// What is wrong, with line or entry.
        message: String,
    },
}

impl PriceList {
    /// The list that ships with the tool.
    pub fn shipped() -> Result<PriceList, PriceError> {
        PriceList::parse(Path::new("prices.toml (shipped)"), SHIPPED)
    }

    /// A user's list.
    pub fn read(file: &Path) -> Result<PriceList, PriceError> {
        let text =
            fs::read_to_string(file).map_err(|error| PriceError::Io { file: file.to_owned(), error })?;
        PriceList::parse(file, &text)
    }

    fn parse(file: &Path, text: &str) -> Result<PriceList, PriceError> {
        let broken = |message: String| PriceError::Broken { file: file.to_owned(), message };
        let list: PriceList =
            toml::from_str(text).map_err(|error| broken(error.to_string().trim_end().to_owned()))?;
        if list.schema != SCHEMA {
            return Err(broken(format!(
                "at schema: {} is not {SCHEMA}, the form that this version reads",
                list.schema
            )));
        }
        for (index, price) in list.prices.iter().enumerate() {
            if price.vcpus == 0 {
                return Err(broken(format!("at price[{index}].vcpus: must be at least 1")));
            }
            if !(price.usd_per_hour.is_finite() && price.usd_per_hour > 0.0) {
                return Err(broken(format!("at price[{index}].usd_per_hour: must be above 0")));
            }
        }
        for (index, ratio) in list.ratios.iter().enumerate() {
            if !(ratio.ratio.is_finite() && ratio.ratio > 0.0) {
                return Err(broken(format!("at ratio[{index}].ratio: must be above 0")));
            }
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_list_has_the_studies_figures() {
        let list = PriceList::shipped().unwrap();
        let prices: Vec<(&str, f64)> =
            list.prices.iter().map(|price| (price.family.as_str(), price.usd_per_hour)).collect();
        assert_eq!(prices, [("T2A", 1.232), ("N2", 1.553888), ("N2D", 1.351872)]);
        let ratios: Vec<(&str, &str, f64)> =
            list.ratios.iter().map(|ratio| (ratio.family.as_str(), ratio.to.as_str(), ratio.ratio)).collect();
        assert_eq!(ratios, [("T2A", "T2D", 0.9), ("Dpdsv5", "Ddsv5", 0.8)]);
    }

    #[test]
    fn mistakes_name_file_and_place() {
        let price = "[[price]]\nprovider='P'\nfamily='F'\nsize='s'\nvcpus=2\ndate='2026'\nsource='S'\n";
        for (text, said) in [
            ("schema = 2".to_owned(), "p.toml: at schema: 2 is not 1"),
            ("schema = ".to_owned(), "p.toml: TOML parse error at line 1"),
            ("schema = 1\nprise = 2".to_owned(), "unknown field `prise`"),
            (
                format!("schema = 1\n{price}usd_per_hour = 0.0"),
                "p.toml: at price[0].usd_per_hour: must be above 0",
            ),
            (format!("schema = 1\n{price}usd_per_hour = nan"), "at price[0].usd_per_hour"),
            (format!("schema = 1\n{price}"), "missing field `usd_per_hour`"),
            (format!("schema = 1\n{price}usd_per_hour = 1").replace("2026", "26"), "not a date"),
        ] {
            let error = PriceList::parse(Path::new("p.toml"), &text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}\nshould contain: {said}");
        }
    }
}
