//! What machines cost per hour, with source and date.
//!
//! A list has two kinds of entries: prices in USD, and ratios between families where a source states nothing more. What is
//! computed from an entry (a ratio applied, a size scaled) is marked as derived wherever it is shown.

mod age;
mod list;
mod lookup;

pub use age::AgedDate;
pub use list::{MachinePrice, PriceError, PriceList, PriceRatio};
pub use lookup::{Price, Unit};
