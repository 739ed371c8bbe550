//! Two members taken at random, of which a balancer then takes the better one: nearly as good as looking at all of them,
//! at the same cost for a thousand as for two.

use crate::pick::Open;
use crate::random::Random;

/// How many pairs are drawn before the open members are counted. With half of the members closed three pairs in four
/// are drawn in vain: eight draws leave one pick in ten that counts.
const DRAWS: u32 = 8;

/// Two different open members in random order; the only one twice.
#[inline]
pub(crate) fn pair(random: &mut Random, open: &Open<'_>) -> Option<(usize, usize)> {
    // One member alone makes no pair.
    let draws = if open.members() > 1 { DRAWS } else { 0 };
    for _ in 0..draws {
        let (a, b) = draw(random, open.members());
        if open.has(a) && open.has(b) {
            return Some((a, b));
        }
    }
    counted(random, open)
}

/// As [`pair`], drawn among the open members alone.
#[cold]
fn counted(random: &mut Random, open: &Open<'_>) -> Option<(usize, usize)> {
    let (a, b) = match open.iter().count() {
        0 | 1 => (0, 0),
        count => draw(random, count),
    };
    Some((open.iter().nth(a)?, open.iter().nth(b)?))
}

/// Two different numbers below `count`, which is 2 or more, in random order.
#[inline]
fn draw(random: &mut Random, count: usize) -> (usize, usize) {
    let a = random.below(count);
    let b = random.below(count.saturating_sub(1));
    (a, if b >= a { b + 1 } else { b })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pick::testing;

    #[test]
    fn open_members_are_drawn_evenly_however_many_are_closed() {
        for closed in [0_usize, 1, 5, 8, 9] {
            let mut random = Random::new(3);
            let tried: Vec<usize> = (0..closed).collect();
            let mut counts = [0_u32; 10];
            for _ in 0..10_000 {
                let (a, b) = testing::open(10, &tried, |open| pair(&mut random, open)).unwrap();
                assert!(a != b || closed == 9);
                counts[a] += 1;
            }
            assert!(counts[..closed].iter().all(|&n| n == 0));
            let expected = 10_000 / (10 - closed as u32);
            assert!(counts[closed..].iter().all(|&n| n.abs_diff(expected) < 200), "{counts:?}");
        }
    }
}
