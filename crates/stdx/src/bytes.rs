//! The search for a byte, several bytes at a time: sixteen with SSE2, which every x86-64 processor has, eight with plain
//! arithmetic elsewhere and where fewer are left. What is looked for may be put together: `(Byte::<b'?'>, NonAscii)`. For texts so short that a call to a vectorised search would be dearer
//! than the search.

/// A one in each of eight bytes.
const ONES: u64 = u64::from_ne_bytes([1; 8]);

/// The high bit of each of eight bytes.
const HIGH: u64 = ONES << 7;

/// What is looked for.
pub trait Wanted: Copy {
    /// Whether this byte is.
    fn is(self, byte: u8) -> bool;

    /// Which of sixteen bytes are, the first in the lowest bit.
    #[cfg(target_arch = "x86_64")]
    fn in_sixteen(self, block: &[u8; 16]) -> u32;

    /// Flags in the high bits of those of eight bytes that are, the first byte lowest. The lowest flag is exact; those
    /// above it may be the borrow of a subtraction.
    fn in_eight(self, word: u64) -> u64;
}

/// One byte.
#[derive(Debug, Clone, Copy)]
pub struct Byte<const BYTE: u8>;

/// The bytes up to `LAST`, which is below 0x7f, and DEL: control characters, and more where `LAST` is not one.
#[derive(Debug, Clone, Copy)]
pub struct Control<const LAST: u8>;

/// The bytes with their high bit set.
#[derive(Debug, Clone, Copy)]
pub struct NonAscii;

/// The bytes from `FIRST` to `LAST`, which are ASCII.
#[derive(Debug, Clone, Copy)]
pub struct Range<const FIRST: u8, const LAST: u8>;

/// All bytes but these.
#[derive(Debug, Clone, Copy)]
pub struct Not<W>(pub W);

/// What sets no flag that is not true: see [`Wanted::in_eight`].
pub trait Exact: Wanted {}

