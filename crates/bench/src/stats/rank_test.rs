//! The Mann-Whitney U test: do the figures of one set tend to be larger than those of another?
//!
//! It looks at ranks alone, so that one run disturbed by a neighbour counts as one run, however far out it lies. Mann and
//! Whitney, Annals of Mathematical Statistics 18 (1947).

/// Up to this many figures in both sets together the probability is exact: every way to split the ranks is counted.
const EXACT_UP_TO: usize = 40;

/// What the test found.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct MannWhitney {
    /// Pairs in which the first set's figure is the larger, equal ones counted half: 0 to `n1 * n2`.
    pub u: f64,
    /// The probability of a difference at least this large if both sets were drawn from one, both sides, 0 to 1.
    pub p: f64,
    /// The share of pairs in which the first set's figure is the larger (common language effect size), 0 to 1; 0.5 is none.
    pub effect: f64,
    /// Whether `p` is exact and not the normal approximation.
    pub exact: bool,
}

impl MannWhitney {
    /// The chance of an error that the field accepts.
    pub const LEVEL: f64 = 0.05;

    /// Whether the sets differ at [`LEVEL`](MannWhitney::LEVEL).
    pub fn is_significant(&self) -> bool {
        self.p < Self::LEVEL
    }

    /// The smallest `p` that sets of these sizes can reach if no figures are equal: with three against three it is 0.1, so that no difference at
    /// all would be significant, and a report must say so instead of "no difference".
    pub fn smallest_p(these: usize, those: usize) -> f64 {
        let all = these + those;
        // 2 / C(all, these), built up without large numbers.
        let ways = (1..=these.min(those)).fold(1.0, |ways, k| ways * (all + 1 - k) as f64 / k as f64);
        (2.0 / ways).min(1.0)
    }
}

/// Compares two sets of finite figures; nothing if one is empty.
pub fn mann_whitney(these: &[f64], those: &[f64]) -> Option<MannWhitney> {
    let pairs = these.len() as f64 * those.len() as f64;
    if pairs == 0.0 {
        return None;
    }
    let ranked = Ranked::of(these, those);
    let u = ranked.u(these.len());
    let exact = these.len() + those.len() <= EXACT_UP_TO;
    let p = match exact {
        true => exact_p(&ranked.doubled_ranks, these.len(), ranked.doubled_sum),
        false => normal_p(u, these.len(), those.len(), ranked.tie_term),
    };
    Some(MannWhitney { u, p, effect: u / pairs, exact })
}

/// All figures' ranks; equal figures share the mean of their ranks, so ranks are kept doubled to stay whole.
struct Ranked {
    doubled_ranks: Vec<usize>,
    /// The first set's ranks together, doubled.
    doubled_sum: usize,
    /// The sum of `t^3 - t` over groups of `t` equal figures.
    tie_term: f64,
}

impl Ranked {
    fn of(these: &[f64], those: &[f64]) -> Ranked {
        let firsts = these.iter().map(|value| (*value, true));
        let mut all: Vec<(f64, bool)> = firsts.chain(those.iter().map(|value| (*value, false))).collect();
        all.sort_by(|left, right| left.0.total_cmp(&right.0));
        let mut ranked =
            Ranked { doubled_ranks: Vec::with_capacity(all.len()), doubled_sum: 0, tie_term: 0.0 };
        for group in all.chunk_by(|left, right| left.0 == right.0) {
            // Ranks count from 1: the group's first is `before + 1`, its last `before + len`.
            let doubled = 2 * ranked.doubled_ranks.len() + group.len() + 1;
            ranked.doubled_sum += doubled * group.iter().filter(|(_, first)| *first).count();
            ranked.doubled_ranks.extend(group.iter().map(|_| doubled));
            let ties = group.len() as f64;
            ranked.tie_term += ties * ties * ties - ties;
        }
        ranked
    }

    fn u(&self, count: usize) -> f64 {
        (self.doubled_sum as f64 - (count * (count + 1)) as f64) / 2.0
    }
}

/// The share of all ways to give `count` of the ranks to the first set whose sum lies at least as far from the middle as
/// `sum` does. Counted by adding one rank after the other, so ties are exact too.
fn exact_p(doubled_ranks: &[usize], count: usize, sum: usize) -> f64 {
    let total: usize = doubled_ranks.iter().sum();
    // `ways[k][s]`: ways to choose `k` ranks that sum to `s`. At most C(40, 20), which an f64 holds exactly.
    let mut ways = vec![vec![0.0f64; total + 1]; count + 1];
    ways[0][0] = 1.0;
    for (seen, rank) in doubled_ranks.iter().enumerate() {
        for chosen in (0..count.min(seen + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(chosen + 1);
            let (Some(from), Some(to)) = (fewer.last(), more.first_mut()) else { continue };
            for (to, from) in to.iter_mut().skip(*rank).zip(from) {
                *to += from;
            }
        }
    }
    let Some(last) = ways.last() else { return 1.0 };
    // The middle is `count * total / all`: both sides times `all` to stay whole.
    let all = doubled_ranks.len();
    let distance = |sum: usize| (sum * all).abs_diff(count * total);
    let observed = distance(sum);
    let every: f64 = last.iter().sum();
    let far: f64 =
        last.iter().enumerate().filter(|(sum, _)| distance(*sum) >= observed).map(|(_, ways)| ways).sum();
    (far / every).clamp(0.0, 1.0)
}

/// The normal approximation with corrections for ties and continuity.
fn normal_p(u: f64, these: usize, those: usize, tie_term: f64) -> f64 {
    let (n1, n2) = (these as f64, those as f64);
    let all = n1 + n2;
    let variance = n1 * n2 / 12.0 * (all + 1.0 - tie_term / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - n1 * n2 / 2.0).abs() - 0.5).max(0.0);
    both_tails(distance / variance.sqrt())
}

