//! A mutator without feedback, for drivers on stable Rust: inputs made of seeds, words and noise, the same for the same
//! seed.

/// Inputs grow no longer than this: past it a target spends its time on copying.
const INPUT_BYTES_MAX: usize = 4096;

/// Bytes on which parsers decide.
const SPECIAL: &[u8] = b"\r\n\0\t :-_;,=/%&.\"'\\{}[]()<>@#$*+?~|!09azAZ\x0b\x0c\x1f\x7f\x80\xa0\xad\xff";

/// Makes inputs of others.
#[derive(Debug, Clone)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// A mutator whose choices depend on `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next input: one of `seeds` after one to eight changes, now and then noise. `words` are inserted as they are.
    pub fn next(&mut self, seeds: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
        let mut input = match self.below(16) {
            0 => Vec::new(),
            _ if seeds.is_empty() => Vec::new(),
            _ => seeds[self.below(seeds.len())].clone(),
        };
        for _ in 0..=self.below(8) {
            self.change(&mut input, seeds, words);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
        let at = self.below(input.len() + 1);
        let part = at..(at + 1 + self.below(8)).min(input.len());
        match self.below(10) {
            0 if !input.is_empty() => input[at.min(part.end.max(1) - 1)] ^= 1 << self.below(8),
            1 if !part.is_empty() => input[at] = self.byte(),
            2 if !part.is_empty() => input[at] = SPECIAL[self.below(SPECIAL.len())],
            3 if !part.is_empty() => drop(input.drain(part)),
            4 if !part.is_empty() => {
                let copy = input[part].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, copy);
            }
            5 if !seeds.is_empty() => {
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len() + 1);
                let to = from + self.below(other.len() - from + 1);
                input.splice(at..at, other[from..to].iter().copied());
            }
            6 => input.truncate(at),
            7 => {
                let noise: Vec<u8> = (0..=self.below(8)).map(|_| self.byte()).collect();
                input.splice(at..at, noise);
            }
            8 => input.insert(at, SPECIAL[self.below(SPECIAL.len())]),
            _ if !words.is_empty() => {
                let word = words[self.below(words.len())];
                // Over what stands there, or before it.
                let end = if self.below(2) == 0 { at } else { (at + word.len()).min(input.len()) };
                input.splice(at..end, word.bytes());
            }
            _ => {}
        }
    }

    fn byte(&mut self) -> u8 {
        self.next_number().to_le_bytes()[0]
    }

    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        // The high half of the product: no bias worth a division at these sizes.
        let product = u128::from(self.next_number()) * bound as u128;
        usize::try_from(product >> 64).unwrap_or_default()
    }

    /// SplitMix64.
    fn next_number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.state;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_depend_on_the_seed_alone_and_are_bounded() {
        let seeds = [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0; INPUT_BYTES_MAX]];
        let made = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..1000).map(|_| mutator.next(&seeds, &["word"])).collect::<Vec<_>>()
        };
        let inputs = made(1);
        assert_eq!(inputs, made(1));
        assert_ne!(inputs, made(2));
        assert!(inputs.iter().all(|input| input.len() <= INPUT_BYTES_MAX));
        assert!(inputs.iter().any(|input| input.windows(4).any(|window| window == b"word")));
        assert!(Mutator::new(1).next(&[], &[]).len() <= INPUT_BYTES_MAX);
    }
}
