//! Finding prices that can be compared with each other.

use super::list::{MachinePrice, PriceList};
use bench::result::Machine;

/// What a machine costs, in a unit that all machines of one comparison share.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Price {
    /// Above 0.
    pub amount: f64,
    /// What `amount` counts.
    pub unit: Unit,
    /// How it follows from the list, where the list does not state it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub derived: Option<String>,
    /// Who says so.
    pub source: String,
    /// When it held; empty of a price that the user named.
    pub date: String,
    /// Whether that is more than a year ago.
    pub is_old: bool,
}

/// What a price counts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// USD an hour.
    UsdPerHour,
    /// Multiples of this family's price at equal size.
    Of(String),
}

impl PriceList {
    /// Prices for machines that are to be compared: all in USD, or, where the list has no USD for one of them, all as ratios
    /// to one family if their sizes are equal. A machine that neither way reaches has none.
    pub fn comparable(&self, machines: &[&Machine], today: jiff::civil::Date) -> Vec<Option<Price>> {
        let in_usd: Vec<Option<Price>> = machines.iter().map(|machine| self.usd(machine, today)).collect();
        if in_usd.iter().all(Option::is_some) {
            return in_usd;
        }
        let as_ratios = self.ratios_of(machines, today);
        let found = |prices: &[Option<Price>]| prices.iter().flatten().count();
        if found(&as_ratios) > found(&in_usd) { as_ratios } else { in_usd }
    }

    fn usd(&self, machine: &Machine, today: jiff::civil::Date) -> Option<Price> {
        if let Some((price, derived)) = self.stated(machine, &machine.family) {
            let scaled = derived.as_ref().map_or(1.0, |(factor, _)| *factor);
            return Some(Price {
                amount: price.usd_per_hour * scaled,
                unit: Unit::UsdPerHour,
                derived: derived.map(|(_, how)| how),
                source: price.source.clone(),
                date: price.date.as_str().to_owned(),
                is_old: price.date.is_old(today),
            });
        }
        self.ratios.iter().filter(|ratio| ratio.provider == machine.provider).find_map(|ratio| {
            let (other, factor) = if ratio.family == machine.family {
                (&ratio.to, ratio.ratio)
            } else if ratio.to == machine.family {
                (&ratio.family, 1.0 / ratio.ratio)
            } else {
                return None;
            };
            let (price, scaled) = self.stated(machine, other)?;
            let scale = scaled.as_ref().map_or(1.0, |(scale, _)| *scale);
            Some(Price {
                amount: price.usd_per_hour * scale * factor,
                unit: Unit::UsdPerHour,
                derived: Some(format!("{other}'s {} USD times {factor:.3}", price.usd_per_hour * scale)),
                source: format!("{}; {}", price.source, ratio.source),
                date: price.date.as_str().to_owned(),
                is_old: price.date.is_old(today) || ratio.date.is_old(today),
            })
        })
    }

    /// The entry for `family` in the machine's size; else one of another size, with the factor between their vCPUs.
    fn stated(&self, machine: &Machine, family: &str) -> Option<(&MachinePrice, Option<(f64, String)>)> {
        let vcpus = machine.vcpus;
        let mut of_family = self.prices.iter().filter(|price| {
            price.provider == machine.provider
                && price.family == family
                && (machine.region.is_none() || price.region.is_none() || price.region == machine.region)
        });
        let same =
            |price: &&MachinePrice| Some(&price.size) == machine.size.as_ref() || Some(price.vcpus) == vcpus;
        if let Some(price) = of_family.clone().find(same) {
            return Some((price, None));
        }
        let price = of_family.next()?;
        let factor = f64::from(vcpus?) / f64::from(price.vcpus);
        Some((
            price,
            Some((factor, format!("{} scaled from {} vCPUs by their number", price.size, price.vcpus))),
        ))
    }

    /// Every machine's price over one family's, which is 1.
    fn ratios_of(&self, machines: &[&Machine], today: jiff::civil::Date) -> Vec<Option<Price>> {
        let equal = machines.windows(2).all(|pair| {
            pair[0].vcpus == pair[1].vcpus
                && pair[0].size == pair[1].size
                && pair[0].provider == pair[1].provider
        });
        let anchor = self.ratios.iter().find(|ratio| {
            machines.iter().any(|machine| {
                ratio.provider == machine.provider && [&ratio.family, &ratio.to].contains(&&machine.family)
            })
        });
        let (true, Some(anchor)) = (equal, anchor) else { return vec![None; machines.len()] };
        let price_of = |family: &str| {
            let price = |amount: f64, ratio: &super::PriceRatio, derived: Option<String>| Price {
                amount,
                unit: Unit::Of(anchor.to.clone()),
                derived,
                source: ratio.source.clone(),
                date: ratio.date.as_str().to_owned(),
                is_old: ratio.date.is_old(today),
            };
            if family == anchor.to {
                return Some(price(1.0, anchor, None));
            }
            let stated = self.ratios.iter().find(|ratio| {
                ratio.provider == anchor.provider && ratio.to == anchor.to && ratio.family == family
            })?;
            Some(price(stated.ratio, stated, None))
        };
        machines.iter().map(|machine| price_of(&machine.family)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(provider: &str, family: &str, vcpus: Option<u32>) -> Machine {
        Machine { provider: provider.to_owned(), family: family.to_owned(), size: None, vcpus, region: None }
    }

    fn amounts(machines: &[Machine]) -> Vec<Option<(f64, Unit, bool)>> {
        let machines: Vec<&Machine> = machines.iter().collect();
        let prices = PriceList::shipped().unwrap().comparable(&machines, "2026-11-20".parse().unwrap());
        prices
            .into_iter()
            .map(|price| {
                price.map(|price| ((price.amount * 1e6).round() / 1e6, price.unit, price.derived.is_some()))
            })
            .collect()
    }

    #[test]
    fn stated_prices_are_taken_as_they_are() {
        let google = |family| machine("Google Cloud", family, Some(32));
        assert_eq!(
            amounts(&[google("T2A"), google("N2"), google("N2D")]),
            [1.232, 1.553888, 1.351872].map(|usd| Some((usd, Unit::UsdPerHour, false)))
        );
    }

    #[test]
    fn what_is_computed_is_marked() {
        let google = |family, vcpus| machine("Google Cloud", family, Some(vcpus));
        assert_eq!(
            amounts(&[google("T2A", 8), google("T2D", 32)]),
            [Some((0.308, Unit::UsdPerHour, true)), Some((1.368889, Unit::UsdPerHour, true))]
        );
    }

    #[test]
    fn ratios_serve_where_there_is_no_usd() {
        let azure = |family| machine("Microsoft Azure", family, None);
        let of = |family: &str, amount| Some((amount, Unit::Of(family.to_owned()), false));
        assert_eq!(amounts(&[azure("Ddsv5"), azure("Dpdsv5")]), [of("Ddsv5", 1.0), of("Ddsv5", 0.8)]);
        let google = |family| machine("Google Cloud", family, None);
        assert_eq!(amounts(&[google("T2A"), google("T2D")]), [of("T2D", 0.9), of("T2D", 1.0)]);
    }

    #[test]
    fn what_nobody_states_has_no_price() {
        assert_eq!(amounts(&[machine("Own", "desk", Some(2))]), [None]);
        assert_eq!(
            amounts(&[
                machine("Microsoft Azure", "Ddsv5", Some(4)),
                machine("Microsoft Azure", "Dpdsv5", Some(8))
            ]),
            [None, None]
        );
        assert_eq!(amounts(&[]), []);
    }
}