/// The probability that a standard normal figure lies at least `z` from 0. `erfc` after Numerical Recipes (3rd edition,
/// 6.2.2, the form by Chebyshev's fit): relative error below 1.2e-7 everywhere.
fn both_tails(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 2.0 / (2.0 + x);
    const FIT: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let polynomial = FIT.iter().rev().fold(0.0, |sum, coefficient| sum * t + coefficient);
    (t * (-x * x + polynomial).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-6
    }

    #[test]
    fn known_cases() {
        // Counted by hand: of C(6, 3) = 20 splits one lies at each end.
        let apart = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert_eq!((apart.u, apart.effect, apart.exact), (0.0, 0.0, true));
        assert!(close(apart.p, 0.1) && !apart.is_significant());
        assert!(close(MannWhitney::smallest_p(3, 3), 0.1));
        // C(10, 5) = 252.
        let five = mann_whitney(&[6.0, 7.0, 8.0, 9.0, 10.0], &[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!(close(five.p, 2.0 / 252.0) && five.effect == 1.0 && five.is_significant());
        // Equal figures only: nothing to tell apart.
        let same = mann_whitney(&[1.0; 4], &[1.0; 5]).unwrap();
        assert_eq!((same.effect, same.p), (0.5, 1.0));
        assert_eq!(mann_whitney(&[], &[1.0]), None);
    }

    #[test]
    fn large_sets_are_approximated() {
        let these: Vec<f64> = (0..30).map(f64::from).collect();
        let same = mann_whitney(&these, &these).unwrap();
        assert!(!same.exact && close(same.effect, 0.5) && same.p > 0.99);
        let moved: Vec<f64> = these.iter().map(|value| value + 15.0).collect();
        let apart = mann_whitney(&moved, &these).unwrap();
        assert!(apart.p < 1e-5 && apart.effect > 0.8);
        assert_eq!(mann_whitney(&[1.0; 30], &[1.0; 30]).unwrap().p, 1.0);
    }

    #[test]
    fn the_normal_tails_are_the_books() {
        for (z, p) in
            [(0.0, 1.0), (1.0, 0.317_310_5), (1.959_964, 0.05), (3.0, 0.002_699_796), (6.0, 1.973e-9)]
        {
            assert!((both_tails(z) - p).abs() <= 2e-7 * p.max(1e-2), "{z}: {}", both_tails(z));
        }
    }

    proptest! {
        #[test]
        fn the_order_of_the_sets_turns_the_effect_alone(
            these in proptest::collection::vec(0u8..20, 1..12), those in proptest::collection::vec(0u8..20, 1..12),
        ) {
            let these: Vec<f64> = these.into_iter().map(f64::from).collect();
            let those: Vec<f64> = those.into_iter().map(f64::from).collect();
            let (one, other) = (mann_whitney(&these, &those).unwrap(), mann_whitney(&those, &these).unwrap());
            prop_assert!(close(one.p, other.p) && close(one.effect + other.effect, 1.0));
            prop_assert!((0.0..=1.0).contains(&one.p));
            // Equal figures can make one end rarer than the other, which halves the smallest.
            prop_assert!(one.p >= MannWhitney::smallest_p(these.len(), those.len()) / 2.0 - 1e-9);
        }

        #[test]
        fn exact_and_approximate_agree_for_middling_sets(
            these in proptest::collection::vec(0u32..1000, 15..20), those in proptest::collection::vec(0u32..1000, 15..20),
        ) {
            let these: Vec<f64> = these.into_iter().map(f64::from).collect();
            let those: Vec<f64> = those.into_iter().map(f64::from).collect();
            let ranked = Ranked::of(&these, &those);
            let exact = exact_p(&ranked.doubled_ranks, these.len(), ranked.doubled_sum);
            let normal = normal_p(ranked.u(these.len()), these.len(), those.len(), ranked.tie_term);
            prop_assert!((exact - normal).abs() < 0.02, "{exact} and {normal}");
        }

        #[test]
        fn stretching_the_scale_changes_nothing(
            these in proptest::collection::vec(1.0f64..1e4, 1..10), those in proptest::collection::vec(1.0f64..1e4, 1..10),
        ) {
            let stretch = |values: &[f64]| values.iter().map(|value| value * 4.0 + 1.0).collect::<Vec<f64>>();
            prop_assert_eq!(mann_whitney(&these, &those), mann_whitney(&stretch(&these), &stretch(&those)));
        }
    }
}