impl<const BYTE: u8> Wanted for Byte<BYTE> {
    #[inline(always)]
    fn is(self, byte: u8) -> bool {
        byte == BYTE
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn in_sixteen(self, block: &[u8; 16]) -> u32 {
        sse2::equal(block, BYTE)
    }

    #[inline(always)]
    fn in_eight(self, word: u64) -> u64 {
        let difference = word ^ (ONES * u64::from(BYTE));
        difference.wrapping_sub(ONES) & !difference & HIGH
    }
}

impl<const LAST: u8> Wanted for Control<LAST> {
    #[inline(always)]
    fn is(self, byte: u8) -> bool {
        byte <= LAST || byte == 0x7f
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn in_sixteen(self, block: &[u8; 16]) -> u32 {
        sse2::at_most_or(block, LAST, 0x7f)
    }

    #[inline(always)]
    fn in_eight(self, word: u64) -> u64 {
        let less = word.wrapping_sub(ONES * u64::from(LAST + 1));
        let delete = (word & !HIGH) + ONES;
        (less | delete) & !word & HIGH
    }
}

impl Wanted for NonAscii {
    #[inline(always)]
    fn is(self, byte: u8) -> bool {
        !byte.is_ascii()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn in_sixteen(self, block: &[u8; 16]) -> u32 {
        sse2::high(block)
    }

    #[inline(always)]
    fn in_eight(self, word: u64) -> u64 {
        word & HIGH
    }
}

impl<const FIRST: u8, const LAST: u8> Wanted for Range<FIRST, LAST> {
    #[inline(always)]
    fn is(self, byte: u8) -> bool {
        (FIRST..=LAST).contains(&byte)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn in_sixteen(self, block: &[u8; 16]) -> u32 {
        sse2::between(block, FIRST, LAST)
    }

    #[inline(always)]
    fn in_eight(self, word: u64) -> u64 {
        // The high bits keep each byte's difference from borrowing of the next.
        let at_least_first = (word | HIGH) - ONES * u64::from(FIRST);
        let above_last = (word | HIGH) - ONES * u64::from(LAST + 1);
        at_least_first & !above_last & !word & HIGH
    }
}

impl<const FIRST: u8, const LAST: u8> Exact for Range<FIRST, LAST> {}

impl<W: Exact> Wanted for Not<W> {
    #[inline(always)]
    fn is(self, byte: u8) -> bool {
        !self.0.is(byte)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn in_sixteen(self, block: &[u8; 16]) -> u32 {
        !self.0.in_sixteen(block) & 0xffff
    }

    #[inline(always)]
    fn in_eight(self, word: u64) -> u64 {
        !self.0.in_eight(word) & HIGH
    }
}

impl<A: Exact, B: Exact> Exact for (A, B) {}

/// What is either.
impl<A: Wanted, B: Wanted> Wanted for (A, B) {
    #[inline(always)]
    fn is(self, byte: u8) -> bool {
        self.0.is(byte) || self.1.is(byte)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn in_sixteen(self, block: &[u8; 16]) -> u32 {
        self.0.in_sixteen(block) | self.1.in_sixteen(block)
    }

    #[inline(always)]
    fn in_eight(self, word: u64) -> u64 {
        self.0.in_eight(word) | self.1.in_eight(word)
    }
}

/// Where the first byte that is `wanted` stands in `bytes`.
#[must_use]
#[inline(always)]
pub fn find(bytes: &[u8], wanted: impl Wanted) -> Option<usize> {
    let (mut rest, mut seen) = (bytes, 0);
    #[cfg(target_arch = "x86_64")]
    while let Some((block, after)) = rest.split_first_chunk() {
        let flags = wanted.in_sixteen(block);
        if flags != 0 {
            return Some(seen + flags.trailing_zeros() as usize);
        }
        (rest, seen) = (after, seen + 16);
    }
    while let Some((word, after)) = rest.split_first_chunk() {
        let flags = wanted.in_eight(u64::from_le_bytes(*word));
        if flags != 0 {
            return Some(seen + flags.trailing_zeros() as usize / 8);
        }
        (rest, seen) = (after, seen + 8);
    }
    rest.iter().position(|byte| wanted.is(*byte)).map(|at| seen + at)
}

/// `bytes` in two parts, the second of which begins with the first byte that is `wanted`. As [`find`], for who goes on with
/// both parts: nothing has to be checked again.
#[must_use]
#[inline(always)]
#[expect(unsafe_code, reason = "where a byte was found the slice may be parted")]
pub fn split(bytes: &[u8], wanted: impl Wanted) -> Option<(&[u8], &[u8])> {
    let at = find(bytes, wanted)?;
    // SAFETY: what `find` returns is the position of a byte of `bytes`.
    Some(unsafe { bytes.split_at_unchecked(at) })
}

/// Whether the first `length` of `bytes`, which has so many, are `wanted`. Up to sixteen are looked at together, where bytes
/// behind them may be read along; they don't count.
#[must_use]
#[inline(always)]
pub fn all(bytes: &[u8], length: usize, wanted: impl Wanted) -> bool {
    #[cfg(target_arch = "x86_64")]
    if length <= 16
        && let Some(block) = bytes.first_chunk()
    {
        return !wanted.in_sixteen(block) & ((1 << length) - 1) == 0;
    }
    bytes.iter().take(length).all(|byte| wanted.is(*byte))
}

/// Whether one of the first `length` of `bytes` is `first` and the one after it `second`. Bytes further on are read along
/// with them and don't count.
#[must_use]
#[inline(always)]
pub fn has_pair(bytes: &[u8], length: usize, first: impl Wanted, second: impl Wanted) -> bool {
    let (mut rest, mut left) = (bytes, length);
    #[cfg(target_arch = "x86_64")]
    while left > 0
        && let Some((block, _)) = rest.split_first_chunk()
        && let Some(shifted) = rest[1..].first_chunk()
    {
        let flags = first.in_sixteen(block) & second.in_sixteen(shifted);
        if left <= 16 {
            return flags & ((1 << left) - 1) != 0;
        }
        if flags != 0 {
            return true;
        }
        (rest, left) = (&rest[16..], left - 16);
    }
    rest.windows(2).take(left).any(|pair| first.is(pair[0]) && second.is(pair[1]))
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector instructions that every processor of this architecture has")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_max_epu8, _mm_min_epu8, _mm_movemask_epi8,
        _mm_or_si128, _mm_set1_epi8,
    };

    /// The bytes of `block` that are `byte`.
    #[inline(always)]
    pub(super) fn equal(block: &[u8; 16], byte: u8) -> u32 {
        // SAFETY: SSE2 is part of x86-64, and the sixteen bytes are there, at whatever address.
        unsafe {
            let block = _mm_loadu_si128(block.as_ptr().cast::<__m128i>());
            let equal = _mm_cmpeq_epi8(block, _mm_set1_epi8(byte.cast_signed()));
            _mm_movemask_epi8(equal).cast_unsigned()
        }
    }

    /// The bytes of `block` from `first` to `last`.
    #[inline(always)]
    pub(super) fn between(block: &[u8; 16], first: u8, last: u8) -> u32 {
        // SAFETY: as above.
        unsafe {
            let block = _mm_loadu_si128(block.as_ptr().cast::<__m128i>());
            let first = _mm_set1_epi8(first.cast_signed());
            let last = _mm_set1_epi8(last.cast_signed());
            let within = _mm_min_epu8(_mm_max_epu8(block, first), last);
            _mm_movemask_epi8(_mm_cmpeq_epi8(within, block)).cast_unsigned()
        }
    }

    /// The bytes of `block` whose high bit is set.
    #[inline(always)]
    pub(super) fn high(block: &[u8; 16]) -> u32 {
        // SAFETY: as above.
        unsafe { _mm_movemask_epi8(_mm_loadu_si128(block.as_ptr().cast::<__m128i>())).cast_unsigned() }
    }

