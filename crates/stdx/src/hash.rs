//! A hash, and equality, for short keys on the request path.
//!
//! The standard library's hasher takes about 100 instructions for an IP address, this one 20. It is seeded, but some
//! keys hash to 0 under every seed (see [`hash`]). It is used only where a collision costs time but never an answer: a
//! lookup compares the key itself. For that a call to `memcmp` takes 20 instructions and more, which [`same`] avoids for
//! keys of up to 16 bytes.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Odd constants without structure: digits of pi's and e's fractions.
const K1: u64 = 0x243f_6a88_85a3_08d3;
const K2: u64 = 0xb7e1_5162_8aed_2a6b;

/// A seed that differs from process to process.
#[must_use]
pub fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The hash of `bytes` under `seed`. Chain calls, each seeded by the one before, for keys of several parts.
///
/// The seed doesn't protect against keys made to collide: a block of 16 bytes whose second half is `K2` (little-endian)
/// makes the state 0, and so do such last eight bytes of a shorter rest, under every seed. UTF-8 texts can't hold
/// these bytes; for keys of arbitrary bytes from clients use the standard library's hasher.
#[must_use]
#[inline]
pub fn hash(seed: u64, bytes: &[u8]) -> u64 {
    // The length keeps a part's end apart from the next part's start.
    let mut state = seed ^ (bytes.len() as u64).wrapping_mul(K2);
    let mut rest = bytes;
    while let Some((block, tail)) = rest.split_first_chunk::<16>() {
        let [low, high] = halves(block);
        state = fold(low ^ K1 ^ state, high ^ K2);
        rest = tail;
    }
    let (low, high) = ends(rest);
    fold(low ^ K1 ^ state, high ^ K2)
}

/// Whether `a` and `b` are equal.
#[must_use]
#[inline]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    // Many keys are empty: an absent label, a route without a name.
    a.len() == b.len() && (a.is_empty() || if a.len() <= 16 { short_same(a, b) } else { a == b })
}

/// Equality of slices of one length, at most 16: by their first and last eight bytes, or four, which may overlap.
#[inline(always)]
fn short_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() >= 8 {
        a.first_chunk::<8>() == b.first_chunk() && a.last_chunk::<8>() == b.last_chunk()
    } else if a.len() >= 4 {
        a.first_chunk::<4>() == b.first_chunk() && a.last_chunk::<4>() == b.last_chunk()
    } else {
        a.iter().zip(b).all(|(a, b)| a == b)
    }
}

/// The product's two halves on top of each other: every bit of the input reaches every bit of the result.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[inline]
fn halves(block: &[u8; 16]) -> [u64; 2] {
    let whole = u128::from_le_bytes(*block);
    [whole as u64, (whole >> 64) as u64]
}

/// Up to 15 bytes as two numbers: the first and the last eight, or four, which may overlap.
#[inline]
fn ends(bytes: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
    } else {
        (bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_that_differ_anywhere_hash_apart() {
        let text = b"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
        let mut seen = HashSet::new();
        for end in 0..=text.len() {
            assert!(seen.insert(hash(7, &text[..end])), "length {end}");
            for at in 0..end {
                let mut changed = text[..end].to_vec();
                changed[at] ^= 1;
                assert!(seen.insert(hash(7, &changed)), "length {end}, byte {at}");
            }
        }
        assert_ne!(hash(7, b"10.0.0.1"), hash(8, b"10.0.0.1"));
    }

    #[test]
    fn a_block_that_ends_in_the_second_constant_hashes_to_zero_under_every_seed() {
        let key = [b"any byte", &K2.to_le_bytes()[..]].concat();
        for seed in [0, 7, u64::MAX] {
            assert_eq!(hash(seed, &key[..]), hash(0, &key[..]), "its state is 0 before the empty rest");
            assert_eq!(hash(seed, &key[1..]), 0, "15 bytes, all of them the rest");
        }
    }

    #[test]
    fn keys_are_the_same_where_every_byte_is() {
        let text = b"abcdefghijklmnopqrstuvwxyz";
        for end in 0..=text.len() {
            assert!(same(&text[..end], &Vec::from(&text[..end])), "length {end}");
            assert!(!same(&text[..end], b"abcdefghijklmnopqrstuvwxyz."), "length {end}");
            for at in 0..end {
                let mut changed = text[..end].to_vec();
                changed[at] ^= 0x80;
                assert!(!same(&text[..end], &changed), "length {end}, byte {at}");
            }
        }
    }

    #[test]
    fn low_bits_spread_over_a_table() {
        let slots: HashSet<u64> = (0..1024u32)
            .map(|i| hash(1, format!("10.0.{}.{}", i / 256, i % 256).as_bytes()) % 4096)
            .collect();
        // 1024 balls into 4096 bins leave about 906 of them hit; a tenth fewer would be a bad hash.
        assert!(slots.len() > 815, "{}", slots.len());
    }
}
