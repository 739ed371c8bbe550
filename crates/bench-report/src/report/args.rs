//! The command lines of `report` and `compare`.

use std::path::PathBuf;
use std::str::FromStr;

use super::Study;

/// Writes a comparison report from result files.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  tidegate bench report tidegate.json nginx.json --baseline nginx
  tidegate bench report --published google --published azure --baseline T2D
  tidegate bench report T2D.json T2A.json --out google --price-per-hour T2D=1.37 --price-per-hour T2A=1.23
  tidegate bench report results.json --json | jq '.groups[].rows[] | {name, requests_per_second}'")]
pub struct ReportArgs {
    /// Result files of `tidegate bench`, measured or published
    #[arg(required_unless_present = "published", value_name = "RESULT.json")]
    pub files: Vec<PathBuf>,
    /// Published figures that ship with this version; may be repeated
    #[arg(long, value_enum, value_name = "STUDY")]
    pub published: Vec<Study>,
    /// The name that the others are compared to; without it the first of each scenario
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// A price list in the form of prices.toml, instead of the one that ships with this version
    #[arg(long, value_name = "FILE", conflicts_with = "price_per_hour")]
    pub prices: Option<PathBuf>,
    /// A price in USD an hour, for all (1.23) or for one name (T2A=1.23); may be repeated
    #[arg(long, value_name = "[NAME=]USD")]
    pub price_per_hour: Vec<NamedPrice>,
    /// Where report.md, report.html and the pictures are written
    #[arg(long, value_name = "FOLDER", default_value = "bench-report")]
    pub out: PathBuf,
    /// Print the report as JSON and write no files
    #[arg(long, conflicts_with = "out")]
    pub json: bool,
}

/// Says whether two sets of runs differ, and by how much.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  tidegate bench compare before.json after.json
  tidegate bench compare before.json after.json --json | jq '.comparisons[0].significant'

The ratio is the second file's over the first's. With fewer than four runs a side no difference can reach p < 0.05.")]
pub struct CompareArgs {
    /// The file that is compared to
    #[arg(value_name = "A.json")]
    pub before: PathBuf,
    /// The file that is compared
    #[arg(value_name = "B.json")]
    pub after: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A price that the user names.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedPrice {
    /// Whose price; nothing: everyone's.
    pub name: Option<String>,
    /// USD an hour, above 0.
    pub usd_per_hour: f64,
}

impl FromStr for NamedPrice {
    type Err = String;

    fn from_str(text: &str) -> Result<NamedPrice, String> {
        let (name, usd) = match text.rsplit_once('=') {
            Some((name, usd)) => (Some(name.to_owned()), usd),
            None => (None, text),
        };
        let usd_per_hour: f64 = usd.trim().parse().map_err(|_| format!("`{usd}` is not a number"))?;
        if !(usd_per_hour.is_finite() && usd_per_hour > 0.0) {
            return Err("a price must be above 0".to_owned());
        }
        Ok(NamedPrice { name, usd_per_hour })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_for_all_and_for_one() {
        for (text, expected) in [
            ("1.23", Some((None, 1.23))),
            ("T2A=1.232", Some((Some("T2A"), 1.232))),
            ("a=b=2", Some((Some("a=b"), 2.0))),
            ("T2A=", None),
            ("0", None),
            ("-1", None),
            ("inf", None),
            ("nan", None),
        ] {
            let price = text.parse::<NamedPrice>().ok().map(|price| (price.name, price.usd_per_hour));
            assert_eq!(price, expected.map(|(name, usd)| (name.map(str::to_owned), usd)), "{text}");
        }
    }
}