    /// The bytes of `block` that are no greater than `last`, or are `byte`.
    #[inline(always)]
    pub(super) fn at_most_or(block: &[u8; 16], last: u8, byte: u8) -> u32 {
        // SAFETY: as above.
        unsafe {
            let block = _mm_loadu_si128(block.as_ptr().cast::<__m128i>());
            let last = _mm_set1_epi8(last.cast_signed());
            let at_most = _mm_cmpeq_epi8(_mm_max_epu8(block, last), last);
            let equal = _mm_cmpeq_epi8(block, _mm_set1_epi8(byte.cast_signed()));
            _mm_movemask_epi8(_mm_or_si128(at_most, equal)).cast_unsigned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the search byte by byte, wherever the byte stands and whatever stands around it.
    fn agrees(wanted: impl Wanted) {
        for length in 0..40 {
            for at in 0..length {
                for byte in 0..=255 {
                    for filler in [b'a', 0x80, 0xff] {
                        let mut bytes = vec![filler; length];
                        bytes[at] = byte;
                        let expected = bytes.iter().position(|byte| wanted.is(*byte));
                        assert_eq!(find(&bytes, wanted), expected, "{byte} at {at} of {length}");
                        for word in bytes.as_chunks::<8>().0 {
                            let flags = wanted.in_eight(u64::from_le_bytes(*word));
                            let found = (flags != 0).then(|| flags.trailing_zeros() as usize / 8);
                            assert_eq!(found, word.iter().position(|byte| wanted.is(*byte)), "{word:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_byte_is_found_wherever_it_stands() {
        agrees(Byte::<b':'>);
        agrees(Control::<0x1f>);
        agrees(Control::<b' '>);
        agrees((Byte::<b'?'>, (Control::<b' '>, NonAscii)));
        agrees(Range::<b'a', b'z'>);
        agrees(Not((Range::<b'a', b'a'>, Range::<0, 0x7f>)));
        agrees(Not((Range::<b'a', b'z'>, Range::<b'0', b'9'>)));
    }

    /// Compares what is found in eight bytes with the search byte by byte, for all pairs of neighbours: a false flag comes
    /// from the borrow out of the byte below.
    fn agrees_on_pairs(wanted: impl Wanted, exact: bool) {
        for at in 0..7 {
            for pair in 0..=u16::MAX {
                for filler in [0, b'a', 0x80, 0xff] {
                    let mut bytes = [filler; 8];
                    bytes[at..at + 2].copy_from_slice(&pair.to_le_bytes());
                    let flags = wanted.in_eight(u64::from_le_bytes(bytes));
                    let first = bytes.iter().position(|byte| wanted.is(*byte));
                    assert_eq!((flags != 0).then(|| flags.trailing_zeros() as usize / 8), first, "{bytes:?}");
                    if exact {
                        let all = flags.to_le_bytes().map(|flag| flag != 0);
                        assert_eq!(all, bytes.map(|byte| wanted.is(byte)), "{bytes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_lowest_of_eight_flags_is_exact_whatever_the_neighbours_are() {
        agrees_on_pairs(Byte::<b':'>, false);
        agrees_on_pairs(Byte::<0>, false);
        agrees_on_pairs(Byte::<0xff>, false);
        agrees_on_pairs(Control::<0x1f>, false);
        agrees_on_pairs(Control::<b' '>, false);
        agrees_on_pairs((Control::<b' '>, (Byte::<b'#'>, NonAscii)), false);
        agrees_on_pairs(Range::<b'a', b'z'>, true);
        agrees_on_pairs(Range::<0, 0x7f>, true);
        agrees_on_pairs((Range::<b'a', b'z'>, (Range::<b'0', b'9'>, Range::<b'-', b'.'>)), true);
        agrees_on_pairs(Not((Range::<b'a', b'z'>, (Range::<b'0', b'9'>, Range::<b'-', b'.'>))), false);
    }

    #[test]
    fn all_looks_at_so_many_bytes_and_no_further() {
        const SMALL: (Range<b'a', b'z'>, Byte<b'-'>) = (Range, Byte);
        for size in 0..40 {
            for other in 0..=size {
                let mut bytes = vec![b'a'; size];
                bytes.iter_mut().skip(other).step_by(3).for_each(|byte| *byte = b'_');
                for length in 0..=size {
                    assert_eq!(all(&bytes, length, SMALL), length <= other, "{length} of {bytes:?}");
                }
                let expected = (other < size).then(|| bytes.split_at(other));
                assert_eq!(split(&bytes, Byte::<b'_'>), expected, "{bytes:?}");
            }
        }
    }

    #[test]
    fn a_pair_is_found_wherever_it_stands_and_nothing_behind_it() {
        for size in 0..40 {
            for at in 0..size {
                let mut bytes = vec![b'/'; size];
                bytes.iter_mut().skip(1).step_by(2).for_each(|byte| *byte = b'x');
                bytes[at] = b'/';
                for length in 0..=size {
                    let expected = bytes.windows(2).take(length).any(|pair| pair == b"//");
                    let found = has_pair(&bytes, length, Byte::<b'/'>, (Byte::<b'/'>, Byte::<b'.'>));
                    assert_eq!(found, expected, "{length} of {:?}", bytes.escape_ascii().to_string());
                }
            }
        }
    }
}
