//! What a binary says of itself: the machine it is for, and the C library it needs.

use std::path::Path;

use anyhow::{Context, bail};

/// A Linux binary.
pub(crate) struct Elf {
    /// As in target triples: `x86_64`.
    pub(crate) machine: &'static str,
    /// As in Debian packages: `amd64`.
    pub(crate) debian: &'static str,
    /// The newest version of glibc of which it uses a symbol, such as (2, 34). `None` for a static binary.
    pub(crate) glibc: Option<(u32, u32)>,
}

impl Elf {
    /// Reads a binary.
    ///
    /// # Errors
    /// When it can't be read, or is none for Linux on x86-64 or AArch64.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&bytes).with_context(|| path.display().to_string())
    }

    fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        // e_ident: magic, 64 bits, little endian; e_machine at 18 (ELF-64 object file format).
        if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
            bail!("not a 64-bit little-endian ELF file");
        }
        let machine = bytes.get(18..20).map(|two| u16::from_le_bytes([two[0], two[1]]));
        let (machine, debian) = match machine {
            Some(62) => ("x86_64", "amd64"),
            Some(183) => ("aarch64", "arm64"),
            other => bail!("machine {other:?} is neither x86-64 (62) nor AArch64 (183)"),
        };
        Ok(Self { machine, debian, glibc: newest_glibc(bytes) })
    }
}

/// The highest version among the symbol versions `GLIBC_2.34`.
fn newest_glibc(bytes: &[u8]) -> Option<(u32, u32)> {
    const PREFIX: &[u8] = b"GLIBC_";
    let starts = bytes.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX);
    starts.filter_map(|(at, _)| version(bytes.get(at + PREFIX.len()..)?)).max()
}

/// `2.34` before the NUL that ends a name.
fn version(bytes: &[u8]) -> Option<(u32, u32)> {
    let end = bytes.iter().take(12).position(|byte| *byte == 0)?;
    let (major, rest) = std::str::from_utf8(&bytes[..end]).ok()?.split_once('.')?;
    let minor = rest.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01".to_vec();
        bytes.resize(18, 0);
        bytes.extend([machine, 0]);
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn machine_and_glibc_are_read() {
        let found = Elf::parse(&elf(183, b"..GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.17\0GLIBC_PRIVATE\0")).unwrap();
        assert_eq!((found.machine, found.debian, found.glibc), ("aarch64", "arm64", Some((2, 34))));
        assert_eq!(Elf::parse(&elf(62, b"")).unwrap().glibc, None);
    }

    #[test]
    fn other_files_are_refused() {
        for bytes in [b"#!/bin/sh\n".to_vec(), Vec::new(), elf(3, b""), b"\x7fELF\x02\x01".to_vec()] {
            assert!(Elf::parse(&bytes).is_err());
        }
    }
}
